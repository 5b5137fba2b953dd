"""The part `schedule` of `tuning`: the tuner next to the published schedule of a solver file
(Omnivore, F.7 and Figure 33).

CIFAR-10 quick learns twice with groups, momentum and rate `"auto"`, as in the paper. One run chooses
them at the cold start and then follows the schedule of its solver file: a tenth of the rate after
four fifths of the iterations. The other run has a constant rate and lets the tuner search again
after each of its epochs. Both have two fifths of the iterations of the published schedule. The
trials are kept, so a part that was cut off goes on.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from benchmarks.helpers.report import Record
from benchmarks.presets.runs import Data
from benchmarks.tuning.kept import Repeated, on_virtual_clock
from benchmarks.tuning.learning import DATA, missing
from benchmarks.tuning.runs import SOLVER, Reached, Task, quick
from benchmarks.tuning.studies.tasks import PICTURES, kept
from runtime.drawing.panels import Curve, Panel, panels

WORKERS = 4
GIGABITS = 1
ITERATIONS = 2000
STEP = 1600  # the rate falls here
# so few settings, and twice the usual budget, that a run of this length pays for two searches
TUNING = {"momenta": [0.0, 0.6], "rates": [1.0, 3.0], "budget": 0.2}
SEEDS = 1
SHOWN = 8  # points of a curve
PUBLISHED = "the published schedule"
TUNED = "the tuner again after each epoch"
POLICY = f'lr_policy: "multistep" gamma: 0.1 stepvalue: {STEP}'
PICTURE = PICTURES / "schedule.svg"


def schedule(record: Record, cycles: int) -> None:
    """Measure the part. `cycles` is not used."""
    del cycles
    if lacks := missing():
        record.status = "skipped"
        record.note(lacks)
        return
    results = kept("schedule")
    found: dict[str, Repeated] = {}
    with tempfile.TemporaryDirectory(prefix="convoy-benchmark-") as folder:
        task = quick(Data(DATA / "mnist", DATA / "cifar10"), Path(folder), ITERATIONS, 0.0)
        task = replace(task, options=task.options | {"tuning": TUNING})
        for name, each in ((PUBLISHED, published(task, Path(folder))), (TUNED, task)):
            trials = on_virtual_clock(each, WORKERS, GIGABITS, results, but=name)
            found[name] = trials.repeated(None, SEEDS)
        record.facts |= trials.source
    compare(record, {name: runs.runs[0] for name, runs in found.items()})
    title = f"{task.name}, {WORKERS} workers"
    PICTURE.write_text(picture({name: runs.runs[0] for name, runs in found.items()}, title))


def published(task: Task, folder: Path) -> Task:
    """The same task with the solver file's schedule. The tuner makes no search after the first."""
    solver = folder / "published.prototxt"
    text = SOLVER.format(net="cifar10_quick", rate=0.001, decay=0.004, tests="")
    solver.write_text(text.replace('lr_policy: "fixed"', POLICY))
    tuning = {**task.options.get("tuning", {}), "epoch_iterations": ITERATIONS}
    return replace(task, options=task.options | {"solver": str(solver), "tuning": tuning})


def compare(record: Record, found: Mapping[str, Reached]) -> None:
    """Record the losses of both runs, what the tuner chose, and the seconds to the same loss."""
    record.table("Both runs", "rate", "ms an iteration", "seconds", "loss at the end", "searches")
    for name, run in found.items():
        seconds, loss = run.way[-1]
        record.row(name, 1000 * run.pace, seconds, loss, len(run.chosen))
        for event in run.chosen:
            setting = ", ".join(
                f"{key} {event[key]:g}" for key in ("groups", "momentum", "base_lr")
            )
            record.note(f"{name}, iteration {event['iteration']}: {setting}: {event['why']}")
    common = max(min(loss for _, loss in run.way) for run in found.values())
    took = {name: seconds_to(run, common) for name, run in found.items()}
    record.table(f"Seconds to a mean loss of {common:.4g}", *found)
    record.row(*took.values())
    ratio = took[PUBLISHED] / took[TUNED]
    record.judge("seconds to the same loss, published schedule / tuner", ratio, least=1.0)


def seconds_to(run: Reached, loss: float) -> float:
    """The seconds after which the mean loss was first as low as that; infinite if it never was."""
    return next((seconds for seconds, now in run.way if now <= loss), math.inf)


def picture(found: Mapping[str, Reached], title: str) -> str:
    """Draw the mean loss over seconds, a curve for each run, at the same SHOWN times."""
    low = max(run.way[0][0] for run in found.values())
    high = min(run.way[-1][0] for run in found.values())
    times = [float(f"{low * (high / low) ** (at / (SHOWN - 1)):.2g}") for at in range(SHOWN)]
    curves = [
        Curve(name, tuple((time, loss_at(run, time)) for time in times))
        for name, run in found.items()
    ]
    return panels(title, [Panel("training", "mean loss", tuple(curves))], "seconds")


def loss_at(run: Reached, time: float) -> float:
    """The mean loss nearest to a time."""
    return min(run.way, key=lambda point: abs(point[0] - time))[1]
