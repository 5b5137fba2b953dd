"""Training runs of `benchmarks.tuning` with real gradients on virtual time: groups, rates and a seed, up to a target.

Array work is really done, and takes the time that it took on this machine when it was measured, once, in processes: in
proportion to its rows where it is about rows.
"""

from __future__ import annotations

import asyncio
import fnmatch
import itertools
import math
import random
import sys
import tempfile
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import mean, median, pstdev
from typing import Any

import roles
from benchmarks.allreduce import run
from benchmarks.preset_runs import Data, Options
from benchmarks.tuning_virtual import learn
from roles.messages import Ticket
from roles.workers.passes import Passes
from runtime import Actor, Topology
from runtime.compute.service_times import FILE, read_table
from runtime.config.toml_write import dumps
from runtime.simulation.cluster import Simulation

AUTO = "auto"
LATENCY = 1e-4  # seconds between two machines
SPREAD = 0.06  # least coefficient of variation (Omnivore, Figure 22)
ROWS = ("conv_compute/read", "conv_compute/forward *", "conv_compute/backward *")  # work about a member's rows
TESTS = ("*/test *", "*/fc TEST*")  # takes no time: targets are watched by whoever wants to know
BEFORE = ("/build", "/sweep")  # the first iteration
SOLVER = """net: "{net}.prototxt" base_lr: 0.01 momentum: 0.9 weight_decay: 0.0005 lr_policy: "fixed"
max_iter: 100 display: 1 snapshot: 0 snapshot_after_train: false test_interval: 50 test_iter: 10
"""

Times = dict[str, tuple[float, float]]  # "ROLE/LABEL" -> mean and coefficient of variation of its seconds


@dataclass(frozen=True)
class Setting:
    """Of a run: into how many groups its workers are cut, and its rates."""

    groups: int
    momentum: float
    base_lr: float


@dataclass
class Reached:
    """What a run came to. `iterations` and `seconds` (virtual) to the target, None if it was not reached; `pace`:
    seconds of an iteration; `events`: those of the tuner."""

    iterations: int | None = None
    seconds: float | None = None
    pace: float = math.nan
    diverged: bool = False
    events: list[dict[str, Any]] = field(default_factory=list, repr=False)


@dataclass(frozen=True)
class Task:
    """What is to be learnt: options of `roles.training` without strategy and rates, until a test's accuracy is at least
    `accuracy`, in at most `iterations`."""

    name: str
    options: Options = field(hash=False)
    iterations: int
    accuracy: float


def lenet(data: Data, folder: Path, iterations: int, accuracy: float) -> Task:
    """LeNet on MNIST, 64 images an iteration, tested on 1 000 images every 50 of them. `folder` is for its solver."""
    solver = folder / "solver.prototxt"
    solver.write_text(SOLVER.format(net="lenet"))
    options = {key: value for key, value in data.lenet({}, iterations).items() if key != "momentum"}
    return Task("LeNet", {**options, "solver": str(solver)}, iterations, accuracy)


def measured(task: Task, iterations: int = 60) -> Times:
    """Of all rows, of one worker in processes here."""
    config = {
        "train": {**task.options, "max_iter": iterations, "strategy": {"preset": "omnivore", "workers": 1}},
        "machine": [{"threads": 1}],
        "run": {"record_service_times": True},
    }
    found: Times = {}
    with tempfile.TemporaryDirectory(prefix="convoy-benchmark-") as folder:
        cluster = Path(folder, "cluster.toml")
        cluster.write_text(dumps(config))
        run([sys.executable, "-m", "runtime", "up", str(cluster)], folder=folder)
        (path,) = Path(folder).rglob(FILE)
        for key, seconds in read_table(path).items():
            if not key.endswith(BEFORE):
                kept = sorted(seconds[len(seconds) // 10 :])  # the first ones warm up
                middle = kept[len(kept) // 20 : len(kept) - len(kept) // 20]  # others work on this machine, too
                found[key] = mean(middle), max(SPREAD, pstdev(middle) / mean(middle))
    return found


class Clock:
    """How long each piece of work takes, drawn anew. `batch`: the rows of those that were measured."""

    def __init__(self, times: Times, batch: int, seed: int) -> None:
        self._times, self._batch = times, batch
        self._rows: dict[str, int] = {}  # of each worker's present pass
        self._chance = random.Random(seed)  # a simulation

    def watch(self, actors: dict[str, Actor]) -> None:
        """Hear of the rows of each pass."""
        for name, actor in actors.items():
            passes = getattr(actor, "_passes", None)
            if isinstance(passes, Passes):
                passes.read = partial(self._read, name, passes.read)  # type: ignore[method-assign]

    def _read(self, name: str, read: Callable[..., None], net: Any, ticket: Ticket) -> None:
        low, high = ticket.mine
        self._rows[name] = high - low
        read(net, ticket)

    def seconds(self, actor: str, role: str, label: str) -> float:
        """Of the next piece."""
        key = f"{role}/{label}"
        seconds, variation = self._times.get(key, (0.0, SPREAD))
        if not seconds or any(fnmatch.fnmatchcase(key, pattern) for pattern in TESTS):
            return 0.0
        if any(fnmatch.fnmatchcase(key, pattern) for pattern in ROWS):
            seconds *= self._rows.get(actor, self._batch) / self._batch
        shape = 1 / variation**2
        return self._chance.gammavariate(shape, seconds / shape)


def trial(task: Task, workers: int, setting: Setting | None, times: Times, *, rate: float, seed: int = 1) -> Reached:
    """One run of `omnivore`; without a setting all is "auto". `rate`: bytes per second of each interface, each way."""
    chosen = (AUTO, AUTO, AUTO) if setting is None else (setting.groups, setting.momentum, setting.base_lr)
    groups, momentum, base_lr = chosen
    strategy = {"preset": "omnivore", "workers": workers, "groups": groups}
    more = {"momentum": momentum, "base_lr": base_lr, "max_iter": task.iterations, "seed": seed, "strategy": strategy}
    topology = roles.training({**task.options, **more})
    (batch,) = {actor.options.job.batch for actor in topology.actors if actor.role == "coordinator"}
    return _Trial(task, topology, Clock(times, batch, seed)).run(rate)


class _Trial:
    """One run, up to its target."""

    def __init__(self, task: Task, topology: Topology, clock: Clock) -> None:
        self._task, self._topology, self._clock = task, topology, clock
        self._ends: deque[float] = deque(maxlen=200)
        self._done = 0
        self._found = Reached()

    def run(self, rate: float) -> Reached:
        """To the target, the last iteration or a loss that is no number."""
        clock = self._clock
        failed = learn(self._topology, clock.seconds, self._watch, latency=LATENCY, rate=rate, prepared=clock.watch)
        self._found.diverged = bool(failed)
        paces = [after - before for before, after in itertools.pairwise(self._ends)]
        self._found.pace = median(paces) if paces else math.nan
        return self._found

    def _watch(self, simulation: Simulation, event: str, fields: dict[str, Any]) -> None:
        now = asyncio.get_running_loop().time()
        if event == "progress":
            self._done += 1
            self._ends.append(now)
        elif event == "tuning":
            self._found.events.append(fields)
        elif event == "test" and fields.get("accuracy", 0.0) >= self._task.accuracy and not self._found.iterations:
            self._found.iterations, self._found.seconds = self._done, now
            simulation.end()
