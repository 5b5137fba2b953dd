"""The parts `end-to-end-...` of `benchmarks.papers`: the seconds to a target of Omnivore with its
tuner, and of the preset that stands for MXNet's better strategy (Omnivore, Figures 10 and 12).

`mxnet-sync` computes the numbers of one group of `omnivore`, so it needs as many iterations: those
of the best momentum and rate of one group in the part `tradeoff-...` of `benchmarks.tuning`. A
short run on the virtual clock, with the service times of that part, shows the seconds of each.
"""

from __future__ import annotations

import dataclasses
import tempfile
from pathlib import Path

from benchmarks.helpers.report import Record
from benchmarks.papers.headline import cell, table_of
from benchmarks.papers.results import newest
from benchmarks.tuning.kept import FILE, Kept
from benchmarks.tuning.learning import missing
from benchmarks.tuning.runs import Setting, trial
from benchmarks.tuning.tradeoff import Configuration

STUDIED = (
    Configuration("mnist", 8, 1),
    Configuration("mnist", 32, 1),
    Configuration("cifar10", 8, 1),
    Configuration("cifar10", 8, 10),
    Configuration("cifar10", 32, 1),
)
ITERATIONS = 12  # of a short run: their times vary by a few percent
TUNED, SYNC, ASYNC = "omnivore, auto", "mxnet-sync", "mxnet-async"


def compare(record: Record, studied: Configuration) -> None:
    """Record a row for each system."""
    if lacks := missing():
        record.status = "skipped"
        record.note(lacks)
        return
    kept = newest("tuning", f"tradeoff-{studied}")
    if kept is None:
        record.fail(f"first run python -m benchmarks.tuning --parts tradeoff-{studied}")
        return
    learned = table_of(kept.record, "Up to the target")
    columns = ("groups", "momentum", "base_lr", "ms an iteration", "iterations", "seconds")
    auto = [cell(learned, {"groups": "auto"}, column) for column in columns]
    one = [cell(learned, {"groups": "1"}, column) for column in columns]
    record.facts["iterations are those of"] = f"{kept.file}, {kept.record.machine['commit']}"
    record.table(
        "Seconds to the target",
        *("system", *columns, "times the seconds of Omnivore"),
    )
    record.row(TUNED, *auto, 1.0)
    setting = Setting(1, float(one[1]), float(one[2]))
    pace = _pace(studied, setting)
    seconds = pace * float(one[4])
    record.row(SYNC, *one[:3], 1e3 * pace, one[4], seconds, seconds / float(auto[-1]))


def _pace(studied: Configuration, setting: Setting) -> float:
    """The seconds of an iteration of `mxnet-sync`."""
    with tempfile.TemporaryDirectory(prefix="convoy-benchmark-") as folder:
        task = dataclasses.replace(studied.task(Path(folder)), iterations=ITERATIONS)
        # with one worker, where service times are measured, both presets have the same actors
        times = Kept(FILE).get(f"{task.name}, {ASYNC}: service times")
        known = {key: (mean, spread) for key, (mean, spread) in times.items()}
        rate = studied.gigabits * 1e9 / 8
        return trial(task, studied.workers, setting, known, rate=rate, preset=SYNC).pace
