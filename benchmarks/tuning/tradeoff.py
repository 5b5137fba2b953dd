"""The parts `tradeoff-...` of `tuning`: hardware efficiency, statistical efficiency and their
product (Omnivore, Figure 7), and the tuner's choices.

LeNet learns MNIST, cifar10_quick CIFAR-10, with real gradients on the virtual clock (`runs`). For
each number of groups, every momentum and learning rate of a grid is tried up to the target. A trial
ends when it has taken longer than the best one so far with as many groups, since it can no longer
be the best. The best of each number of groups is repeated with FEW seeds, and the best of these
with SEEDS. A point that does not reach the target with each of its seeds cannot be the best: the
trials that it had cut are made again, and the next best point counts. They are compared with one
group and with as many groups as workers at momentum 0.9 and the published rate, as other systems
run. They are also compared with a run that tunes itself; the tuner's time is part of its seconds.
Last, a Bayesian search asks for points of the same grid.

Two more nets have a grid with fewer seeds: the tuner's constants were chosen without them
(`unseen`).
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from benchmarks.helpers.report import ROOT, Record
from benchmarks.presets.runs import Data
from benchmarks.tuning.bayes import searches_of
from benchmarks.tuning.kept import FILE, Kept, Repeated, Trials, on_virtual_clock
from benchmarks.tuning.learning import DATA, missing
from benchmarks.tuning.pictures import tradeoff
from benchmarks.tuning.runs import OMNIVORE, Reached, Setting, Task, around, lenet, quick
from benchmarks.tuning.unseen import plain, residual
from roles.tuning.choices import counts_up_to

MOMENTA = (0.0, 0.3, 0.6, 0.9)
FACTORS = (1.0, 3.0, 10.0)  # of the published rate
FEW = 2
SEEDS = 5
UNSEEN_SEEDS = 3
NEAR = 1.15  # the tuner's bar: so many times the seconds of the best point of the grid
UNSEEN_NEAR = 1.25
HELD = 0.06  # the largest share of the seconds to the target for which the tuner may hold the run


@dataclass(frozen=True)
class Learner:
    """A net that learns up to a target. `near`: the tuner's bar, with `seeds` seeds."""

    title: str
    make: Callable[[Data, Path], Task]
    seeds: int = SEEDS
    near: float = NEAR


LEARNERS = {
    "mnist": Learner("LeNet on MNIST", lambda data, folder: lenet(data, folder, 1500, 0.985)),
    "cifar10": Learner("CIFAR-10 quick", lambda data, folder: quick(data, folder, 2500, 1.5)),
    "plain": Learner(
        "a net without BatchNorm",
        lambda data, folder: plain(data, folder, 2000, 1.5),
        UNSEEN_SEEDS,
        UNSEEN_NEAR,
    ),
    "resnet20": Learner(
        "ResNet-20",
        lambda data, folder: residual(data, folder, 800, 1.65),
        UNSEEN_SEEDS,
        UNSEEN_NEAR,
    ),
}


@dataclass(frozen=True)
class Configuration:
    """A net of LEARNERS, a number of workers, and a network."""

    learner: str
    workers: int
    gigabits: int

    def __str__(self) -> str:
        return f"{self.learner}-{self.workers}-{self.gigabits}"

    @property
    def title(self) -> str:
        """The title for readers."""
        name = LEARNERS[self.learner].title
        return f"Groups, momentum, rate: {name}, {self.workers} workers, {self.gigabits} Gbit/s"

    def task(self, folder: Path) -> Task:
        """The task up to the target of its net."""
        return LEARNERS[self.learner].make(Data(DATA / "mnist", DATA / "cifar10"), folder)

    def run(self, record: Record, cycles: int) -> None:
        """Measure the part. `cycles` is not used."""
        if lacks := missing():
            record.status = "skipped"
            record.note(lacks)
            return
        learner = LEARNERS[self.learner]
        with tempfile.TemporaryDirectory(prefix="convoy-benchmark-") as folder:
            trials = on_virtual_clock(
                self.task(Path(folder)), self.workers, self.gigabits, Kept(FILE)
            )
            compare(record, trials, MOMENTA, FACTORS, learner.seeds, learner.near)
            record.facts |= trials.source
        if self == PICTURED:
            PICTURE.write_text(tradeoff(record.tables[0].rows, self.title))


PICTURED = Configuration("mnist", 8, 1)
PICTURE = ROOT / "docs" / "pictures" / "tradeoff.svg"
CONFIGURATIONS = [
    *(
        Configuration(learner, workers, gigabits)
        for learner in ("mnist", "cifar10")
        for workers in (8, 32)
        for gigabits in (1, 10)
    ),
    *(Configuration(learner, 8, 1) for learner in ("plain", "resnet20")),
]


def compare(
    record: Record,
    trials: Trials,
    momenta: Sequence[float],
    factors: Sequence[float],
    seeds: int,
    near: float = NEAR,
) -> None:
    """Compare all points of the grid, the usual settings, the tuner and the Bayesian search."""
    task = trials.task
    workers = trials.workers
    rates = [float(f"{task.usual * factor:g}") for factor in factors]
    record.facts |= {
        "task": f"{task.name} to {task.target}, at most {task.iterations} iterations of 64 images",
        "workers": workers,
        "where": trials.where,
        "grid": (
            f"{len(momenta)} momenta and rates of {', '.join(map(str, rates))} for each "
            "number of groups"
        ),
    }
    record.table(
        ("Up to the target; of the grid the best of each number of groups"),
        "groups",
        "momentum",
        "base_lr",
        "ms an iteration",
        "iterations",
        "seconds",
        "least",
        "most",
        "seeds",
    )
    grid = Grid(trials, momenta, rates, min(FEW, seeds))
    for groups in counts_up_to(workers):
        grid.search(groups)
    point = grid.best(seeds)
    for groups, setting in grid.bests.items():
        row(record, str(groups), setting, trials.repeated(setting, min(FEW, seeds)))
    least = row(record, f"{point.groups}, best", point, trials.repeated(point, seeds))
    for groups in (1, workers):
        usual = Setting(groups, 0.9, task.usual)
        took = row(record, f"{groups}, usual", usual, trials.repeated(usual, seeds))
        record.facts[f"{groups} groups at the usual rates / best point"] = took / least
    tuned = trials.repeated(None, seeds)
    auto = row(record, "auto", None, tuned)
    record.facts["auto / best point"] = auto / least
    _told(record, grid, rates, point)
    _judged(record, tuned, near, least)
    points = {setting: (found.took, _cost(found, task)) for setting, found in grid.found.items()}
    searches_of(record, points, auto)


class Grid:
    """The grid of a preset: every momentum with every rate, for each number of groups. `found`:
    results with the first seed. `bests`: the best point by groups. `lost`: points that did not reach the target
    with each of their seeds."""

    def __init__(
        self,
        trials: Trials,
        momenta: Sequence[float],
        rates: Sequence[float],
        few: int,
        preset: str = OMNIVORE,
    ) -> None:
        self._trials = trials
        self._preset = preset
        self._momenta = momenta
        self._rates = rates
        self._few = few
        self._nearest = Setting(1, 0.9, trials.task.usual)
        self.found: dict[Setting, Reached] = {}
        self.bests: dict[int, Setting] = {}
        self.lost: dict[Setting, Repeated] = {}

    def search(self, groups: int) -> None:
        """Find the best point with so many groups that reaches the target with FEW seeds, if there
        is one."""
        first = Setting(groups, self._nearest.momentum, self._nearest.base_lr)
        while True:
            points = [
                each for each in around(first, self._momenta, self._rates) if each not in self.lost
            ]
            if not points:
                return
            found = self._trials.first_of(points, preset=self._preset)
            best = min(found, key=lambda setting: found[setting].took)
            self.found |= found
            self.bests[groups] = self._nearest = best
            if not math.isfinite(found[best].took) or self._reaches(best, self._few):
                return

    def best(self, seeds: int) -> Setting:
        """The best point of all that reaches the target with each of `seeds` seeds. A point that is
        better with a few seeds is first tried with all of them."""
        count: dict[Setting, int] = {}
        while True:
            few = {setting: count.get(setting, self._few) for setting in self.bests.values()}
            point = min(few, key=lambda setting: self.repeated(setting, few[setting]).took)
            if not math.isfinite(self.found[point].took) or few[point] == seeds:
                return point
            count[point] = seeds
            if not self._reaches(point, seeds):
                self.search(point.groups)

    def repeated(self, point: Setting, seeds: int) -> Repeated:
        """Whole trials of a point, with seeds 1 to `seeds`."""
        return self._trials.repeated(point, seeds, preset=self._preset)

    def _reaches(self, point: Setting, seeds: int) -> bool:
        runs = self.repeated(point, seeds)
        if math.isinf(runs.took):
            self.lost[point] = runs
        return point not in self.lost


def row(record: Record, name: str, setting: Setting | None, found: Repeated) -> float:
    """Record a row for some seeds of a setting, or of the tuner. Returns the mean seconds, infinite
    if a run did not reach the target."""
    rates = ("", "") if setting is None else (setting.momentum, setting.base_lr)
    took = [each.took for each in found.runs]
    record.row(
        name,
        *rates,
        1000 * found.pace,
        found.iterations,
        found.seconds,
        min(took),
        max(took),
        len(took),
    )
    return found.took


def _cost(found: Reached, task: Task) -> float:
    """The seconds of a trial of the grid: to the target, until it was cut, or to its end."""
    return found.cut or found.seconds or found.pace * task.iterations


def _told(record: Record, grid: Grid, rates: Sequence[float], best: Setting) -> None:
    """Note how the best point was found."""
    found = grid.found.values()
    cut = sum(each.cut is not None for each in found)
    diverged = sum(each.diverged for each in found)
    text = (
        f"of {len(found)} points with one seed {cut} were cut when they could not be the "
        "best of their groups"
    )
    record.note(f"{text}, and {diverged} diverged; the best point: {best}")
    for point, runs in grid.lost.items():
        reached = [f"{each.seconds:.3g}" for each in runs.runs if each.seconds is not None]
        record.note(
            f"no best point: {point}, {runs.seconds}; the others took {', '.join(reached)} s"
        )
    if best.base_lr in (rates[0], rates[-1]):
        record.note("the rate of the best point is at an edge of the grid")


def _judged(record: Record, tuned: Repeated, near: float, best: float) -> None:
    """Note the tuner's choices and seconds, and judge whether it came near enough to the best
    point, and how long it held the run."""
    for seed, found in enumerate(tuned.runs, start=1):
        for event in found.chosen:
            setting = Setting(event["groups"], event["momentum"], event["base_lr"])
            when = f"auto, seed {seed}, iteration {event['iteration']}"
            spent = f"{event['probes']} probes in {event['seconds']:.3g} s"
            record.note(f"{when}: {setting} after {spent}: {event['why']}")
    reached = [found for found in tuned.runs if found.seconds]
    if reached:
        share = fmean(found.held / found.took for found in reached)
        record.facts["auto was held, of its seconds to the target"] = f"{share:.1%}"
        if share > HELD:
            record.fail(f"auto was held for {share:.1%} of its seconds, at most {HELD:.0%}")
    for event in (event for event in tuned.runs[0].events if "groups" not in event):
        record.note(f"auto, seed 1: {event['why']}")
    auto = tuned.took
    if not auto <= near * best:
        took = "did not always reach the target" if math.isinf(auto) else f"took {auto:.3g} s"
        record.fail(f"auto {took}, at most {near:g} times the {best:.3g} s of the best point")
