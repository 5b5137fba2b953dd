"""The part `rate-batch` of `tuning`: how rate and batch change the iterations, the passes over the
data and the seconds to a loss (FireCaffe, section 7.3; Omnivore, Figure 23).

FireCaffe trained GoogLeNet with batches of 1024 at rates from 0.02 to 0.32. The two highest learnt
nothing; 0.08 was best, and a batch of 32 had 0.01. Omnivore found that a larger batch costs few
further passes over the data as long as the best rate grows with it. Here LeNet learns at these
rates, with one group of workers and momentum 0.9, so no gradient is stale. The trials are kept, so
a part that was cut off goes on.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from benchmarks.helpers.report import Record
from benchmarks.tuning.kept import Trials, on_virtual_clock, service_times
from benchmarks.tuning.runs import OMNIVORE, WINDOW, Reached, Setting, Task, Times
from benchmarks.tuning.studies.tasks import PICTURES, digits, kept
from runtime.drawing.panels import Curve, Panel, panels

WORKERS = 4
GIGABITS = 1
MOMENTUM = 0.9
RATES = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32)  # the first is published, the others are FireCaffe's
OWN = 64  # images of the net's own batch, for which service times are measured
BATCHES = (OWN, 256, 1024)
IMAGES = 64_000  # the most that a trial may see
TRAINED = 60_000  # images of a pass over the data
LOSS = 0.25
LEAST = 4  # iterations over which the loss is averaged
PICTURE = PICTURES / "rate-batch.svg"


@dataclass(frozen=True)
class Best:
    """The best rate of a batch, its trial, and the highest rate that reached the target."""

    batch: int
    rate: float
    found: Reached
    highest: float

    @property
    def passes(self) -> float:
        """The passes over the data to the target."""
        return (self.found.iterations or math.inf) * self.batch / TRAINED


def rate_batch(record: Record, cycles: int) -> None:
    """Measure the part. `cycles` is not used."""
    del cycles
    with digits(0, LOSS) as task:
        results = kept("rate_batch")
        times = service_times(task, OMNIVORE, results)
        trials = [
            on_virtual_clock(
                with_batch(task, batch), WORKERS, GIGABITS, results, times=scaled(times, batch)
            )
            for batch in BATCHES
        ]
        best = sweep(record, trials, BATCHES, RATES)
        record.facts |= trials[-1].source
    title = f"{task.name} to {task.target}, {WORKERS} workers, {trials[0].where}"
    PICTURE.write_text(picture(best, title))


def with_batch(task: Task, batch: int) -> Task:
    """The same task with another batch: it sees as many images, and its loss is averaged over as
    many if these are at least LEAST iterations."""
    window = max(LEAST, WINDOW * OWN // batch)
    name = f"{task.name}, batches of {batch}"
    options = task.options | {"batch": batch}
    return replace(task, name=name, options=options, iterations=IMAGES // batch, window=window)


def scaled(times: Times, batch: int) -> Times:
    """The service times of another batch: work on rows takes as much longer, updates do not."""
    return {
        key: (seconds if "/update " in key else seconds * batch / OWN, spread)
        for key, (seconds, spread) in times.items()
    }


def sweep(
    record: Record, trials: Sequence[Trials], batches: Sequence[int], rates: Sequence[float]
) -> list[Best]:
    """Record every rate with every batch, then the best rate of each batch. Returns the best."""
    columns = "ms an iteration", "iterations", "passes over the data", "seconds"
    record.table(
        f"To {trials[0].task.target}, at most {IMAGES} images", "batch", "base_lr", *columns
    )
    best = []
    for of, batch in zip(trials, batches, strict=True):
        found = {rate: of.of(Setting(1, MOMENTUM, rate)) for rate in rates}
        for rate, run in found.items():
            passes = (run.iterations or 0) * batch / TRAINED
            reached = (run.iterations, passes, run.seconds)
            lost = "diverged" if run.diverged else "not reached"
            record.row(batch, rate, 1000 * run.pace, *(reached if run.iterations else (lost,) * 3))
        learnt = [rate for rate, run in found.items() if run.iterations]
        if not learnt:
            record.fail(f"batches of {batch}: no rate reached the target")
            continue
        rate = min(learnt, key=lambda rate: found[rate].took)
        best.append(Best(batch, rate, found[rate], max(learnt)))
    record.table("The best rate of each batch", "batch", "base_lr", "highest base_lr", *columns)
    for each in best:
        run = each.found
        rest = 1000 * run.pace, run.iterations, each.passes, run.seconds
        record.row(each.batch, each.rate, each.highest, *rest)
    _judge(record, best, max(rates))
    return best


def _judge(record: Record, best: Sequence[Best], highest: float) -> None:
    """Judge the directions that the papers found."""
    small, large = best[0], best[-1]
    between = f"batches of {large.batch} / of {small.batch}"
    iterations = (large.found.iterations or 0) / (small.found.iterations or 1)
    record.judge(f"{between}: iterations", iterations, most=1.0)
    record.judge(f"{between}: passes over the data", large.passes / small.passes, least=1.0)
    record.judge(f"{between}: best rate", large.rate / small.rate, least=1.0)
    record.judge(
        "highest rate that learns, at any batch", max(b.highest for b in best), most=highest / 2
    )


def picture(best: Sequence[Best], title: str) -> str:
    """Draw the best rate, the passes over the data and the seconds over the batch."""
    measures = (
        ("best rate", "base_lr", lambda each: each.rate),
        ("statistical efficiency", "passes over the data", lambda each: each.passes),
        ("both", "s", lambda each: each.found.took),
    )
    shown = [
        Panel(name, unit, (Curve("", tuple((float(b.batch), of(b)) for b in best)),))
        for name, unit, of in measures
    ]
    return panels(title, shown, "batch")
