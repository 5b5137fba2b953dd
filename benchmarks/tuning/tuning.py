"""`python -m benchmarks.tuning`: the queueing model's results, compared with textbooks and with
measurements, and the time that it takes.

    formulas    mean values and the event model compared with textbook results, and the closed formula with both
    large       10 000 machines, event by event
    clusters    `plan` for Omnivore's own clusters (`clusters`)
    prediction  iterations of clusters on the virtual clock, compared with the prediction and with AdaptDL's model
    weird-trick One weird trick's Table 1, as `plan` predicts it and on the virtual clock; some minutes
    real        predictions of runs of real work, compared with their measured times (no other load, please)
    tradeoff-D-W-G  groups, momentum and rate up to a target, and the tuner (Omnivore, Figure 7): data D, W workers,
                links of G Gbit/s (`tradeoff`); 20 minutes of a core and more; continues if
                it was cut off
    tradeoff-real   the same in processes, up to 4 workers; 8 minutes (no other load, please)
    lesion      the gain by each choice of the tuner (Omnivore, Figure 31); after tradeoff-mnist-8-1 and
                tradeoff-cifar10-8-10
    recurrent   groups, momentum and rate for a recurrent net (Omnivore, Figure 32); minutes of a core; continues if
                it was cut off
    same-samples    a recurrent net in 4 groups compared with one process after the same samples; 10 minutes of a core;
                continues if it was cut off
    fc-phase    the FC phase merged or not: hardware and statistical efficiency apart (Omnivore, Figures 13 and 31)
    rate-batch  rates and batches up to a loss (FireCaffe, section 7.3; Omnivore, Figure 23)
    lazy-pull   models pulled layer by layer, compared with whole ones (Omnivore, D.1.2)
    schedule    the tuner compared with the published schedule (Omnivore, Figure 33)
    steady      groups, momentum and rate from a warm start, next to the cold start (Omnivore, Figures 26 and 27)
                these five take minutes of a core each (`studies`); each continues if it was cut off
    bayes       the tuner's search compared with a Bayesian one (`bayes`)
    momentum    the momentum of asynchronous groups compared with 1 - 1/g (Omnivore, Figure 6); about 10 minutes of two
                cores
    nan         does asynchrony alone make a run end in NaN; about 40 minutes of two cores
    rules       momentum and rate of g groups by several rules, on a grid (`rules`); 3 hours of a core; continues if it
                was cut off

Every comparison has its confidence interval. A missed bar is reported in a line, and the command
ends with 1.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.helpers.command_line import parser_of
from benchmarks.helpers.report import ROOT, Record, machine, write
from benchmarks.tuning import real
from benchmarks.tuning.bayes import bayes
from benchmarks.tuning.clusters import clusters
from benchmarks.tuning.lesion import lesion
from benchmarks.tuning.momentum import momentum
from benchmarks.tuning.nan import nan
from benchmarks.tuning.prediction import prediction
from benchmarks.tuning.recurrent import recurrent
from benchmarks.tuning.rules import compare_rules
from benchmarks.tuning.studies.fc_phase import fc_phase
from benchmarks.tuning.studies.lazy_pull import lazy_pull
from benchmarks.tuning.studies.rate_batch import rate_batch
from benchmarks.tuning.studies.same_samples import same_samples
from benchmarks.tuning.studies.schedule import schedule
from benchmarks.tuning.studies.steady import steady
from benchmarks.tuning.tradeoff import CONFIGURATIONS
from benchmarks.tuning.tradeoff_real import tradeoff_real
from benchmarks.tuning.weird_trick import weird_trick
from runtime.queueing.efficiency import Phases, by_server, by_tree, conv_seconds, iteration_seconds
from runtime.queueing.estimates import Estimate, batch_means
from runtime.queueing.event_simulation import Delay, Model, Together, Visit, exponential, gamma
from runtime.queueing.mean_values import Station, solve

CYCLES = 200_000
EXACT = 1e-9  # relative
MACHINES = 10_000
LARGE_SECONDS = 10.0
SPREAD = 0.0036  # squared coefficient of variation: 6 % (Omnivore, Figure 22)


def main(arguments: list[str] | None = None) -> int:
    """Run the parts and write the results. Returns 1 if a bar is missed."""
    parser = parser_of("tuning", __doc__)
    parser.add_argument(
        "--parts", nargs="+", choices=tuple(PARTS), default=list(PARTS), metavar="PART"
    )
    parser.add_argument("--cycles", type=int, default=CYCLES, help="cycles of each simulation")
    parser.add_argument("--results", type=Path, default=ROOT / "benchmarks" / "results")
    given = parser.parse_args(arguments)
    records = {name: Record(PARTS[name][0]) for name in given.parts}
    for name, record in records.items():
        print(record.title, flush=True)
        PARTS[name][1](record, given.cycles)
        if record.status == "running":
            record.status = "passed"
        paths = write(given.results, "tuning", machine(), {name: record})
    print("results:", *paths)
    return int(any(record.status not in ("passed", "skipped") for record in records.values()))


def formulas(record: Record, cycles: int) -> None:
    """Compare the seconds that each method gives."""
    record.table(
        "Open queues: seconds a job is there",
        "queue",
        "load",
        "textbook",
        "events",
        "95 % +-",
        "inside",
    )
    for load in (0.3, 0.5, 0.7, 0.8, 0.9):
        for name, seconds, variation in (("M/M/1", exponential(load), 1.0), ("M/D/1", load, 0.0)):
            model = Model(seed=7)
            model.arrivals((Visit(model.station("server"), seconds),), exponential(1.0))
            found = batch_means(model.run(cycles, warm=cycles // 20).durations)
            compare(
                record, name, load, load + load * load * (1 + variation) / (2 * (1 - load)), found
            )
    record.table(
        ("Closed networks: seconds between two ends"),
        "network",
        "jobs",
        "textbook",
        "mean values",
        "events",
        "95 % +-",
        "inside",
    )
    for jobs in (1, 2, 4, 8, 16, 32):
        closed(
            record,
            f"repairman, {jobs}",
            jobs,
            {"conv": 3.0, "fc": 1.0},
            repairman(jobs, 3.0, 1.0),
            cycles,
        )
    for jobs in (1, 2, 5, 20):
        closed(
            record,
            f"two queues, {jobs}",
            jobs,
            {"link": 1.0, "fc": 0.8},
            two_queues(jobs, 1.0, 0.8),
            cycles,
        )
    record.table(
        "No spread: HE(g) of 32 devices", "gradients by", "g", "HE(g)", "events", "events / HE(g)"
    )
    phases = Phases(compute=12.0, network=0.1, fc=0.6)
    for name, copies in (("server", by_server), ("tree of 2", by_tree(2))):
        for g in (1, 2, 4, 8, 16, 32):
            conv = conv_seconds(phases, 32 // g, copies)
            expected = iteration_seconds(g, conv, phases.fc)
            model = Model()
            fc = model.station("fc")
            for _ in range(g):
                model.job((Delay(conv), Visit(fc, phases.fc)))
            seconds = model.run(20 * g, warm=5 * g).cycle_seconds
            record.row(name, g, expected, seconds, seconds / expected)
            if abs(seconds / expected - 1) > EXACT:
                record.fail(
                    f"HE({g}) by {name}: events {seconds:.6g} s, the formula {expected:.6g} s"
                )


def compare(record: Record, name: str, load: float, exact: float, found: Estimate) -> None:
    """Record a row. The record fails if the textbook's figure is outside the 99.9 % interval, which
    is that wide because there are many rows."""
    inside = Estimate(found.mean, found.half_width * 3.883 / 2.093).holds(exact)
    record.row(name, load, exact, found.mean, found.half_width, "yes" if inside else "no")
    if not inside:
        record.fail(
            f"{name} at {load:g}: events {found.mean:.4g} +- {found.half_width:.2g} "
            f"s, textbook {exact:.4g} s"
        )


def closed(
    record: Record, name: str, jobs: int, demands: dict[str, float], exact: float, cycles: int
) -> None:
    """Compare textbook, mean values and events for one closed network. No job waits at "conv"."""
    stations = [Station(place, servers=None if place == "conv" else 1) for place in demands]
    solved = solve(stations, demands, jobs).cycle_seconds
    model = Model(seed=3)
    places = {place: model.station(place) for place in demands if place != "conv"}
    for _ in range(jobs):
        model.job(
            tuple(
                Visit(places[place], exponential(mean))
                if place in places
                else Delay(exponential(mean))
                for place, mean in demands.items()
            )
        )
    found = batch_means(model.run(cycles, warm=cycles // 20).intervals)
    inside = Estimate(found.mean, found.half_width * 3.883 / 2.093).holds(exact)
    record.row(
        name.partition(",")[0],
        jobs,
        exact,
        solved,
        found.mean,
        found.half_width,
        "yes" if inside else "no",
    )
    if not inside or abs(solved / exact - 1) > EXACT:
        record.fail(
            f"{name}: textbook {exact:.4g} s, mean values {solved:.4g}, events {found.mean:.4g}"
        )


def repairman(jobs: int, think: float, service: float) -> float:
    """Seconds between two ends of M/M/1//N (Kleinrock I, section 3.6)."""
    weights = [math.perm(jobs, n) * (service / think) ** n for n in range(jobs + 1)]
    return service / (1 - weights[0] / sum(weights))


def two_queues(jobs: int, first: float, second: float) -> float:
    """Seconds between two ends of a cycle of two exponential servers."""
    ratio = second / first
    return first * (1 - ratio ** (jobs + 1)) / (1 - ratio**jobs)


def large(record: Record, cycles: int) -> None:
    """Measure ten iterations of 10 000 machines in g groups, with a link each and one FC server."""
    record.table("10 000 machines", "groups", "iterations", "events", "seconds of this machine")
    for g in (10, 100, 1000):
        model = Model(seed=1)
        fc = model.station("fc")
        for _ in range(g):
            link = model.station("link")
            worker = (Visit(link, 0.001), Delay(gamma(1.0, SPREAD)), Visit(link, 0.001))
            model.job((Together((worker,) * (MACHINES // g)), Visit(fc, 0.0005)))
        began = time.perf_counter()
        model.run(9 * g, warm=g)
        seconds = time.perf_counter() - began
        record.row(g, 10, 10 * (3 * MACHINES + g), seconds)
        if seconds > LARGE_SECONDS:
            record.fail(f"{g} groups: {seconds:.1f} s, at most {LARGE_SECONDS:g}")


PARTS: dict[str, tuple[str, Callable[[Record, int], None]]] = {
    "formulas": ("Formulas, mean values and events beside textbook results", formulas),
    "prediction": ("Predicted iterations beside clusters on the virtual clock", prediction),
    "large": ("10 000 machines, event by event", large),
    "clusters": ("Omnivore's own clusters, as `plan` has them", clusters),
    "weird-trick": ("One weird trick's Table 1 by `plan` and on the virtual clock", weird_trick),
    "real": (
        ("Real work: predicted from a run's first iterations beside measured"),
        real.real,
    ),
    **{f"tradeoff-{each}": (each.title, each.run) for each in CONFIGURATIONS},
    "tradeoff-real": (
        ("Groups, momentum, rate: LeNet on MNIST in processes here, 4 workers"),
        tradeoff_real,
    ),
    "lesion": ("What each choice of the tuner is worth", lesion),
    "recurrent": ("Groups, momentum, rate: an LSTM on Tiny Shakespeare", recurrent),
    "same-samples": ("char_lstm: 4 groups and one process, after the same samples", same_samples),
    "fc-phase": ("The FC phase's share in HE and in SE: LeNet, 8 workers", fc_phase),
    "rate-batch": ("Rate and batch: LeNet, 4 workers in one group", rate_batch),
    "lazy-pull": ("Models pulled layer by layer, or whole: LeNet, 8 groups", lazy_pull),
    "schedule": ("The tuner beside a published schedule: CIFAR-10 quick, 4 workers", schedule),
    "steady": ("Cold start and steady state: LeNet, 4 workers", steady),
    "bayes": ("The tuner's search beside a Bayesian one", bayes),
    "momentum": ("Implicit momentum of asynchronous groups, Omnivore's Figure 6", momentum),
    "nan": ("Runs that end in NaN", nan),
    "rules": ("Momentum and rate of several groups by four rules", compare_rules),
}
