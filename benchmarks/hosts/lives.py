"""The lives of both sides for `benchmarks.hosts.learning`: on slow machines, until a loss is reached."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any

from benchmarks.helpers import logins
from benchmarks.helpers.machines import Machine
from benchmarks.helpers.quotas import Quota
from benchmarks.hosts import clusters
from benchmarks.hosts.clusters import GIGABIT, Work
from benchmarks.hosts.sides import Ddp, Learnt, Ours
from benchmarks.messages.pair import Lost
from benchmarks.scaling.runs import Processor
from runtime import Event

SLOWER = 5  # times slower than the machines that are measured
WINDOW = 50  # iterations over which the loss is averaged
SECONDS = 90.0  # divided ones of a life, at most
TUNED = 'seed = {seed}\nmomentum = "auto"\nbase_lr = "auto"'
GROUPS = 'groups = "auto"'


@dataclass
class Life:
    """The result of one life, in divided seconds, and the tuner's events. `full`: the part of its
    periods in which the first machine used up its core, and a machine on average. `busy`: the use
    of this machine's cores."""

    learnt: Learnt
    told: Sequence[Event]
    full: tuple[float, float]
    busy: float

    @property
    def held(self) -> float:
        """The divided seconds in which probes held the run, without those that count as
        training."""
        tried = sum(event["seconds"] for event in self.told if "probes" in event.fields)
        kept = sum(event["seconds"] for event in self.told if event.fields.get("kept"))
        return float(tried - kept) / SLOWER

    @property
    def chosen(self) -> list[str]:
        """The tuner's choices and their reasons."""
        return [
            ", ".join(f"{key} {value}" for key, value in event.fields.items())
            for event in self.told
            if event.name == "tuning"
        ]


@dataclass(frozen=True)
class Bench:
    """The machines, their cores, and a folder."""

    made: Sequence[Machine]
    cores: Sequence[Quota]
    folder: Path

    @property
    def befores(self) -> list[tuple[str, ...]]:
        """The words in front of a command that runs on each machine, on its core."""
        return [(*core.before, *at.before) for at, core in zip(self.made, self.cores, strict=True)]

    async def ddp(self, options: dict[str, Any], loss: float, early: float) -> Life:
        """A life of DDP until `loss`, with the loss `early` on the way."""
        async with Ddp(self.made, "work", options, self.befores) as ddp:
            learning = ddp.learn(loss, WINDOW, SECONDS * SLOWER, early)
            return await self._watched(self._alone(learning))

    async def ours(
        self,
        work: Work,
        data: Mapping[str, Any],
        seed: int,
        loss: float,
        early: float,
        iterations: int,
    ) -> Life:
        """A life of ours, as `ddp`. This process is that of `up`, and lives on the first machine."""
        folder = self.folder / f"{work.net}-{seed}"
        folder.mkdir()
        path = clusters.cluster(
            folder,
            work,
            self.made,
            "omnivore",
            data=clusters.shuffled(data),
            train=TUNED.format(seed=seed),
            strategy=GROUPS,
            iterations=iterations,
            bits_per_second=GIGABIT // SLOWER,
            tables=logins.tables(folder, self.made, cores=1),
        )
        with logins.on_path(logins.script(folder, self.befores)), self.cores[0].inside():
            async with Ours(path, held=False) as ours:
                await ours.begun()
                return await self._watched(ours.learn(loss, WINDOW, SECONDS * SLOWER, early))

    @staticmethod
    async def _alone(learning: Awaitable[Learnt]) -> tuple[Learnt, list[Event]]:
        return await learning, []

    async def _watched(self, learning: Awaitable[tuple[Learnt, list[Event]]]) -> Life:
        """The life that ends with `learning`, in which the cores are slow. Raises Lost if a process
        was not on its machine's core."""
        with ExitStack() as slowly:
            for core in self.cores:
                slowly.enter_context(core.slowed())
            before = [core.periods() for core in self.cores]
            processor = Processor()
            (seconds, iterations, loss, early), told = await learning
            busy = processor.busy()
        if outside := self.outside():
            raise Lost(f"found processes {outside} on machines, but not on their cores")
        used = [
            (throttled - had_throttled) / max(1, periods - had)
            for (periods, throttled), (had, had_throttled) in zip(
                (core.periods() for core in self.cores), before, strict=True
            )
        ]
        learnt = Learnt(seconds / SLOWER, iterations, loss, early / SLOWER)
        return Life(learnt, told, (used[0], mean(used)), busy)

    def outside(self) -> list[int]:
        """The processes on a machine that do not use its core."""
        return [
            pid
            for at, core in zip(self.made, self.cores, strict=True)
            for pid in sorted(at.pids() - core.pids())
        ]
