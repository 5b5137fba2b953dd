"""Laboratories without a cluster: one with given losses, and a quadratic with a known optimum."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

import numpy as np

from roles.coordination.probing import fell
from roles.tuning.choices import Setting, Trial
from roles.tuning.judgement import THRESHOLD

Losses = Callable[[Setting, int], float]  # the loss of a setting at an iteration


class Written:
    """A laboratory with given losses. `losses(setting, iteration)` is the loss, and NaN or infinity
    if training diverges there. `seconds(groups)` is the time of an iteration. With `keeps`, a probe
    that shall be kept is kept if its loss falls, and iterations continue from there.

    From the first probe on, its model predicts `predicted`, by groups: without it the true
    seconds."""

    def __init__(
        self,
        losses: Losses,
        seconds: Callable[[int], float] = lambda groups: 1.0,
        *,
        beside: float = 0.0,
        keeps: bool = False,
        predicted: Mapping[int, float] | None = None,
    ) -> None:
        self._losses = losses
        self._seconds = seconds
        self.seconds: Mapping[int, float] = {}
        self._predicted = _known(seconds) if predicted is None else predicted
        self._beside = beside
        self._keeps = keeps
        self._done = 0
        self.asked: list[tuple[Setting, int]] = []

    async def probe(
        self,
        setting: Setting,
        iterations: int,
        seconds: float,
        *,
        kept: bool = False,
        falls: float = THRESHOLD,
    ) -> Trial:
        self.asked.append((setting, iterations))
        self.seconds = self._predicted
        each = self._seconds(setting.groups)
        if seconds:
            iterations = min(iterations, math.floor(seconds / each + 1e-9))
        losses: list[float] = []
        for at in range(iterations):
            loss = self._losses(setting, self._done + at)
            if not math.isfinite(loss):
                return Trial(
                    tuple(losses),
                    (len(losses) + 1) * each,
                    True,
                    (len(losses) + 1) * each + self._beside,
                )
            losses.append(loss)
        kept = kept and self._keeps and fell(losses, falls)
        self._done += len(losses) * kept
        return Trial(
            tuple(losses), len(losses) * each, cost=len(losses) * each + self._beside, kept=kept
        )


def _known(seconds: Callable[[int], float]) -> dict[int, float]:
    """The seconds of the numbers of groups that a laboratory has."""
    found = {}
    for groups in (1, 2, 4, 8, 16):
        with suppress(KeyError):
            found[groups] = seconds(groups)
    return found


class Quadratic:
    """Noisy SGD on sum(h w^2) / 2 + 0.1 by g groups that take turns, so that a gradient is g - 1
    updates old. It uses the coupled momentum of Caffe. Iteration n has the same samples in every
    probe. `now` is the kept model."""

    def __init__(
        self,
        seconds: Mapping[int, float],
        *,
        noise: float = 0.1,
        seed: int = 1,
        curvatures: Sequence[float] = (),
    ) -> None:
        self._h = np.array(curvatures or np.geomspace(0.05, 1.0, 8))
        self._noise = noise
        self._seed = seed
        self._seconds = dict(seconds)
        self.seconds: Mapping[int, float] = {}
        self.now = (np.ones_like(self._h), np.zeros_like(self._h))
        self.iteration = 0
        self.asked: list[tuple[Setting, int]] = []

    async def probe(
        self,
        setting: Setting,
        iterations: int,
        seconds: float,
        *,
        kept: bool = False,
        falls: float = THRESHOLD,
    ) -> Trial:
        self.asked.append((setting, iterations))
        self.seconds = self._seconds
        each = self._seconds[setting.groups]
        if seconds:
            iterations = min(iterations, math.floor(seconds / each + 1e-9))
        losses, model, diverged = self.learnt(setting, iterations)
        taken = (len(losses) + diverged) * each
        if kept := kept and not diverged and max(losses) <= 1.5 * losses[0] and fell(losses, falls):
            self.now = model
            self.iteration += len(losses)
        return Trial(tuple(losses), taken, diverged, taken, kept=kept)

    def train(self, setting: Setting, iterations: int) -> list[float]:
        """Train from the kept model."""
        losses, self.now, _ = self.learnt(setting, iterations)
        self.iteration += iterations
        return losses

    def learnt(
        self, setting: Setting, iterations: int
    ) -> tuple[list[float], tuple[np.ndarray, np.ndarray], bool]:
        """Train a copy of the kept model. Returns the losses, the new model, and whether it
        diverged."""
        chance = np.random.default_rng([self._seed, self.iteration])
        w, v = (part.copy() for part in self.now)
        old = [w.copy() for _ in range(setting.groups)]
        losses: list[float] = []
        for _ in range(iterations):
            seen = old.pop(0)
            sample = chance.normal(size=w.shape)
            loss = float(np.sum(self._h * seen * seen) / 2 * (1 + self._noise * sample[0]) + 0.1)
            if not math.isfinite(loss) or loss > 1e12:
                return losses, (w, v), True
            losses.append(loss)
            v = setting.momentum * v - setting.base_lr * (
                self._h * seen + self._noise * sample * 0.1
            )
            w = w + v
            old.append(w.copy())
        return losses, (w, v), False
