"""The part `steady` of `tuning`: groups, momentum and rate from a warm start, next to the cold start
(Omnivore, Figures 26 and 27).

From the first parameters, groups that do not wait for one another need more iterations than one
group. Omnivore found that this cost is nearly gone once the net has learnt for a while. The warm
start of LeNet is the model after WARM iterations of one process. Either start has its target, and
each number of groups its best momentum and rate of a grid. The trials are kept, so a part that was
cut off goes on.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.helpers.report import Record
from benchmarks.presets.runs import arrays_of
from benchmarks.tuning.kept import Repeated, Trials, on_virtual_clock
from benchmarks.tuning.runs import SOLVER, Task
from benchmarks.tuning.studies.tasks import PICTURES, digits, iterations, kept
from benchmarks.tuning.tradeoff import Grid, row
from roles.tuning.choices import counts_up_to
from runtime.drawing.panels import Curve, Panel, panels

WORKERS = 4
GIGABITS = 1
MOMENTA = (0.0, 0.6, 0.9)
FACTORS = (1.0, 3.0, 10.0)  # of the published rate
SEEDS = 2
ITERATIONS = 800
COLD = 0.25  # mean loss to which the cold start goes
WARM = 300  # iterations before the warm start
RATE = 0.03  # of these iterations, at momentum 0.9
LOSS = 0.05  # mean loss to which the warm start goes
PICTURE = PICTURES / "steady.svg"
Found = Mapping[int, Repeated]  # groups -> the trials of their best point


def steady(record: Record, cycles: int) -> None:
    """Measure the part. `cycles` is not used."""
    del cycles
    results = kept("steady")
    found = {}
    with digits(ITERATIONS, COLD) as task, warmed(task) as weights:
        later = replace(task, options=task.options | {"weights": str(weights)}, loss=LOSS)
        for name, each in (("cold", task), (f"after {WARM} iterations", later)):
            but = "" if each is task else name
            trials = on_virtual_clock(each, WORKERS, GIGABITS, results, but=but)
            found[name] = best_of(record, trials)
        record.facts |= trials.source
    judge(record, found)
    title = f"{task.name}, {WORKERS} workers, {GIGABITS} Gbit/s: cold start and steady state"
    PICTURE.write_text(picture(found, title))


@contextmanager
def warmed(task: Task) -> Iterator[Path]:
    """The model after WARM iterations of one process, as a file."""
    with TemporaryDirectory(prefix="convoy-benchmark-") as folder:
        solver = Path(folder, "solver.prototxt")
        text = SOLVER.format(net="lenet", rate=RATE, decay=0.0005, tests="")
        solver.write_text(text.replace("snapshot_after_train: false", ""))
        weights = Path(folder, "warm.safetensors")
        more = {"solver": str(solver), "max_iter": WARM, "strategy": {"preset": "single"}}
        arrays_of(task.options | more, weights)
        yield weights


def best_of(record: Record, trials: Trials) -> Found:
    """Record the best point of each number of groups."""
    task = trials.task
    columns = "momentum", "base_lr", "ms an iteration", "iterations", "seconds", "least", "most"
    record.table(f"{task.name} to {task.target}, {trials.where}", "groups", *columns, "seeds")
    rates = [float(f"{task.usual * factor:g}") for factor in FACTORS]
    grid = Grid(trials, MOMENTA, rates, SEEDS)
    found = {}
    for groups in counts_up_to(trials.workers):
        grid.search(groups)
        found[groups] = grid.repeated(grid.bests[groups], SEEDS)
        row(record, str(groups), grid.bests[groups], found[groups])
    return found


def judge(record: Record, found: Mapping[str, Found]) -> None:
    """Record how many times the iterations of one group each number of groups takes. From a warm
    start the most groups may not take more than from a cold one."""
    record.table("Iterations, times those of one group", "groups", *found)
    costs = {
        name: {groups: iterations(runs) / iterations(by[1]) for groups, runs in by.items()}
        for name, by in found.items()
    }
    cold, warm = costs.values()
    for groups in cold:
        record.row(groups, cold[groups], warm[groups])
    most = max(cold)
    record.judge(f"cost of {most} groups, steady / cold", warm[most] / cold[most], most=1.0)


def picture(found: Mapping[str, Found], title: str) -> str:
    """Draw seconds of an iteration, iterations and seconds over groups, times those of one group,
    with a curve for each start."""
    measures = (
        ("hardware efficiency", lambda runs: runs.pace),
        ("statistical efficiency", iterations),
        ("both", lambda runs: runs.took),
    )
    shown = []
    for title_of, measure in measures:
        curves = []
        for name, by in found.items():
            points = (
                (float(groups), measure(runs) / measure(by[1])) for groups, runs in by.items()
            )
            curves.append(Curve(name, tuple(each for each in points if math.isfinite(each[1]))))
        shown.append(Panel(title_of, "times one group", tuple(curves)))
    return panels(title, shown, "groups")
