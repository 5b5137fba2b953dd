"""Training runs of `benchmarks.tuning` with real gradients on virtual time: groups, rates and a
seed, up to a target.

Array work is really done. It takes as long as it took on this machine when it was measured once, in
processes, in proportion to its rows if it depends on rows. Whether the target is reached is tested
from outside the run, and takes no time of its devices or links.
"""

from __future__ import annotations

import asyncio
import fnmatch
import math
import random
import sys
import tempfile
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import fmean, mean, pstdev
from typing import Any

import roles
from benchmarks.allreduce.allreduce import run
from benchmarks.presets.runs import Data, Options
from benchmarks.tuning.virtual import learn
from roles.learning.parameter_store import ParameterStore
from roles.messages import TEST, Ticket
from roles.workers.passes import Passes
from runtime import Actor, Topology
from runtime.compute.service_times import FILE, read_table
from runtime.config.file import of_script, program_options
from runtime.config.toml_write import dumps
from runtime.simulation.cluster import Simulation

AUTO = "auto"
OMNIVORE = "omnivore"
SINGA = "singa"  # the same groups without a merged FC phase
LATENCY = 1e-4  # seconds between two machines
SPREAD = 0.06  # least coefficient of variation (Omnivore, Figure 22)
# work on a member's rows
ROWS = ("conv_compute/read", "conv_compute/forward *", "conv_compute/backward *")
BEFORE = ("/build", "/sweep")  # the first iteration: work that is done once
WINDOW = 50  # iterations over which the loss is averaged (Omnivore, E.3)
EACH = 25  # iterations between two tests of a target accuracy
LOOKED_AT = 1000  # images of a test
LOW = 0.3  # mean loss above which the accuracy is not tested: a test takes time on this machine
# A trial is given up when it has had such a share of its rival's seconds and its mean loss is so
# many times the rival's at that moment. Where the loss falls as t ** -0.7, it would take 2.7 or 1.8
# times as long.
BEHIND = ((0.25, 2.0), (0.5, 1.5))
SOLVER = """net: "{net}.prototxt" base_lr: {rate} momentum: 0.9 weight_decay: {decay} lr_policy: "fixed"
max_iter: 100 display: 1 snapshot: 0 snapshot_after_train: false test_initialization: false {tests}
"""
NO_TESTS = "test_interval: 1000000"

# called with the actors of a run that is about to begin
Prepared = Callable[[dict[str, Actor]], None]
# "ROLE/LABEL" -> mean and coefficient of variation of its seconds
Times = dict[str, tuple[float, float]]


@dataclass(frozen=True)
class Setting:
    """The setting of a run: the number of groups of its workers, its momentum and its rate."""

    groups: int
    momentum: float
    base_lr: float

    def __str__(self) -> str:
        return f"{self.groups} groups, momentum {self.momentum:g}, base_lr {self.base_lr:g}"


@dataclass
class Reached:
    """The result of a run. `iterations` and `seconds` (virtual) to the target, None if it was not
    reached. `pace`: seconds of an iteration. `cut`: the seconds after which the run was ended
    because it was behind a rival that had taken `against` seconds. `way`: (seconds, mean loss)
    every EACH iterations. `events`: the tuner's. `kept`: seconds of its probes that were kept as
    training."""

    iterations: int | None = None
    seconds: float | None = None
    pace: float = math.nan
    diverged: bool = False
    cut: float | None = None
    against: float = math.nan
    way: list[tuple[float, float]] = field(default_factory=list, repr=False)
    events: list[dict[str, Any]] = field(default_factory=list, repr=False)
    kept: float = 0.0

    @property
    def took(self) -> float:
        """The seconds to the target; infinite if it was not reached."""
        return math.inf if self.seconds is None else self.seconds

    def behind(self, rival: Reached) -> bool:
        """Whether this run, at the last point of its way, is so far behind the rival that it will
        not reach the target first."""
        if not self.way:
            return False
        now, loss = self.way[-1]
        if now > rival.took:
            return True
        _, other = min(rival.way, key=lambda point: abs(point[0] - now), default=(0.0, math.inf))
        return any(
            now >= share * rival.took and not loss <= worse * other for share, worse in BEHIND
        )

    @property
    def chosen(self) -> list[dict[str, Any]]:
        """The tuner's choices: its events with settings and seconds."""
        return [event for event in self.events if "groups" in event]

    @property
    def held(self) -> float:
        """The seconds in which the tuner held the run, so that it did not train."""
        return float(sum(event["seconds"] for event in self.chosen)) - self.kept


@dataclass(frozen=True)
class Task:
    """The task of a run: options of `roles.training` without strategy and rates, and at most
    `iterations`. The target is an accuracy on test images of at least `accuracy` or, if that is 0,
    a mean training loss over `window` iterations of at most `loss`. `usual`: the published rate, at
    momentum 0.9."""

    name: str
    options: Options = field(hash=False)
    iterations: int
    accuracy: float = 0.0
    loss: float = 0.0
    usual: float = 0.01
    window: int = WINDOW

    @property
    def target(self) -> str:
        """The target in words."""
        return f"{100 * self.accuracy:g} %" if self.accuracy else f"a mean loss of {self.loss:g}"


def lenet(
    data: Data, folder: Path, iterations: int, accuracy: float, tests: str = NO_TESTS
) -> Task:
    """LeNet on MNIST, 64 images an iteration. The solver is written to `folder`; `tests` are its
    keys about tests."""
    solver = folder / "lenet_solver.prototxt"
    solver.write_text(SOLVER.format(net="lenet", rate=0.01, decay=0.0005, tests=tests))
    options = {key: value for key, value in data.lenet({}, iterations).items() if key != "momentum"}
    return Task(
        "LeNet", {**options, "solver": str(solver), "precision": "fast"}, iterations, accuracy
    )


def quick(data: Data, folder: Path, iterations: int, loss: float) -> Task:
    """CIFAR-10 quick, 64 images an iteration."""
    solver = folder / "quick_solver.prototxt"
    solver.write_text(SOLVER.format(net="cifar10_quick", rate=0.001, decay=0.004, tests=""))
    options = data.cifar_quick({}, iterations, 64)
    only = {"data": {key: value for key, value in options["data"].items() if key != "test"}}
    made = {**options, **only, "solver": str(solver), "precision": "fast"}
    return Task("CIFAR-10 quick", made, iterations, loss=loss, usual=0.001)


def measured(task: Task, preset: str = OMNIVORE, iterations: int = 60) -> Times:
    """The service times of a pass over all rows, measured with one worker in processes here."""
    config = {
        "train": {
            **task.options,
            "max_iter": iterations,
            "strategy": {"preset": preset, "workers": 1},
        },
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
                # other programs run on this machine too
                middle = kept[len(kept) // 20 : len(kept) - len(kept) // 20]
                found[key] = mean(middle), max(SPREAD, pstdev(middle) / mean(middle))
    return found


class Clock:
    """Draws the time of each piece of work. `batch`: the number of rows for which the times were
    measured."""

    def __init__(self, times: Times, batch: int, seed: int) -> None:
        self._times = times
        self._batch = batch
        self._rows: dict[str, int] = {}  # of each worker's present pass
        self._chance = random.Random(seed)  # repeats a simulation

    def watch(self, actors: dict[str, Actor]) -> None:
        """Learn the number of rows of each pass."""
        for name, actor in actors.items():
            passes = getattr(actor, "_passes", None)
            if isinstance(passes, Passes):
                passes.read = partial(self._read, name, passes.read)  # type: ignore[method-assign]

    def _read(self, name: str, read: Callable[..., None], net: Any, ticket: Ticket) -> None:
        low, high = ticket.mine
        self._rows[name] = high - low
        read(net, ticket)

    def seconds(self, actor: str, role: str, label: str) -> float:
        """The seconds of the next piece of work."""
        key = f"{role}/{label}"
        seconds, variation = self._times.get(key, (0.0, SPREAD))
        if not seconds:
            return 0.0
        if any(fnmatch.fnmatchcase(key, pattern) for pattern in ROWS):
            seconds *= self._rows.get(actor, self._batch) / self._batch
        shape = 1 / variation**2
        return self._chance.gammavariate(shape, seconds / shape)


class Examination:
    """Tests the model that `holders`, or else all `actors` of a run, hold at the moment, on the
    first `images` test images."""

    def __init__(
        self,
        actors: dict[str, Actor],
        holders: Mapping[str, Actor] | None = None,
        images: int = LOOKED_AT,
    ) -> None:
        (job,) = (
            actor._job
            for actor in actors.values()
            if hasattr(actor, "_schedule") and hasattr(actor, "_job")
        )
        stores = (getattr(actor, "_store", None) for actor in (holders or actors).values())
        self._stores = [store for store in stores if isinstance(store, ParameterStore)]
        source = job.source(TEST)
        self._net = job.build(TEST, "all", job.shapes(TEST, source))
        batches = job.batches(TEST, source)
        rows = job.rows(TEST)
        self._batches = [
            batches.read(number, 0, rows) for number in range(min(images, len(source)) // rows)
        ]

    def accuracy(self) -> float:
        """The accuracy on these images."""
        blobs = {layer: store.read(layer) for store in self._stores for layer in store.layers}
        named = (dict(zip(self._net.inputs, batch, strict=True)) for batch in self._batches)
        return fmean(self._net.run(inputs, blobs)["accuracy"] for inputs in named)


def trial(
    task: Task,
    workers: int,
    setting: Setting | None,
    times: Times,
    *,
    rate: float,
    seed: int = 1,
    rival: Reached | None = None,
    preset: str = OMNIVORE,
    prepared: Prepared | None = None,
) -> Reached:
    """Make one run; without a setting it tunes itself ("auto"). `rate`: bytes per second of each
    interface in each direction. `rival`: the run is cut if this is ahead (`Reached.behind`)."""
    chosen = (
        (AUTO, AUTO, AUTO)
        if setting is None
        else (setting.groups, setting.momentum, setting.base_lr)
    )
    groups, momentum, base_lr = chosen
    strategy = {
        "preset": preset,
        "workers": workers,
        **({"groups": groups} if preset in (OMNIVORE, SINGA) else {}),
    }
    train = {"momentum": momentum, "base_lr": base_lr, "strategy": strategy}
    return learnt(task, train, times, rate=rate, seed=seed, rival=rival, prepared=prepared)


def learnt(
    task: Task,
    train: Options,
    times: Times,
    *,
    rate: float,
    seed: int = 1,
    rival: Reached | None = None,
    prepared: Prepared | None = None,
) -> Reached:
    """Make one run of the task with these further keys of [train]; the rest is as in `trial`."""
    more = {"max_iter": task.iterations, "seed": seed, **train}
    network = {"clock": "virtual", "latency": LATENCY, "bytes_per_second": int(rate) or None}
    said = {
        "train": {**task.options, **more},
        "simulation": {key: value for key, value in network.items() if value is not None},
    }
    config = of_script("trial", said, Path.cwd())
    topology = roles.plan(config, program_options(config, roles.Options))
    (batch,) = {actor.options.job.batch for actor in topology.actors if actor.role == "coordinator"}
    return _Trial(task, topology, Clock(times, batch, seed), rival, prepared).run(rate)


class _Trial:
    """One run, up to its target."""

    def __init__(
        self,
        task: Task,
        topology: Topology,
        clock: Clock,
        rival: Reached | None,
        prepared: Prepared | None,
    ) -> None:
        self._task = task
        self._then = prepared
        self._topology = topology
        self._clock = clock
        self._rival = rival
        self._ends = deque[float](maxlen=200)
        self._losses = deque[float](maxlen=task.window)
        self._done = 0
        self._found = Reached()

    def run(self, rate: float) -> Reached:
        """Run to the target, to the last iteration, until the rival is ahead, or to a loss that is
        not a number."""
        seconds = self._clock.seconds
        failed = learn(
            self._topology,
            seconds,
            self._watch,
            latency=LATENCY,
            rate=rate,
            prepared=self._prepared,
        )
        found = self._found
        ends = self._ends
        found.diverged = bool(failed)
        found.pace = (ends[-1] - ends[0]) / (len(ends) - 1) if len(ends) > 1 else math.nan
        return found

    def _prepared(self, actors: dict[str, Actor]) -> None:
        self._clock.watch(actors)
        if self._then is not None:
            self._then(actors)
        self._accuracy = Examination(actors).accuracy if self._task.accuracy else None

    def _watch(self, simulation: Simulation, event: str, fields: dict[str, Any]) -> None:
        now = asyncio.get_running_loop().time()
        found = self._found
        if event == "tuning":
            found.events.append(fields)
            if "seconds" in fields:  # the run was held
                self._ends.clear()
        elif event == "probe":
            found.kept += fields["seconds"] if fields.get("kept") else 0.0
        elif event == "progress":
            self._done += 1
            self._ends.append(now)
            self._losses.append(fields["loss"])
            if self._done % EACH == 0:
                found.way.append((now, fmean(self._losses)))
            if self._learnt():
                found.iterations = self._done
                found.seconds = now
            elif self._rival is not None and self._done % EACH == 0 and found.behind(self._rival):
                found.cut = now
                found.against = self._rival.took
        if found.seconds is not None or found.cut is not None:
            simulation.end()

    def _learnt(self) -> bool:
        smooth = fmean(self._losses)
        if self._accuracy is None:
            return len(self._losses) == self._task.window and smooth <= self._task.loss
        return self._done % EACH == 0 and smooth < LOW and self._accuracy() >= self._task.accuracy


def around(first: Setting, momenta: Sequence[float], rates: Sequence[float]) -> Iterator[Setting]:
    """A grid with as many groups as `first`, in order of distance from `first`, which may lie off
    the grid."""

    def place(value: float, values: Sequence[float]) -> int:
        return min(range(len(values)), key=lambda at: abs(values[at] - value))

    def far(setting: Setting) -> int:
        steps = abs(place(setting.momentum, momenta) - place(first.momentum, momenta))
        return steps + abs(place(setting.base_lr, rates) - place(first.base_lr, rates))

    yield from sorted((Setting(first.groups, m, r) for m in momenta for r in rates), key=far)
