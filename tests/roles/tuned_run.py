"""A run that the tuner tunes, on virtual time, with stand-ins for the coordinator and for a model
server."""

from __future__ import annotations

import asyncio
import dataclasses
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from roles.messages import Held, Hold, Probe, Probed, Release, Released
from roles.tuning.choices import Choices, Setting
from roles.tuning.compensation import Compensation
from roles.tuning.gradient_statistics import GetGradientStatistics, GradientStatistics
from roles.tuning.record import Start
from roles.tuning.tuner import Tuner, TunerOptions
from runtime import Actor, ActorSpec, Envelope, MessageError, Topology
from runtime.plan.topology import Placement, ProcessSpec
from runtime.simulation.clock import run_virtual
from runtime.simulation.cluster import Journal, simulate
from tests.roles.laboratories import Quadratic

SECONDS = {1: 1.0, 2: 0.6, 4: 0.5}
BATCH = 16
MOMENTA = (0.0, 0.3, 0.6, 0.9)
FOLLOWS = Compensation(0.9, "omnivore")


class Coordinator(Actor):
    """A coordinator that trains a quadratic: `last` iterations, one after the other, while the run
    is not held. It refuses probes after `patience` of them, like a coordinator whose run winds
    down. It cuts the probe with the number `cut` and lets the run go on, like a coordinator whose
    run winds down during a probe. After that it accepts no requests. Twice the batch takes `slower`
    times as long. After a release, rates from `falls` on diverge within 5 iterations, if the release
    comes before iteration `bears_from`. With
    `follows`, momentum follows the number of groups, and a request that names one is reported. Three
    iterations after each release a script changes the settings, as the next of `regroups` says."""

    def __init__(
        self,
        *,
        last: int,
        base_lr: float = 0.1,
        patience: int = 1000,
        cut: int = 0,
        slower: float = 1.0,
        falls: float = math.inf,
        bears_from: float = math.inf,
        follows: bool = False,
        regroups: Sequence[Mapping[str, float]] = (),
    ) -> None:
        self._regroups = list(regroups)
        self._since = 0
        self._falls = falls
        self._bears_from = bears_from
        self._follows = follows
        self._slower = slower
        self._last = last
        self._patience = patience
        self._cut = cut
        self._lab = Quadratic(SECONDS)
        self._now = Setting(1, 0.9, base_lr, BATCH)
        self._held: asyncio.Event | None = None
        self._ended = asyncio.Event()  # the end of an iteration
        self.released = asyncio.Event()
        self.released.set()

    async def run(self) -> None:
        while self._lab.iteration < self._last:
            await self.released.wait()
            await asyncio.sleep(SECONDS[self._now.groups] * self._times(self._now))
            if self.released.is_set():
                self._lab.train(self._now, 1)
                self._ended.set()
        self.emit("finished", iterations=self._lab.iteration)

    async def on_hold(self, message: Hold, envelope: Envelope) -> None:
        self.released.clear()
        await asyncio.sleep(0.25)  # wait for the iteration in progress
        now = self._now
        held = Held(
            iteration=self._lab.iteration,
            workers=4,
            groups=now.groups,
            base_lr=now.base_lr,
            momentum=now.momentum,
            batch=now.batch,
            since=self._since,
            follows=self._follows,
        )
        await self.reply(envelope, held)

    async def on_probe(self, message: Probe, envelope: Envelope) -> None:
        self._patience -= 1
        if self._patience < 0:
            raise MessageError("bad_value", "the run ends")
        wanted = self._wanted(message)
        seconds = message.seconds / self._times(wanted)
        trial = await self._lab.probe(wanted, message.iterations, seconds, kept=message.kept)
        seconds = trial.seconds * self._times(wanted)
        # a probe is cut at the first iteration that ends after the limit
        was_cut = len(trial.losses) < message.iterations and not trial.diverged
        trial = dataclasses.replace(
            trial, seconds=max(seconds, message.seconds) if was_cut else seconds
        )
        await asyncio.sleep(trial.seconds + 0.1)  # and put the model back
        self._cut -= 1
        if self._cut == 0:
            self.released.set()
            await self.reply(
                envelope,
                Probed(losses=trial.losses[:4], seconds=trial.seconds * 4 / len(trial.losses)),
            )
            return
        await self.reply(
            envelope,
            Probed(
                losses=trial.losses, seconds=trial.seconds, diverged=trial.diverged, kept=trial.kept
            ),
        )

    async def on_release(self, message: Release, envelope: Envelope) -> None:
        self._now = self._wanted(message)
        if message.groups or message.batch:
            self._since = self._lab.iteration
        self.emit("released", **vars(self._now))
        self.released.set()
        begin = self._lab.iteration
        kept = self._lab.now
        is_bold = self._now.base_lr >= self._falls and begin < self._bears_from
        fell = bool(message.watched) and is_bold
        until = min(begin + (5 if fell else message.watched), self._last)
        while self._lab.iteration < until:
            self._ended.clear()
            await self._ended.wait()
            if self._regroups and self._lab.iteration - begin == 3:
                self._regroup(**self._regroups.pop(0))
        gone = self._lab.iteration - begin
        if fell:
            self.released.clear()
            self._lab.now = kept
            self._lab.iteration = begin
        now = self._now
        settings = {"groups": now.groups, "momentum": now.momentum, "base_lr": now.base_lr}
        released = Released(
            workers=4,
            batch=now.batch,
            follows=self._follows,
            iterations=gone,
            diverged=fell,
            **settings,
        )
        await self.reply(envelope, released)

    def _regroup(self, **values: float) -> None:
        """Change the settings, as at the request of a script."""
        self._follows = self._follows and "momentum" not in values
        self._now = self._now.but(**values)
        self._since = self._lab.iteration
        self.emit("regrouped", **vars(self._now))

    def _wanted(self, wish: Probe | Release) -> Setting:
        now = self._now
        groups = wish.groups or now.groups
        if self._follows and wish.momentum >= 0:
            self.emit("named", momentum=wish.momentum)
        before = FOLLOWS.momentum(groups) if self._follows else now.momentum
        return Setting(
            groups,
            before if wish.momentum < 0 else wish.momentum,
            now.base_lr if wish.base_lr < 0 else wish.base_lr,
            wish.batch or now.batch,
        )

    def _times(self, setting: Setting) -> float:
        """The time of an iteration relative to the first batch."""
        return self._slower ** math.log2(setting.batch / BATCH)


class Model(Actor):
    """A model server that reports the noise of its gradients, from the second request on."""

    def __init__(self, *, noise: float) -> None:
        self._noise = noise
        self._asked = 0

    async def on_get_gradient_statistics(
        self, message: GetGradientStatistics, envelope: Envelope
    ) -> None:
        self._asked += 1
        noise = self._noise if self._asked > 1 else math.nan
        unknown = dict.fromkeys(
            ("momentum", "groups", "staleness", "gradients", "gradients_error"), math.nan
        )
        await self.reply(
            envelope,
            GradientStatistics(
                iteration=0, updates=0, noise=noise, noise_error=noise / 10, **unknown
            ),
        )


def tuned(
    directory: Path,
    choices: Choices,
    start: Start | None = None,
    *,
    noise: float = math.nan,
    **coordinator: Any,
) -> Journal:
    options = TunerOptions(
        coordinator="coordinator", choices=choices, start=start, measuring=("model",)
    )
    actors = (
        ActorSpec("coordinator", "coordinator", {"last": choices.last, **coordinator}),
        ActorSpec("tuner", "tuner", options),
        ActorSpec("model", "model", {"noise": noise}),
    )
    links = (("tuner", "coordinator"), ("tuner", "model"))
    placement = Placement(
        Topology("roles", actors, links, "coordinator"),
        (ProcessSpec("here", "here", ("coordinator", "tuner", "model")),),
    )
    roles = {"coordinator": Coordinator, "tuner": Tuner, "model": Model}
    return run_virtual(simulate(placement, roles, directory=directory))


def everything(last: int, **more: Any) -> Choices:
    return Choices(
        **{"groups": (1, 2, 4), "momenta": MOMENTA, "rates": (0.1, 1.0, 10.0), "last": last, **more}
    )


def told(journal: Journal) -> list[str]:
    return [fields["why"] for fields in journal.of("tuning") if "groups" not in fields]


def choices_of(journal: Journal) -> list[dict[str, Any]]:
    return [fields for fields in journal.of("tuning") if "groups" in fields]
