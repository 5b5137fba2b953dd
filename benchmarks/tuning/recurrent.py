"""The part `recurrent` of `tuning`: groups, momentum and rate for a recurrent net (Omnivore, Figure
32).

A small LSTM learns Tiny Shakespeare with real gradients on the virtual clock (`runs`). Omnivore
trained its recurrent net on 9 machines; here 4 workers have a machine each, next to the servers. For
each number of groups, every momentum and rate of a grid is tried up to the target, and the best
point is repeated with SEEDS. The trials are kept in FILE, so a part that was cut off goes on.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from benchmarks.helpers.report import ROOT, Record
from benchmarks.tuning.kept import Kept, Trials, on_virtual_clock
from benchmarks.tuning.learning import DATA
from benchmarks.tuning.pictures import tradeoff
from benchmarks.tuning.runs import SOLVER, Task
from benchmarks.tuning.tradeoff import Grid, row
from nets.definition.spec import ZOO
from roles.tuning.choices import counts_up_to

TEXT = DATA / "shakespeare" / "input.txt"
FILE = ROOT / "benchmarks" / "tuning" / "recurrent.jsonl"
PICTURE = ROOT / "docs" / "pictures" / "recurrent.svg"
WORKERS = 4
GIGABITS = 1
MOMENTA = (0.0, 0.6, 0.9)
FACTORS = (1.0, 3.0, 10.0)  # of the rate of the solver below
SEEDS = 2
ITERATIONS = 500
LOSS = 2.3  # nats per character; a uniform guess has 4.17
STREAMS = 32
STEPS = 32
UNITS = 64
SEQUENCE = 8  # batches in which the state goes on


def recurrent(record: Record, cycles: int) -> None:
    """Measure the part. `cycles` is not used."""
    if not TEXT.is_file():
        record.status = "skipped"
        record.note("needs the folder shakespeare in ../shared/data")
        return
    with tempfile.TemporaryDirectory(prefix="convoy-benchmark-") as folder:
        task = letters(Path(folder))
        trials = on_virtual_clock(task, WORKERS, GIGABITS, Kept(FILE))
        compare(record, trials)
        record.facts |= trials.source
    title = f"LSTM on Tiny Shakespeare to {task.target}, {WORKERS} workers, {trials.where}"
    PICTURE.write_text(tradeoff(record.tables[0].rows, title))


def compare(record: Record, trials: Trials) -> None:
    """Record the best point of each number of groups."""
    task = trials.task
    rates = [float(f"{task.usual * factor:g}") for factor in FACTORS]
    record.table(
        f"{task.name} to {task.target} in {task.iterations} iterations of {STREAMS} streams x "
        f"{STEPS} characters: the best momentum and rate of each number of groups",
        "groups",
        "momentum",
        "base_lr",
        "ms an iteration",
        "iterations",
        "seconds",
        "least",
        "most",
        "seeds",
    )
    grid = Grid(trials, MOMENTA, rates, SEEDS)
    took = {}
    for groups in counts_up_to(trials.workers):
        grid.search(groups)
        best = grid.bests[groups]
        took[groups] = row(record, str(groups), best, trials.repeated(best, SEEDS))
    least = min(took.values())
    for groups, name in ((1, "synchronous"), (trials.workers, "asynchronous")):
        record.facts[f"{name} / best number of groups"] = took[groups] / least


def letters(folder: Path) -> Task:
    """A small char_lstm, written to a folder, whose states go on for SEQUENCE batches."""
    net = (ZOO / "char_lstm.prototxt").read_text()
    for old, new in (
        ("dim: 64 dim: 64", f"dim: {STEPS} dim: {STREAMS}"),
        ("num_output: 256", f"num_output: {UNITS}"),
        ("num_output: 64 input_dim", "num_output: 16 input_dim"),
    ):
        net = net.replace(old, new)
    path = folder / "letters.prototxt"
    path.write_text(net)
    solver = folder / "solver.prototxt"
    solver.write_text(SOLVER.format(net=path.with_suffix(""), rate=1.0, decay=0.0, tests=""))
    text = {
        "format": "text",
        "source": str(TEXT),
        "streams": STREAMS,
        "length": SEQUENCE * STEPS,
        "part": ["0", "0.9"],
    }
    options = {
        "solver": str(solver),
        "data": {"train": text, "shuffle": True},
        "precision": "fast",
    }
    return Task("LSTM on Tiny Shakespeare", options, ITERATIONS, loss=LOSS, usual=1.0)
