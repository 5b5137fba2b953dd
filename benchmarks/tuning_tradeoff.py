"""The part `tradeoff` of `tuning`: hardware efficiency, statistical efficiency and their product (Omnivore, Figure 7),
and what the tuner makes of them.

LeNet learns MNIST with real gradients on the virtual clock (`tuning_runs`). For each number of groups every momentum
and learning rate of a grid is tried up to the target, and the best stands in the table. Beside them stand one group and
as many groups as workers at momentum 0.9, as other systems run, and a run that is told nothing: what its tuner spends
is part of its seconds.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.preset_runs import Data
from benchmarks.report import ROOT, Record
from benchmarks.tuning_runs import Reached, Setting, Task, lenet, measured, trial

MNIST = ROOT.parent / "shared" / "data" / "mnist"
GROUPS = (1, 2, 4, 8)  # the last: as many as workers
MOMENTA = (0.0, 0.3, 0.6, 0.9)
RATES = (0.1, 0.03, 0.01)
USUAL = 0.01  # BVLC's rate, at momentum 0.9
GIGABIT = 125e6  # bytes per second
ITERATIONS, ACCURACY = 1500, 0.985
NEAR = 1.25  # times the seconds of the best point of the grid: the bar of the tuner


def tradeoff(record: Record, cycles: int, folder: Path = MNIST) -> None:
    """See the module docstring."""
    if not folder.is_dir():
        record.status = "skipped"
        record.note("needs MNIST, which is not here")
        return
    with tempfile.TemporaryDirectory(prefix="convoy-benchmark-") as beside:
        task = lenet(Data(folder, None), Path(beside), ITERATIONS, ACCURACY)
        compare(record, task, [Setting(*of) for of in _grid()])


def _grid() -> list[tuple[int, float, float]]:
    return [(groups, momentum, rate) for groups in GROUPS for momentum in MOMENTA for rate in RATES]


def compare(record: Record, task: Task, grid: Sequence[Setting]) -> None:
    """All points of the grid, the usual settings and the tuner."""
    times, counts = measured(task), sorted({setting.groups for setting in grid})
    workers = counts[-1]
    record.facts = {
        "task": f"{task.name} to {100 * task.accuracy:g} %, at most {task.iterations} iterations",
        "workers": workers,
        "network": "1 Gbit/s each way, 0.1 ms",
    }
    record.table(
        "Up to the target, with the best momentum and rate of each number of groups", "groups", "momentum", "base_lr",
        "ms an iteration", "iterations", "seconds",
    )  # fmt: skip

    def run(setting: Setting | None) -> Reached:
        return trial(task, workers, setting, times, rate=GIGABIT)

    best = math.inf
    for groups in counts:
        tried = {setting: run(setting) for setting in grid if setting.groups == groups}
        setting = min(tried, key=lambda each: tried[each].seconds or math.inf)
        row(record, str(groups), setting, tried[setting])
        best = min(best, tried[setting].seconds or math.inf)
    for groups in (1, workers):
        usual = Setting(groups, 0.9, USUAL)
        row(record, f"{groups}, usual", usual, run(usual))
    auto = run(None)
    chosen = [event for event in auto.events if "groups" in event]
    last = Setting(*(chosen[-1][key] for key in ("groups", "momentum", "base_lr"))) if chosen else None
    row(record, "auto" if last is None else f"auto: {last.groups}", last, auto)
    record.note(f"for the tuner the run was held for {sum(event['seconds'] for event in chosen):.3g} s of these")
    for event in auto.events:
        record.note(f"auto: {event['why']}")
    if not auto.seconds or auto.seconds > NEAR * best:
        took = "did not reach the target" if auto.seconds is None else f"took {auto.seconds:.3g} s"
        record.fail(f"auto: {took}, at most {NEAR:g} times the {best:.3g} s of the best point")


def row(record: Record, name: str, setting: Setting | None, found: Reached) -> None:
    """A run."""
    end = "diverged" if found.diverged else "not reached"
    rates = ("", "") if setting is None else (setting.momentum, setting.base_lr)
    record.row(name, *rates, 1000 * found.pace, found.iterations or end, found.seconds or end)
