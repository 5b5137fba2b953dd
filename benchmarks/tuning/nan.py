"""Test whether asynchrony alone makes a run end in NaN: LeNet on MNIST, `mxnet-async`, two workers,
momentum 0.9, seed by seed.

On the virtual clock everything happens in one thread and in a repeatable order, so a run that
diverges there did not diverge because of a race. It is compared with one process that has the total
momentum of the two workers, 1 - (1 - 0.9) / 2, at half the rate: by Theorem 1 its expected updates
are the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from benchmarks.helpers.report import Record
from benchmarks.tuning.learning import Learning, Learnt, Profile, missing, real, virtual
from benchmarks.tuning.momentum import EXPONENTIAL
from roles.tuning.momentum import expected, total

ITERATIONS = 200  # of a run on the virtual clock; the rate is that of the first 200 of 1000
SEEDS = 100  # seeds for which `real` has REAL seeds
REAL = 30
CYCLES = 2000  # of `--cycles` for one seed
HIGH = 3.0  # a loss that a net of ten classes has only if something went wrong: guessing costs 2.3
ASYNC = Learning()
LOWER = replace(ASYNC, momentum=0.8)
AS_FAR = replace(ASYNC, momentum=0.8, rate=0.04)  # the same rate / (1 - momentum)
ALONE = replace(ASYNC, preset="single", workers=1, momentum=total(0.9, expected(2)), rate=0.01)
SYNC = replace(ASYNC, preset="single", workers=1)
Run = Callable[[int], Learnt]


def nan(record: Record, cycles: int) -> None:
    """Run all cases."""
    if lacks := missing():
        record.status = "skipped"
        record.note(lacks)
        return
    seeds = max(1, cycles // CYCLES)
    _, taken = real(replace(ASYNC, iterations=100), seed=1, record=True)
    measured: Profile = {**taken, "*/*": 0}
    record.facts = {
        "net": "LeNet on MNIST",
        "images of a batch": ASYNC.batch,
        "iterations": ITERATIONS,
    }
    record.table(
        "Runs that end in NaN",
        "preset",
        "clock",
        "service times",
        "momentum",
        "rate",
        "runs",
        "NaN",
        "95 % at most",
        f"a loss over {HIGH:g}",
        "the last NaN at iteration",
    )
    cases = [
        (ASYNC, "virtual", "exponential", on_virtual(ASYNC, EXPONENTIAL)),
        (ASYNC, "virtual", "measured", on_virtual(ASYNC, measured)),
        (LOWER, "virtual", "exponential", on_virtual(LOWER, EXPONENTIAL)),
        (AS_FAR, "virtual", "exponential", on_virtual(AS_FAR, EXPONENTIAL)),
        (ALONE, "virtual", "none", on_virtual(ALONE, {"*/*": 0})),
        (SYNC, "virtual", "none", on_virtual(SYNC, {"*/*": 0})),
        (ASYNC, "real", "real", lambda seed: real(ASYNC, seed)[0]),
    ]
    for wanted, clock, times, run in cases:
        count = max(1, seeds * REAL // SEEDS) if clock == "real" else seeds
        found = tried(run, count)
        cells = (wanted.preset, clock, times, wanted.momentum, wanted.rate)
        record.row(*cells, found.runs, found.nans, found.at_most(), found.high, found.last)


@dataclass
class Tried:
    """The results of runs with different seeds."""

    runs: int = 0
    nans: int = 0
    high: int = 0  # runs with a loss above HIGH, including runs that end in NaN
    last: int = 0  # the latest iteration at which a run ended in NaN

    def at_most(self) -> float:
        """The share of runs that end in NaN is at most this, with 95 % confidence (Wilson's
        bound)."""
        z = 1.645
        share = self.nans / self.runs
        middle = share + z * z / (2 * self.runs)
        width = z * math.sqrt(share * (1 - share) / self.runs + (z / (2 * self.runs)) ** 2)
        return (middle + width) / (1 + z * z / self.runs)


def on_virtual(wanted: Learning, times: Profile) -> Run:
    """A function that makes a run on the virtual clock for a seed."""
    return lambda seed: virtual(wanted, times, seed, ITERATIONS)


def tried(run: Run, count: int) -> Tried:
    """Run with `count` seeds, from 1."""
    found = Tried()
    for seed in range(1, count + 1):
        learnt = run(seed)
        found.runs += 1
        found.nans += learnt.diverged
        found.high += learnt.diverged or max(learnt.losses) > HIGH
        if learnt.diverged:
            found.last = max(found.last, len(learnt.losses) + 1)
    return found
