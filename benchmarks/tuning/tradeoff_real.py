"""The part `tradeoff-real` of `tuning`: groups, momentum and rate up to a target, in real processes
on this machine.

Like `tradeoff`, with fewer points and seeds. Seconds are real and exclude tests. They count from
the moment when every process has begun, so they include the tuner's probes before the first
iteration. Four workers share the cores of this machine, so more groups gain only the time that
waiting cost.
"""

from __future__ import annotations

import asyncio
import math
import tempfile
from collections import deque
from pathlib import Path

import roles
import runtime
from benchmarks.helpers.report import Record
from benchmarks.presets.runs import Data
from benchmarks.tuning.kept import Kept, Trials
from benchmarks.tuning.learning import DATA, missing
from benchmarks.tuning.runs import AUTO, EACH, Reached, Setting, Task, lenet
from benchmarks.tuning.tradeoff import compare
from runtime import Event, ProgramFailed, Topology

WORKERS = 4
ITERATIONS = 1500
ACCURACY = 0.985
MOMENTA = (0.3, 0.6, 0.9)
FACTORS = (3.0, 10.0)
SEEDS = 3
# as on the virtual clock: every EACH iterations, on LOOKED_AT images
TESTS = f"test_interval: {EACH} test_iter: 10"


def tradeoff_real(record: Record, cycles: int) -> None:
    """Measure the part. `cycles` is not used."""
    if lacks := missing():
        record.status = "skipped"
        record.note(lacks)
        return
    with tempfile.TemporaryDirectory(prefix="convoy-benchmark-") as folder:
        task = lenet(Data(DATA / "mnist", None), Path(folder), ITERATIONS, ACCURACY, TESTS)
        compare(record, in_processes(task, WORKERS), MOMENTA, FACTORS, SEEDS)


def in_processes(task: Task, workers: int) -> Trials:
    """Trials that are made now. Results of earlier runs are not used, since the machine may have
    been busy then."""

    def make(setting: Setting | None, seed: int, rival: Reached | None, preset: str) -> Reached:
        chosen = (
            (AUTO, AUTO, AUTO)
            if setting is None
            else (setting.groups, setting.momentum, setting.base_lr)
        )
        strategy = {"preset": preset, "workers": workers, "groups": chosen[0]}
        rates = {
            "momentum": chosen[1],
            "base_lr": chosen[2],
            "max_iter": task.iterations,
            "seed": seed,
        }
        topology = roles.training({**task.options, **rates, "strategy": strategy})
        return asyncio.run(reached(topology, task, rival))

    return Trials(task, workers, "processes here", make, Kept())


async def reached(topology: Topology, task: Task, rival: Reached | None) -> Reached:
    """Run once, up to the target."""
    follow = Follow(task, math.inf if rival is None else rival.took)
    with tempfile.TemporaryDirectory(prefix="convoy-benchmark-") as folder:
        try:
            async with runtime.launch(
                topology, directory=Path(folder), machine=[{"threads": 1}]
            ) as run:
                async for event in run.events():
                    if follow.over(event):
                        break
                await run.end_now()
        except ProgramFailed as error:
            if "diverged" not in str(error):
                raise
            follow.found.diverged = True
    return follow.found


class Follow:
    """Follows a run's events up to its target, its limit or its end."""

    def __init__(self, task: Task, limit: float) -> None:
        self.found = Reached()
        self._task = task
        self._limit = limit
        self._began = self._last = math.nan  # the times of its start and of its last iteration
        self._tested = 0.0  # seconds
        self._done = 0
        self._ends = deque[float](maxlen=200)

    def over(self, event: Event) -> bool:
        """Take the next event. Returns whether the run is over."""
        found = self.found
        at = event.time - self._began - self._tested
        if event.name == "began":
            self._began = event.time
        elif event.name == "tuning":
            found.events.append(dict(event.fields))
            self._ends.clear()
        elif event.name == "progress":
            self._done = self._done + 1
            self._last = event.time
            self._ends.append(at)
            found.pace = (at - self._ends[0]) / max(1, len(self._ends) - 1)
            if at > self._limit:
                found.cut = at
                found.against = self._limit
        elif event.name == "test" and event["accuracy"] >= self._task.accuracy:
            found.iterations = self._done
            found.seconds = self._last - self._began - self._tested
        elif event.name == "test":
            self._tested += event.time - self._last
        return found.seconds is not None or found.cut is not None or event.name == "finished"
