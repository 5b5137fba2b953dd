"""Learning rates over time that cluster.toml gives: warm-up, then cosine, one-cycle, linear or
steps.

A schedule is a factor of the solver's `base_lr`. The factors are those of PyTorch's schedulers of
the same names, so a recipe for PyTorch gives the same rates here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

SOLVER = "solver"  # the kind that keeps the solver's lr_policy and adds a warm-up
PLATEAU = "plateau"  # the kind whose rate falls after tests without improvement
DECAYS = 0.1  # the factor of a step


@dataclass(frozen=True)
class RateSchedule:
    """A schedule, with all times in iterations.

    The rate rises from `warmup_from` times the rate in `warmup` iterations. `end`: the last factor.
    A step multiplies the rate by `factor`, at each iteration of `at` or after `every` iterations.
    `shape`: the curve of a one-cycle, "cosine" or "linear".
    """

    kind: str = SOLVER
    warmup: int = 0
    warmup_from: float = 0.01
    end: float = 0.0
    factor: float = DECAYS
    at: tuple[int, ...] = ()
    every: int = 0
    shape: str = "cosine"

    def rate_factor(self, iteration: int, last: int) -> float:
        """Return the factor of the rate in `iteration` (from 0) of `last` iterations."""
        if self.kind == "one-cycle":
            return _one_cycle(self, iteration, last)
        return self._warmed(iteration) * FACTORS[self.kind](self, iteration, last)

    def _warmed(self, iteration: int) -> float:
        """The factor of the warm-up, as PyTorch's LinearLR."""
        if iteration >= self.warmup:
            return 1.0
        return self.warmup_from + (1.0 - self.warmup_from) * iteration / self.warmup

    def passed(self, iteration: int, last: int) -> float:
        """Return the share of the iterations after the warm-up that have passed, from 0 to 1."""
        whole = last - self.warmup
        return min(1.0, max(0.0, (iteration - self.warmup) / whole)) if whole > 0 else 1.0


def _cosine(s: RateSchedule, iteration: int, last: int) -> float:
    return _between(1.0, s.end, s.passed(iteration, last), "cosine")


def _linear(s: RateSchedule, iteration: int, last: int) -> float:
    return _between(1.0, s.end, s.passed(iteration, last), "linear")


def _step(s: RateSchedule, iteration: int, last: int) -> float:
    steps = iteration // s.every if s.every else sum(iteration >= at for at in s.at)
    return s.factor**steps


def _one_cycle(s: RateSchedule, iteration: int, last: int) -> float:
    """Rise to the rate in the last iteration of the warm-up, and fall to `end` in the last
    iteration of all, as PyTorch's OneCycleLR."""
    top = s.warmup - 1
    if iteration < top:
        return _between(s.warmup_from, 1.0, iteration / top, s.shape)
    fall = last - 1 - top
    return _between(1.0, s.end, min(1.0, (iteration - top) / fall) if fall > 0 else 0.0, s.shape)


def _between(first: float, last: float, share: float, shape: str) -> float:
    """The value on the way from `first` to `last`."""
    if shape == "linear":
        return first + (last - first) * share
    return last + (first - last) / 2.0 * (1.0 + math.cos(math.pi * share))


Factor = Callable[[RateSchedule, int, int], float]
FACTORS: dict[str, Factor] = {
    "cosine": _cosine,
    "linear": _linear,
    "step": _step,
    PLATEAU: lambda s, iteration, last: 1.0,
    SOLVER: lambda s, iteration, last: 1.0,
}
KINDS = (*FACTORS, "one-cycle")
