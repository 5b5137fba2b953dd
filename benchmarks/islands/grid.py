"""Islands next to other presets: test accuracy over virtual time with real gradients, on machines of
unequal speed and on links from 20 Mbit/s to 10 Gbit/s.

A batch of 32 images takes the fastest machine 0.05 s. The rate falls to 0 in every run. Accuracy is
that of the model at the end, on all test images. The time to a target is that of the shortest run
that reaches it, interpolated between two lengths of runs. The target is what the fastest machine
alone reaches in TARGET of the whole length. `replicas` computes the same as one process, so only its
pace is measured.

The bars are judged with the residual net and with LeNet, both on CIFAR-10. On MNIST the last 30 % of
a run bring 0.04 points, and the standard error of an accuracy on its 10 000 test images is 0.08
points: it cannot tell which run is sooner.

The order of the trials is that of the questions: with each net first the bars at 1:1:2:4 and
20 Mbit/s, then three seeds, lesions, other speeds and links. Presets take the settings that are best
at 1:1:2:4 and 20 Mbit/s. Trials are kept next to this module, so a grid that was cut off continues.
The load of the machine changes no number.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import math
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

from benchmarks.helpers.report import Record
from benchmarks.islands.runs import BATCH, Home, Ran, Task, trained
from benchmarks.islands.settings import (
    ALL,
    FIRST,
    FORMS,
    LESIONS,
    ON_FAST_LINKS,
    OTHERS,
    PRESETS,
    REPLICAS,
    TWICE,
    Setting,
    islands,
)
from benchmarks.presets.runs import Data
from benchmarks.tuning.kept import Kept

FILE = Path(__file__).with_name("trials.jsonl")
# of 32 images, of which a period has 32: 200 periods are 6400 iterations
ITERATIONS = {"resnet8": 7500, "resnet8-wide": 7500, "lenet-cifar10": 6600, "lenet": 6600}
EIGHT_EPOCHS = {"lenet-cifar10": 12_500, "lenet": 15_000, "resnet8": 12_500, "resnet8-wide": 12_500}
RATES = {"lenet-cifar10": 0.01, "lenet": 0.01, "resnet8": 0.05, "resnet8-wide": 0.05}
SHORTER = 0.7  # of the next longer run
SHORTEST = 0.3  # of the whole length
TARGET = 0.7
PACE = 100  # iterations of `replicas`
FASTEST = 0.05  # seconds of a batch on the fastest machine
SPEEDS = {"1:1:2:4": (4, 2, 1, 1), "1:1:1:1": (1, 1, 1, 1), "1:1:2:20": (20, 2, 1, 1)}
LINKS = {20: (2.5e6, 0.02), 200: (25e6, 0.005), 10_000: (1.25e9, 0.0001)}  # Mbit/s -> rate, latency
SEEDS = (1, 2, 3)
SEVERAL = (*FIRST, "omnivore", "mxnet-async")  # presets with several seeds
PERIODS = 200
MISSING = "not measured"
LATER = "not reached"


@dataclass(frozen=True)
class Where:
    """A net, the relative speeds of four machines, and the rate of their links in Mbit/s."""

    net: str = "lenet"
    speeds: str = "1:1:2:4"
    mbit: int = 20

    def __str__(self) -> str:
        """ "lenet, 1:1:2:4, 20 Mbit/s"."""
        return f"{self.net}, {self.speeds}, {self.mbit} Mbit/s"

    @property
    def home(self) -> Home:
        """The machines."""
        return Home.alike(SPEEDS[self.speeds], FASTEST, *LINKS[self.mbit])

    @property
    def iterations(self) -> int:
        """The whole length."""
        return ITERATIONS[self.net]


JUDGED = (Where("resnet8"), Where("resnet8-wide"), Where("lenet-cifar10"))
COMPARED = (JUDGED[0].mbit, 10_000)  # links of one time to the target


class Grid:
    """Trials, each made once, until `seconds` of this process are over. New ones are made of these
    `presets` only, so that several processes can share the work."""

    def __init__(
        self, data: Data, kept: Kept, seconds: float, presets: Collection[str] = PRESETS
    ) -> None:
        self._data = data
        self._presets = presets
        self.kept = kept
        self._until = time.monotonic() + seconds

    def __repr__(self) -> str:
        return f"<grid of {self.kept!r}>"

    def ran(
        self, where: Where, setting: Setting, seed: int = 1, iterations: int | None = None
    ) -> Ran | None:
        """One trial. None if it is not kept, and no time is left or its images are not there."""
        length = iterations or where.iterations
        if setting.preset == "alone":
            where = Where(where.net)  # neither links nor other machines matter
        images = self._data.digits_name if where.net == "lenet" else "CIFAR-10"
        name = f"{setting} on {where}, {images}, {length}, seed {seed}"
        found = self.kept.get(name)
        there = where.net == "lenet" or self._data.cifar is not None
        more = there and setting.preset in self._presets and time.monotonic() < self._until
        if found is None and more:
            began = time.process_time()
            task = Task(where.net, self._data, RATES[where.net])
            keys = setting.train | {"seed": seed}
            made = trained(task, where.home, keys, length // setting.batches, rate=setting.factor)
            found = asdict(made)
            self.kept.put(name, found)
            took = time.process_time() - began
            print(f"{took:5.0f} s  {100 * made.accuracy:.2f} %  {name}", flush=True)
        return None if found is None else Ran(**found)

    def seeds(self, where: Where, setting: Setting, iterations: int | None = None) -> list[Ran]:
        """The trials of all seeds that there are. Only what the bars compare has several."""
        compared = replace(where, mbit=JUDGED[0].mbit) in JUDGED and where.mbit in COMPARED
        seeds = SEEDS if setting.preset in SEVERAL and compared else SEEDS[:1]
        each = (self.ran(where, setting, seed, iterations) for seed in seeds)
        return [ran for ran in each if ran is not None]

    def best(self, where: Where, settings: Iterable[Setting]) -> Setting | None:
        """The setting with the highest accuracy after the whole length, with the first seed."""
        found = {each: self.ran(where, each) for each in settings}
        accuracies = {each: ran.accuracy for each, ran in found.items() if ran is not None}
        return max(accuracies, key=accuracies.__getitem__, default=None)

    def reaches(self, where: Where, setting: Setting, target: float) -> float | None:
        """The seconds to the target, over the means of the seeds: of the whole length, and of
        shorter runs as long as those reach the target, else of a longer one. Infinite if no run
        reached it. None if nothing is measured, or runs diverged."""
        points = self._points(where, setting, where.iterations)
        if not points:
            return None
        if points[0][1] < target:
            points += self._points(where, setting, EIGHT_EPOCHS[where.net])
            return seconds_to(target, points)
        for length in shorter(where.iterations):
            found = self._points(where, setting, length)
            points += found
            if not found or found[0][1] < target:
                break
        return seconds_to(target, points)

    def _points(self, where: Where, setting: Setting, length: int) -> list[tuple[float, float]]:
        """The mean seconds and accuracy of the seeds at this length. Empty if there are none, or
        one diverged."""
        found = self.seeds(where, setting, length)
        if not found or any(each.diverged for each in found):
            return []
        return [(fmean(each.seconds for each in found), fmean(each.accuracy for each in found))]


def shorter(iterations: int) -> list[int]:
    """The lengths of shorter runs, longest first."""
    powers = range(1, 1 + int(math.log(SHORTEST, SHORTER)))
    return [round(iterations * SHORTER**power) for power in powers]


def seconds_to(target: float, points: Sequence[tuple[float, float]]) -> float:
    """The seconds at which runs of several lengths, (seconds, accuracy), reach the target: between
    two runs by interpolation over the logarithm of the seconds. The seconds of the shortest run if
    that reaches it, and infinity if no run does."""
    before: tuple[float, float] | None = None
    for seconds, accuracy in sorted(points):
        if accuracy >= target:
            if before is None:
                return seconds
            share = (target - before[1]) / (accuracy - before[1])
            return before[0] * (seconds / before[0]) ** share
        before = seconds, accuracy
    return math.inf


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this part."""
    parser.add_argument(
        "--cifar", type=Path, help="the folder of CIFAR-10, for all nets but LeNet on MNIST (grid)"
    )
    parser.add_argument("--hours", type=float, default=12.0, help="of new trials (grid)")
    parser.add_argument("--presets", nargs="+", default=PRESETS, help="of new trials (grid)")
    parser.add_argument("--trials", type=Path, default=FILE, help="(grid)")


def measured(given: argparse.Namespace) -> Record:
    """The record of all trials that there are."""
    folders = (each.resolve() if each else None for each in (given.mnist, given.cifar))
    grid = Grid(Data(*folders), Kept(given.trials), 3600 * given.hours, given.presets)
    record = Record("Islands next to other presets, with real gradients on the virtual clock")
    for net in ITERATIONS:
        where = Where(net)
        best = _tuned(grid, where)
        if where in JUDGED:
            _bars(grid, record, where, best)
            _tried(grid, record, where)
            _lesions(grid, record, where, best)
        _cells(grid, record, net, best)
    record.facts["trials measured by"] = sorted(grid.kept.origins)
    record.status = "passed" if record.status == "running" else record.status
    return record


def _tuned(grid: Grid, where: Where) -> dict[str, Setting]:
    """The best setting of each preset. The seeds of the first ones come before other presets."""
    found = {name: grid.best(where, settings) for name, settings in FIRST.items()}
    for setting in filter(None, found.values()):
        grid.ran(where, setting, 1, round(SHORTER * where.iterations))
    grid.ran(where, REPLICAS, 1, PACE)
    if (ours := found["islands"]) is not None:
        for length in (where.iterations, round(SHORTER * where.iterations)):
            grid.ran(replace(where, mbit=10_000), ours, 1, length)
    found |= {name: grid.best(where, settings) for name, settings in OTHERS.items()}
    return {name: setting for name, setting in found.items() if setting is not None}


def _bars(grid: Grid, record: Record, where: Where, best: Mapping[str, Setting]) -> None:
    """Judge what the bars at 1:1:2:4 and 20 Mbit/s need."""
    record.table(
        f"best settings, {where}, means of the seeds",
        *("setting", "seeds", "accuracy in %", "virtual seconds", "MB", "seconds to the target"),
    )
    target = math.nan
    if "alone" in best:
        found = grid.seeds(where, best["alone"], round(TARGET * where.iterations))
        target = fmean(each.accuracy for each in found) if found else math.nan
    record.facts[f"target of {where.net}"] = f"{100 * target:.2f} %"
    times = {}
    for name, setting in best.items():
        found = grid.seeds(where, setting)
        times[name] = None if math.isnan(target) else grid.reaches(where, setting, target)
        means = [fmean(getattr(each, key) for each in found) for key in _SHOWN]
        reached = times[name]
        shown = MISSING if reached is None else reached if math.isfinite(reached) else LATER
        record.row(str(setting), len(found), 100 * means[0], *means[1:], shown)
    _judge_times(grid, record, where, best, target, times)
    _judge_epochs(grid, record, where, best)


_SHOWN = ("accuracy", "seconds", "megabytes")


def _judge_times(
    grid: Grid,
    record: Record,
    where: Where,
    best: Mapping[str, Setting],
    target: float,
    times: Mapping[str, float | None],
) -> None:
    ours, alone = times.get("islands"), times.get("alone")
    ring = grid.ran(where, REPLICAS, 1, PACE)
    whole = fast = None
    if "islands" in best:
        whole = grid.ran(where, best["islands"])
        fast = grid.reaches(replace(where, mbit=10_000), best["islands"], target)
    # presets that have not reached the target need at least the seconds of their whole length
    others = [
        min(seconds, fmean(each.seconds for each in grid.seeds(where, best[name])))
        for name in OTHERS
        if (seconds := times.get(name)) is not None
    ]
    pace = None if whole is None else BATCH * where.iterations / whole.seconds
    every = len(others) == len(OTHERS)
    # replicas need the samples of one process, at their own pace
    of_ring = alone / FASTEST * ring.seconds / PACE if alone and ring else None
    of_all = ring.megabytes / PACE * where.iterations if ring else None
    allowed = sum(SPEEDS[where.speeds]) / max(SPEEDS[where.speeds]) - 1
    if ours is not None and math.isinf(ours):
        record.note(f"{where.net}, islands: the target is {LATER} by any run that was measured")
    judge = functools.partial(_judge, record, where)
    judge("periods", whole.gains if whole else None, least=PERIODS)
    judge("time to the target, to that at 10 Gbit/s", _ratio(ours, fast), most=1.15)
    judge("times sooner than replicas", _ratio(of_ring, ours), least=5)
    sooner = _ratio(min(others), ours) if every else None
    judge("times sooner than the best other preset", sooner, least=1.5)
    judge("times sooner than the fastest alone", _ratio(alone, ours), least=1 + 0.6 * allowed)
    share = _ratio(pace, where.home.rows_per_second)
    judge("samples a second, of the sum of all machines", share, least=0.9)
    sent = _ratio(100 * whole.megabytes if whole else None, of_all)
    judge("% of the bytes of replicas", sent, most=2)


def _judge(record: Record, where: Where, bar: str, found: float | None, **limit: float) -> None:
    """Judge a bar, or note that it is not measured. So is the ratio of two times that no run has."""
    what = f"{where.net}, {bar}"
    if found is None or math.isnan(found):
        record.note(f"{MISSING}: {what}")
    else:
        record.judge(what, found, **limit)


def _ratio(one: float | None, other: float | None) -> float | None:
    return one / other if one is not None and other else None


def _judge_epochs(grid: Grid, record: Record, where: Where, best: Mapping[str, Setting]) -> None:
    length = EIGHT_EPOCHS[where.net]
    both = [grid.ran(where, best[name], 1, length) for name in ("alone", "islands") if name in best]
    behind = None
    if len(both) == 2 and both[0] is not None and both[1] is not None:
        behind = 100 * (both[0].accuracy - both[1].accuracy)
    _judge(record, where, "points behind one process after eight epochs, one seed", behind, most=2)


def _tried(grid: Grid, record: Record, where: Where) -> None:
    """All settings that were tried at the speeds of the bars."""
    columns = "setting", "Mbit/s", "accuracy in %", "virtual seconds", "MB", "periods"
    samples = BATCH * where.iterations
    record.table(
        f"settings tried, {where.net}, {where.speeds}, {samples} samples, seed 1", *columns
    )
    fast = replace(where, mbit=10_000)
    each = [(where, setting) for setting in itertools.chain(*ALL.values(), [TWICE])]
    for link, setting in each + [(fast, setting) for setting in ON_FAST_LINKS]:
        if (ran := grid.ran(link, setting)) is not None:
            shown = 100 * ran.accuracy if ran.accuracy else "diverged"
            record.row(str(setting), link.mbit, shown, ran.seconds, ran.megabytes, ran.gains)
    record.note(f"{TWICE}: twice the speed, if nothing waited, would take half of its seconds")


def _lesions(grid: Grid, record: Record, where: Where, best: Mapping[str, Setting]) -> None:
    """Islands without one of their parts."""
    record.table(
        f"lesions, {where}, seed 1", "islands", "accuracy in %", "virtual seconds", "MB", "periods"
    )
    if "islands" not in best:
        return
    whole = best["islands"]
    keys = {key: value for key, value in whole.strategy["options"].items() if key != "leave_out"}
    cut = [
        replace(islands(rate=whole.rate, **(keys | lesion)), momentum=whole.momentum)
        for lesion in LESIONS
    ]
    for setting in (whole, *cut, *(replace(whole, form=form) for form in FORMS)):
        ran = grid.ran(where, setting)
        cells: list[Any] = [MISSING] * 4
        if ran is not None:
            cells = [100 * ran.accuracy, ran.seconds, ran.megabytes, ran.gains]
        record.row(str(setting), *cells)


def _cells(grid: Grid, record: Record, net: str, best: Mapping[str, Setting]) -> None:
    """All speeds and links, each preset with its best settings for this net."""
    record.table(
        f"{net}, {BATCH * ITERATIONS[net]} samples: accuracy in % (virtual seconds)",
        *("speeds", "Mbit/s", *ALL),
    )
    for speeds in SPEEDS:
        for mbit in LINKS:
            where = Where(net, speeds, mbit)
            record.row(speeds, mbit, *(_cell(grid, where, best.get(name)) for name in ALL))


def _cell(grid: Grid, where: Where, setting: Setting | None) -> str:
    found = grid.seeds(where, setting) if setting else []
    if not found:
        return MISSING
    seconds = fmean(each.seconds for each in found)
    return f"{100 * fmean(each.accuracy for each in found):.2f} ({seconds:.4g})"
