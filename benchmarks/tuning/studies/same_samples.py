"""The part `same-samples` of `tuning`: the loss of a recurrent net in asynchronous groups, compared
with one process after the same samples (Omnivore, F.6).

The zoo's `char_lstm` learns Tiny Shakespeare with real gradients. A state goes on for SEQUENCE
batches. `single` is the one process; GROUPS groups of one worker run on the virtual clock. Both have
the solver's rate, and no key of [train] names a momentum: Convoy chooses it for the groups. It
lowers the momentum of SGD, and keeps that of Adam.

Further runs ask for the reason: five times as many iterations, one process whose gradients have the
gain that the groups' have, and other settings of the groups. The trials are kept, so a part that
was cut off goes on.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from benchmarks.helpers.report import Record
from benchmarks.tuning.kept import Kept, service_times
from benchmarks.tuning.recurrent import TEXT
from benchmarks.tuning.runs import EACH, OMNIVORE, Prepared, Task, learnt
from benchmarks.tuning.studies.tasks import PICTURES, kept
from runtime import Actor
from runtime.drawing.panels import Curve, Panel, panels

GROUPS = 4
GIGABITS = 1
SEEDS = 3
ITERATIONS = 200
STREAMS = 64  # and steps: those of the zoo's net
SEQUENCE = 4  # batches in which the state goes on
LONG_ITERATIONS = 1000
NATS = 0.05  # of the mean loss with groups above that of one process, at most
# The zoo's solver, and SGD at a rate that suits one process
SOLVERS = {
    "Adam": 'type: "Adam" base_lr: 0.005 momentum2: 0.999 lr_policy: "poly" power: 1',
    "SGD": 'base_lr: 2 lr_policy: "fixed"',
}
SOLVER = """net: "char_lstm.prototxt" {way} momentum: 0.9 max_iter: {iterations}
display: 1 snapshot: 0 snapshot_after_train: false test_initialization: false
"""
SINGLE = "single"
APART = f"{GROUPS} groups"
STRATEGIES: Mapping[str, Mapping[str, Any]] = {
    SINGLE: {"preset": SINGLE},
    APART: {"preset": OMNIVORE, "workers": GROUPS, "groups": GROUPS},
}


@dataclass(frozen=True)
class Case:
    """Runs of one kind. `but` describes the `keys` of [train] that Convoy does not choose."""

    solver: str
    preset: str
    but: str = ""
    iterations: int = ITERATIONS
    keys: Mapping[str, Any] = field(default_factory=dict, compare=False)
    seeds: int = field(default=SEEDS, compare=False)

    def __str__(self) -> str:
        long = f", {self.iterations} iterations" if self.iterations != ITERATIONS else ""
        return f"{self.solver}, {self.run}{long}"

    @property
    def run(self) -> str:
        """The preset, and the keys that differ."""
        return f"{self.preset}, {self.but}" if self.but else self.preset


CASES = tuple(Case(solver, preset) for solver in SOLVERS for preset in STRATEGIES)
LONG = tuple(Case("Adam", preset, iterations=LONG_ITERATIONS, seeds=1) for preset in STRATEGIES)
# At a quarter of the rate, momentum 0.9 gives a gradient of one process the gain that momentum 0.6
# leaves to those of four groups
SAME_GAIN = Case("SGD", SINGLE, "a quarter of the rate", keys={"base_lr": 0.5})
# Ways to a smaller loss with groups. Adam's step does not grow with its momentum, so less of it makes
# gradients count sooner without a smaller step.
LESS = "momentum 0 and twice the rate"
OTHERS = tuple(
    Case("Adam", preset, but, keys=keys, seeds=1)
    for preset, but, keys in (
        (APART, "a warm-up of 50 iterations", {"schedule": {"warmup": 50}}),
        (APART, "momentum 0", {"momentum": 0.0}),
        (APART, LESS, {"momentum": 0.0, "base_lr": 0.01}),
        (SINGLE, LESS, {"momentum": 0.0, "base_lr": 0.01}),
    )
)
PICTURE = PICTURES / "same-samples.svg"


class Way(NamedTuple):
    """A run from its begin to its end: its momentum, and its mean loss every EACH iterations."""

    momentum: float
    losses: list[float]


Found = Mapping[Case, list[Way]]  # the runs of all seeds


def same_samples(record: Record, cycles: int) -> None:
    """Measure the part. `cycles` is not used."""
    del cycles
    if not TEXT.is_file():
        record.status = "skipped"
        record.note("needs the folder shakespeare in ../shared/data")
        return
    results = kept("same_samples")
    with tempfile.TemporaryDirectory(prefix="convoy-benchmark-") as folder:
        found = {
            case: [way(Path(folder), case, results, seed) for seed in range(1, case.seeds + 1)]
            for case in (*CASES, *LONG, SAME_GAIN, *OTHERS)
        }
    record.facts["trials are from commits"] = ", ".join(sorted(results.origins))
    compare(record, found)
    title = f"char_lstm on Tiny Shakespeare, means of {SEEDS} seeds"
    PICTURE.write_text(picture(found, title))


def characters(folder: Path, solver: str, iterations: int = ITERATIONS) -> Task:
    """The task of the zoo's net with this solver, which is written to a folder."""
    path = folder / f"{solver}.prototxt"
    path.write_text(SOLVER.format(way=SOLVERS[solver], iterations=iterations))
    text = {
        "format": "text",
        "source": str(TEXT),
        "streams": STREAMS,
        "length": SEQUENCE * STREAMS,
        "part": ["0", "0.9"],
    }
    options = {
        "net": "char_lstm",
        "solver": str(path),
        "data": {"train": text, "shuffle": True},
        "precision": "fast",
    }
    return Task(f"char_lstm with {solver}", options, iterations)


def way(folder: Path, case: Case, results: Kept, seed: int) -> Way:
    """The run of a case with this seed, made if it is not kept yet."""
    task = characters(folder, case.solver, case.iterations)
    name = f"{task.name}, {task.iterations} iterations, {GIGABITS} Gbit/s, {case.run}, seed {seed}"
    if results.get(name) is None:
        times = service_times(task, OMNIVORE, results)
        momenta: set[float] = set()
        run = learnt(
            task,
            {**case.keys, "strategy": dict(STRATEGIES[case.preset])},
            times,
            rate=GIGABITS * 1e9 / 8,
            seed=seed,
            prepared=_noting(momenta),
        )
        losses = [round(loss, 4) for _, loss in run.way] + [math.nan] * run.diverged
        (momentum,) = momenta
        results.put(name, {"momentum": momentum, "losses": losses})
    return Way(**results.get(name))


def _noting(momenta: set[float]) -> Prepared:
    """Adds the momentum of every actor of a run that is about to begin."""

    def note(actors: dict[str, Actor]) -> None:
        jobs = (getattr(actor, "_job", None) for actor in actors.values())
        values = (job.solver_spec.momentum for job in jobs if job is not None)
        momenta.update(float(f"{value:.6g}") for value in values)  # the message has a float32

    return note


def compare(record: Record, found: Found) -> None:
    """Record the mean losses at the end, and judge those of groups at Convoy's own settings."""
    record.table(
        "Mean loss of the last 50 iterations, in nats a character",
        "solver, run",
        "iterations",
        "momentum",
        "mean",
        "least",
        "most",
        f"above {SINGLE}",
        "seeds",
    )
    for case, runs in found.items():
        ends = [run.losses[-1] for run in runs]
        alone = found[replace(case, preset=SINGLE, but="")]
        above = fmean(ends) - fmean(run.losses[-1] for run in alone[: case.seeds])
        (momentum,) = {run.momentum for run in runs}
        record.row(
            f"{case.solver}, {case.run}",
            case.iterations,
            momentum,
            fmean(ends),
            min(ends),
            max(ends),
            above,
            len(ends),
        )
        if case.preset != SINGLE and not case.but:
            record.judge(f"{case}: nats above {SINGLE}", above, most=NATS)


def picture(found: Found, title: str) -> str:
    """Draw the mean loss over the iterations, a panel for each solver."""
    shown = [
        Panel(
            f"{solver}: training",
            "mean loss in nats",
            tuple(_curve(preset, found[Case(solver, preset)]) for preset in STRATEGIES),
        )
        for solver in SOLVERS
    ]
    return panels(title, shown, "iterations")


def _curve(name: str, runs: list[Way]) -> Curve:
    points = enumerate(map(fmean, zip(*(run.losses for run in runs), strict=False)), 1)
    finite = [(float(EACH * at), loss) for at, loss in points if math.isfinite(loss)]
    return Curve(name, tuple(finite))
