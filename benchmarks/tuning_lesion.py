"""The part `lesion` of `tuning`: what each choice of the tuner is worth (Omnivore, Figure 31).

From one row to the next one more thing is chosen well: the learning rate, where the FC phase is, the momentum, the
number of groups. The first row is what others do: all workers apart, each with the whole net, momentum 0.9, the
published rate. Each row is the best of its own points with one seed, then repeated with SEEDS.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.report import ROOT, Record
from benchmarks.tuning_kept import FILE, Kept, Repeated, Trials, on_virtual_clock
from benchmarks.tuning_learning import missing
from benchmarks.tuning_pictures import lesion as drawn
from benchmarks.tuning_runs import OMNIVORE, Setting, around
from benchmarks.tuning_tradeoff import FACTORS, MOMENTA, PICTURED, SEEDS
from roles.tuning.choices import counts_up_to

UNMERGED = "mxnet-async"
LOWER = (0.03, 0.1, 0.3)  # of the published rate: where momentum stays at 0.9, rates must be low
PICTURE = ROOT / "docs" / "pictures" / "lesion.svg"


def lesion(record: Record, cycles: int) -> None:
    """The part. `cycles`: not used."""
    if lacks := missing():
        record.status = "skipped"
        record.note(lacks)
        return
    with tempfile.TemporaryDirectory(prefix="convoy-benchmark-") as folder:
        trials = on_virtual_clock(PICTURED.task(Path(folder)), PICTURED.workers, PICTURED.gigabits, Kept(FILE))
        selections(record, trials, MOMENTA, FACTORS, LOWER, SEEDS)
        record.facts |= trials.source
    title = f"{trials.task.name} to {trials.task.target}, {PICTURED.workers} workers"
    PICTURE.write_text(drawn(record.tables[0].rows, title))


def selections(
    record: Record,
    trials: Trials,
    momenta: Sequence[float],
    factors: Sequence[float],
    lower: Sequence[float],
    seeds: int,
) -> None:
    """A row for each choice."""
    task, apart = trials.task, trials.workers
    rates, low = ([float(f"{task.usual * factor:g}") for factor in of] for of in (factors, lower))
    usual = Setting(apart, 0.9, task.usual)
    high = sorted(
        (Setting(apart, 0.9, rate) for rate in rates + low), key=lambda point: abs(point.base_lr - usual.base_lr)
    )
    grids = [list(around(Setting(groups, 0.9, task.usual), momenta, rates)) for groups in counts_up_to(apart)]
    record.facts |= {"task": f"{task.name} to {task.target}, at most {task.iterations} iterations", "workers": apart}
    record.table(
        f"From row to row one more choice is made well. Means of {seeds} seeds", "chosen", "preset", "groups",
        "momentum", "base_lr", "ms an iteration", "iterations", "seconds",
    )  # fmt: skip
    for name, preset, lists in (
        ("nothing", UNMERGED, [[usual]]),
        ("the rate", UNMERGED, [high]),
        ("where the FC phase is", OMNIVORE, [high]),
        ("momentum", OMNIVORE, grids[-1:]),
        ("groups", OMNIVORE, grids),
    ):
        best, runs = best_of(trials, lists, seeds, preset)
        said = best.groups, best.momentum, best.base_lr, 1000 * runs.pace
        record.row(name, preset, *said, runs.iterations, runs.seconds)


def best_of(trials: Trials, lists: Sequence[Sequence[Setting]], seeds: int, preset: str) -> tuple[Setting, Repeated]:
    """The best of each list with one seed, and of these the best with several."""
    found = []
    for points in lists:
        tried = trials.first_of(points, preset=preset)
        best = min(tried, key=lambda point: tried[point].took)
        found.append((best, trials.repeated(best, seeds, preset=preset)))
    return min(found, key=lambda each: each[1].took)
