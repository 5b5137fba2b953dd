"""The part `fc-phase` of `tuning`: what a merged FC phase changes in hardware efficiency and in
statistical efficiency, each by itself (Omnivore, Figure 31), and what tuning momentum is worth
(Figure 13).

LeNet, whose FC phase has nearly all parameters, learns with the same groups of the same workers in
two ways: merged, one server computes the FC phase and holds its model (`omnivore`); unmerged, every
worker computes the whole net, and the gradients of the FC phase travel and are as stale as all
others (`singa`). Every number of groups has the best momentum and rate of a grid on each side, so
the iterations differ by staleness only. The trials are kept, so a part that was cut off goes on.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence

from benchmarks.helpers.report import Record
from benchmarks.tuning.kept import Repeated, Trials, on_virtual_clock
from benchmarks.tuning.runs import OMNIVORE, SINGA
from benchmarks.tuning.studies.tasks import PICTURES, digits, iterations, kept
from benchmarks.tuning.tradeoff import Grid, row
from roles.tuning.choices import counts_up_to
from runtime.drawing.panels import Curve, Panel, panels

WORKERS = 8
GIGABITS = 1
MOMENTA = (0.0, 0.6, 0.9)
FACTORS = (1.0, 3.0, 10.0)  # of the published rate
SEEDS = 2
ITERATIONS = 700
LOSS = 0.2
MERGED = "merged"
PRESETS = {MERGED: OMNIVORE, "unmerged": SINGA}
PICTURE = PICTURES / "fc-phase.svg"
Measure = Callable[[Repeated], float]
Found = Mapping[tuple[str, int], Repeated]  # FC phase, groups -> the trials of its best point


def fc_phase(record: Record, cycles: int) -> None:
    """Measure the part. `cycles` is not used."""
    del cycles
    with digits(ITERATIONS, LOSS) as task:
        trials = on_virtual_clock(task, WORKERS, GIGABITS, kept("fc_phase"))
        found = compare(record, trials)
        record.facts |= trials.source
    title = f"{task.name} to {task.target}, {WORKERS} workers, {trials.where}"
    PICTURE.write_text(picture(found, title))


def compare(record: Record, trials: Trials) -> Found:
    """Record the best point of each number of groups with either FC phase, their ratios, and what
    momentum is worth with a merged one. Returns the trials of the best points."""
    task = trials.task
    rates = [float(f"{task.usual * factor:g}") for factor in FACTORS]
    grids = {name: Grid(trials, MOMENTA, rates, SEEDS, preset) for name, preset in PRESETS.items()}
    counts = list(counts_up_to(trials.workers))
    found: dict[tuple[str, int], Repeated] = {}
    _table(record, f"{task.name} to {task.target}: the best momentum and rate", "groups, FC phase")
    for groups in counts:
        for name, grid in grids.items():
            grid.search(groups)
            best = grid.bests[groups]
            found[name, groups] = grid.repeated(best, SEEDS)
            row(record, f"{groups}, {name}", best, found[name, groups])
    record.table("Unmerged / merged", "groups", "ms an iteration", "iterations", "seconds")
    for groups in counts:
        record.row(groups, *ratios(found, groups))
    hardware, statistical, _ = ratios(found, trials.workers)
    record.judge(f"hardware efficiency, {trials.workers} groups", hardware, least=1.0)
    record.judge(f"statistical efficiency, {trials.workers} groups", statistical, least=1.0)
    _momenta(record, trials, grids[MERGED], rates)
    return found


def ratios(found: Found, groups: int) -> tuple[float, float, float]:
    """Unmerged / merged: seconds of an iteration, iterations to the target, seconds to it."""
    merged, unmerged = (found[name, groups] for name in PRESETS)
    return (
        unmerged.pace / merged.pace,
        iterations(unmerged) / iterations(merged),
        unmerged.took / merged.took,
    )


def _momenta(record: Record, trials: Trials, grid: Grid, rates: Sequence[float]) -> None:
    """Compare momenta with several groups: the published one, the best one of a single group, and
    the best one of these groups. Each has its best rate."""
    _table(record, "Momenta with a merged FC phase, each with its best rate", "groups, momentum")
    gains = []
    for groups in counts_up_to(trials.workers)[1:]:
        took = {}
        for name, momenta in (
            ("published", [0.9]),
            ("tuned for 1 group", [grid.bests[1].momentum]),
            ("tuned", MOMENTA),
        ):
            tuned = Grid(trials, momenta, rates, SEEDS)
            tuned.search(groups)
            best = tuned.bests[groups]
            took[name] = row(record, f"{groups}, {name}", best, tuned.repeated(best, SEEDS))
        gains.append(took["published"] / took["tuned"])
    record.judge("largest seconds, published momentum / tuned momentum", max(gains), least=1.0)


def _table(record: Record, title: str, first: str) -> None:
    rest = "momentum", "base_lr", "ms an iteration", "iterations", "seconds", "least", "most"
    record.table(title, first, *rest, "seeds")


def picture(found: Found, title: str) -> str:
    """Draw the three measures over groups, with a curve for each FC phase."""
    measures: tuple[tuple[str, str, Measure], ...] = (
        ("hardware efficiency", "ms an iteration", lambda runs: 1000 * runs.pace),
        ("statistical efficiency", "iterations", iterations),
        ("both", "s", lambda runs: runs.took),
    )
    shown = []
    for name, unit, measure in measures:
        curves = (
            Curve(f"{each} FC phase", tuple(_points(found, each, measure))) for each in PRESETS
        )
        shown.append(Panel(name, unit, tuple(curves)))
    return panels(title, shown, "groups")


def _points(found: Found, name: str, measure: Measure) -> Iterator[tuple[float, float]]:
    for (each, groups), runs in found.items():
        if each == name and math.isfinite(value := measure(runs)):
            yield float(groups), value
