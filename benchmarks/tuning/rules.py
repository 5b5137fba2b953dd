"""The part `rules` of `tuning`: the momentum and rate of g groups by several rules, on a grid.

A rule takes the solver's momentum and rate, which suit one group, and gives those of g groups. A
cell of the grid is a net with g workers in g groups of preset `omnivore`: gradients of the conv
model are g - 1 updates late on average, those of the merged FC server are not late. The net really
learns, on the virtual clock, up to a mean training loss. Service times are exponential, as Theorem
1 of Omnivore assumes, or measured.

Each momentum is tried at the solver's rate, and at the rate that keeps the gain of a gradient, rate
/ (1 - momentum). Where a rule has a choice, the losses of PROBE iterations decide: another rate
than the solver's is taken if its mean loss is 5 % lower. `chosen` is what the tuner does: the whole
gain with `at_whole_gain`, or the solver's rate with `compensated` or `subtracted`.

A cell's figure is the mean of the seconds of its seeds, infinite if one of them does not get there.
A run ends when it is so far behind the best one of its cell that it cannot be near it. The runs are
kept (`kept`), so the part continues if it was cut off.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import fmean

from benchmarks.helpers.report import ROOT, Record
from benchmarks.presets.runs import Data
from benchmarks.tuning.kept import Kept
from benchmarks.tuning.learning import DATA, missing
from benchmarks.tuning.runs import (
    SOLVER,
    Reached,
    Setting,
    Task,
    Times,
    lenet,
    measured,
    quick,
    trial,
)
from roles.tuning.judgement import THRESHOLD
from roles.tuning.momentum import at_whole_gain, compensated, subtracted
from runtime.drawing.panels import Curve, Panel, panels

FILE = ROOT / "benchmarks" / "tuning" / "rules.jsonl"
PICTURE = ROOT / "docs" / "pictures" / "momentum-rules.svg"
SEEDS = (1, 2, 3)
MOMENTUM = 0.9  # of the solver
NEAR = 1.03  # so many times the seconds of the best rule count as the best
SHARE = 0.8  # of the cells in which the chosen rule must be the best, or near it
PROBE = 50  # iterations
HOPELESS = 1.3  # a run that takes so many times as long as the best of its cell is given up
# A2 of the paper: all parameters are read at once, all gradients arrive at once, and one
# exponential time lies between. It is put on the first backward pass of each net.
FIRST_BACKWARD = {
    "lenet": "conv2",
    "cifar10_quick": "conv3",
    "resnet20": "group2_block2_conv1_scale",
}
Made = Callable[[float], Setting]  # the solver's rate -> a setting


def kept_rate(momentum: float, groups: int, factor: float = 1.0) -> Made:
    """The setting of a momentum at the solver's rate, times a factor."""
    return lambda rate: Setting(groups, momentum, float(f"{factor * rate:.6g}"))


def kept_gain(momentum: float, groups: int) -> Made:
    """The setting of a momentum at which a gradient has the gain that it has with one group."""
    return kept_rate(momentum, groups, (1.0 - momentum) / (1.0 - MOMENTUM))


def by_theorem(groups: int) -> float:
    """The implicit momentum of Theorem 1 is subtracted; never negative."""
    return round(subtracted(MOMENTUM, groups - 1), 6)


def by_total(groups: int) -> float:
    """The total 1 - (1 - m)(1 - i) stays."""
    return round(compensated(MOMENTUM, groups - 1), 6)


def by_delay(groups: int) -> float:
    """The mean delay of a gradient's effect stays."""
    return round(at_whole_gain(MOMENTUM, groups - 1) or 0.0, 6)


def rules(groups: int) -> dict[str, tuple[Made, ...]]:
    """The rules for so many groups: each the setting at the solver's rate, and those that a probe
    may choose instead."""
    found = {
        "m - (1 - 1/g)": by_theorem(groups),
        "1 - g (1 - m)": by_total(groups),
        "1 / (1 - m) - (g - 1)": by_delay(groups),
    }
    plain = {name: (kept_rate(m, groups), kept_gain(m, groups)) for name, m in found.items()}
    careful = by_total(groups)
    chosen = (
        kept_rate(careful, groups),
        kept_gain(by_delay(groups), groups),
        kept_rate(by_theorem(groups), groups),
    )
    return {**plain, "chosen": chosen}


@dataclass(frozen=True)
class Net:
    """A net of the grid: its file, its task, the laws of its service times, the numbers of
    groups."""

    name: str
    task: Task
    laws: tuple[str, ...]
    groups: tuple[int, ...]


def nets(folder: Path) -> Iterator[Net]:
    """The nets of the grid, with targets that one group reaches in some 250 iterations."""
    data = Data(DATA / "mnist", DATA / "cifar10")
    small = (2, 4, 8)
    alone = ("exponential",)
    yield Net("cifar10_quick", quick(data, folder, 1200, 1.6), alone, small)
    first = replace(lenet(data, folder, 900, 0.0), loss=0.15)
    yield Net("lenet", first, (*alone, "measured"), (*small, 16))
    solver = folder / "resnet20_solver.prototxt"
    solver.write_text(SOLVER.format(net="resnet20", rate=0.1, decay=0.0001, tests=""))
    options = {key: value for key, value in data.cifar_quick({}, 450, 64).items() if key != "net"}
    only = {key: value for key, value in options["data"].items() if key != "test"}
    options |= {"net": "resnet20", "data": only, "solver": str(solver), "precision": "fast"}
    yield Net("resnet20", Task("resnet20", options, 450, loss=1.65, usual=0.1), alone, small)


class Runs:
    """The runs of one net with one law of service times, each made once."""

    def __init__(self, net: Net, law: str, kept: Kept) -> None:
        self.net = net
        self.law = law
        self._kept = kept

    def __repr__(self) -> str:
        return f"<runs of {self.net.name}, {self.law} times>"

    def of(self, setting: Setting, seed: int, rival: Reached | None = None) -> Reached:
        """The whole run with a setting. A run that was cut by a slower rival is not made again."""
        return self._of(setting, seed, self.net.task.iterations, rival)

    def loss(self, setting: Setting, seed: int) -> float:
        """The mean loss of the first PROBE iterations; infinite if the run diverges in them."""
        known = self._known(setting, seed, self.net.task.iterations)
        run = known or self._of(setting, seed, PROBE)
        return run.way[1][1] if len(run.way) > 1 else math.inf

    def _of(
        self, setting: Setting, seed: int, iterations: int, rival: Reached | None = None
    ) -> Reached:
        known = self._known(setting, seed, iterations)
        if known is not None:
            return known
        task = replace(self.net.task, iterations=iterations)
        if rival is not None and rival.seconds is not None:
            rival = replace(rival, seconds=HOPELESS * rival.seconds)
        else:
            rival = None
        made = trial(
            task,
            setting.groups,
            setting,
            self._times(),
            rate=0.0,
            seed=seed,
            rival=rival,
        )
        way = [(round(seconds, 4), round(loss, 4)) for seconds, loss in made.way]
        self._kept.put(self._name(setting, seed, iterations), asdict(made) | {"way": way})
        return made

    def _known(self, setting: Setting, seed: int, iterations: int) -> Reached | None:
        found = self._kept.get(self._name(setting, seed, iterations))
        return None if found is None else Reached(**found)

    def _name(self, setting: Setting, seed: int, iterations: int) -> str:
        task = self.net.task
        probe = "" if iterations == task.iterations else f", {iterations} iterations"
        return f"{task.name} to {task.target}, {self.law}, {setting}, seed {seed}{probe}"

    def _times(self) -> Times:
        if self.law == "exponential":
            return {f"conv_compute/backward {FIRST_BACKWARD[self.net.name]}": (1.0, 1.0)}
        name = f"{self.net.task.name}: service times"
        if self._kept.get(name) is None:
            self._kept.put(name, measured(self.net.task))
        return {key: (seconds, spread) for key, (seconds, spread) in self._kept.get(name).items()}


@dataclass(frozen=True)
class Cell:
    """The result of a cell: for each rule, the settings that its probes took and the runs with
    them, by seed."""

    net: str
    law: str
    groups: int
    taken: dict[str, list[tuple[Setting, Reached]]]

    def seconds(self, rule: str) -> float:
        """The mean seconds of a rule; infinite if a run did not reach the target."""
        return fmean(found.took for _, found in self.taken[rule])

    @property
    def best(self) -> float:
        """The seconds of the best rule."""
        return min(map(self.seconds, self.taken))

    def diverged(self, rule: str) -> int:
        """The number of runs of a rule that ended in NaN."""
        return sum(found.diverged for _, found in self.taken[rule])


def cell(runs: Runs, groups: int, seeds: Sequence[int]) -> Cell:
    """Make the runs of a cell."""
    usual = runs.net.task.usual
    taken: dict[str, list[tuple[Setting, Reached]]] = {}
    for seed in seeds:
        rival: Reached | None = None
        for name, makers in rules(groups).items():
            setting = _probed(runs, [make(usual) for make in makers], seed)
            found = runs.of(setting, seed, rival)
            taken.setdefault(name, []).append((setting, found))
            rival = found if rival is None or found.took < rival.took else rival
    return Cell(runs.net.name, runs.law, groups, taken)


def _probed(runs: Runs, settings: Sequence[Setting], seed: int) -> Setting:
    """The setting that the probes take: the first, unless another's loss is clearly lower."""
    losses = {each: runs.loss(each, seed) for each in settings}
    best = min(losses, key=losses.__getitem__)
    return best if losses[best] < (1 - THRESHOLD) * losses[settings[0]] else settings[0]


def compare_rules(record: Record, cycles: int) -> None:
    """Measure the part. `cycles` is not used."""
    del cycles
    if lacks := missing():
        record.status = "skipped"
        record.note(lacks)
        return
    record.facts = {"momentum of the solver": MOMENTUM, "seeds": len(SEEDS)}
    with tempfile.TemporaryDirectory(prefix="convoy-benchmark-") as folder:
        kept = Kept(FILE)
        found = [
            cell(Runs(net, law, kept), groups, SEEDS)
            for net in nets(Path(folder))
            for law in net.laws
            for groups in net.groups
        ]
        record.facts["runs are from commits"] = ", ".join(sorted(kept.origins))
    _table(record, found)
    _judge(record, found)
    PICTURE.parent.mkdir(exist_ok=True)
    PICTURE.write_text(picture(found))


def _table(record: Record, found: Sequence[Cell]) -> None:
    names = list(found[0].taken)
    record.table(
        "Seconds to the target, times those of the best rule of the cell",
        "net",
        "service times",
        "groups",
        *names,
        "what the probes took",
    )
    for each in found:
        shares = [_share(each, name) for name in names]
        settings = sorted({str(setting) for setting, _ in each.taken["chosen"]})
        record.row(each.net, each.law, each.groups, *shares, "; ".join(settings))


def _share(each: Cell, rule: str) -> float | str:
    lost = sum(found.seconds is None for _, found in each.taken[rule])
    if not lost:
        return each.seconds(rule) / each.best
    return f"{lost} of {len(each.taken[rule])} not reached" + (
        f", {each.diverged(rule)} NaN" if each.diverged(rule) else ""
    )


def _judge(record: Record, found: Sequence[Cell]) -> None:
    for rule in found[0].taken:
        near = sum(each.seconds(rule) <= NEAR * each.best < math.inf for each in found)
        record.facts[f"{rule}: best or within {NEAR - 1:.0%}"] = f"{near} of {len(found)} cells"
        if rule == "chosen" and near < SHARE * len(found):
            record.fail(f"the chosen rule is near the best in {near} of {len(found)} cells")
    for each in found:
        if each.diverged("chosen") and any(not each.diverged(rule) for rule in each.taken):
            record.fail(f"{each.net}, {each.law}, {each.groups} groups: the chosen rule has NaN")


def picture(found: Sequence[Cell]) -> str:
    """Draw the seconds of each rule, times those of the best, over groups: a panel for each net and
    law."""
    kinds: dict[tuple[str, str], list[Cell]] = {}
    for each in found:
        kinds.setdefault((each.net, each.law), []).append(each)
    shown = []
    for (net, law), cells in kinds.items():
        curves = tuple(Curve(rule, tuple(_points(cells, rule))) for rule in cells[0].taken)
        shown.append(Panel(f"{net}, {law}", "times the best", curves, {}))
    return panels("Momentum and rate of g groups by four rules", shown, "groups")


def _points(cells: Sequence[Cell], rule: str) -> Iterator[tuple[float, float]]:
    for each in cells:
        if math.isfinite(share := each.seconds(rule) / each.best):
            yield float(each.groups), share
