"""The part `lesion` of `tuning`: the gain by each choice of the tuner (Omnivore, Figure 31).

From one row to the next, one more setting is chosen well: the learning rate, the place of the FC
phase, the momentum, the number of groups. The first row is what other systems do: every worker is a
group and holds the whole net, with momentum 0.9 and the published rate. Each row is the best of its
own points that reaches the target with each of SEEDS.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.helpers.report import ROOT, Record
from benchmarks.tuning.kept import FILE, Kept, Repeated, Trials, on_virtual_clock
from benchmarks.tuning.learning import missing
from benchmarks.tuning.pictures import lesion as drawn
from benchmarks.tuning.runs import OMNIVORE, Setting
from benchmarks.tuning.tradeoff import FACTORS, FEW, MOMENTA, PICTURED, SEEDS, Configuration, Grid
from roles.tuning.choices import counts_up_to

UNMERGED = "mxnet-async"
LOWER = (0.03, 0.1, 0.3)  # of the published rate: where momentum stays at 0.9, rates must be low
STUDIED = (PICTURED, Configuration("cifar10", 8, 10))
PICTURES = ROOT / "docs" / "pictures"


def lesion(record: Record, cycles: int) -> None:
    """Measure the part. `cycles` is not used."""
    if lacks := missing():
        record.status = "skipped"
        record.note(lacks)
        return
    for studied in STUDIED:
        with tempfile.TemporaryDirectory(prefix="convoy-benchmark-") as folder:
            trials = on_virtual_clock(
                studied.task(Path(folder)), studied.workers, studied.gigabits, Kept(FILE)
            )
            selections(record, trials, MOMENTA, FACTORS, LOWER, SEEDS)
        record.facts |= {f"{studied}: {name}": value for name, value in trials.source.items()}
        title = (
            f"{trials.task.name} to {trials.task.target}, {studied.workers} workers, {trials.where}"
        )
        (PICTURES / f"lesion-{studied}.svg").write_text(drawn(record.tables[-1].rows, title))


def selections(
    record: Record,
    trials: Trials,
    momenta: Sequence[float],
    factors: Sequence[float],
    lower: Sequence[float],
    seeds: int,
) -> None:
    """Record a table with a row for each choice."""
    task = trials.task
    apart = trials.workers
    rates, low = ([float(f"{task.usual * factor:g}") for factor in of] for of in (factors, lower))
    high = [
        Setting(apart, 0.9, rate)
        for rate in sorted(rates + low, key=lambda rate: abs(rate - task.usual))
    ]
    where = (
        f"{task.name} to {task.target} in {task.iterations} iterations, {apart} workers, "
        f"{trials.where}"
    )
    record.table(
        (f"{where}: from row to row one more choice is made well. Means of {seeds} seeds"),
        "chosen",
        "preset",
        "groups",
        "momentum",
        "base_lr",
        "ms an iteration",
        "iterations",
        "seconds",
    )
    grid = Grid(trials, momenta, rates, min(FEW, seeds))

    def of_grid(counts: Sequence[int]) -> tuple[Setting, Repeated]:
        for groups in counts:
            grid.search(groups)
        point = grid.best(seeds)
        return point, trials.repeated(point, seeds)

    for name, preset, (best, runs) in (
        ("nothing", UNMERGED, best_of(trials, high[:1], seeds, UNMERGED)),
        ("the rate", UNMERGED, best_of(trials, high, seeds, UNMERGED)),
        ("where the FC phase is", OMNIVORE, best_of(trials, high, seeds, OMNIVORE)),
        ("momentum", OMNIVORE, of_grid([apart])),
        ("groups", OMNIVORE, of_grid(counts_up_to(apart))),
    ):
        said = best.groups, best.momentum, best.base_lr, 1000 * runs.pace
        record.row(name, preset, *said, runs.iterations, runs.seconds)


def best_of(
    trials: Trials, points: Sequence[Setting], seeds: int, preset: str
) -> tuple[Setting, Repeated]:
    """The best point that reaches the target with each of `seeds` seeds. If none does, the point
    that is best with the first seed; a slow point is preferred to one that diverges."""
    left = list(points)
    lost = list[tuple[Setting, Repeated]]()
    while left:
        tried = trials.first_of(left, preset=preset)
        best = min(tried, key=lambda point: (tried[point].took, tried[point].diverged))
        runs = trials.repeated(best, seeds, preset=preset)
        if math.isfinite(runs.took):
            return best, runs
        lost.append((best, runs))
        if math.isinf(tried[best].took):
            break
        left.remove(best)
    return lost[0]
