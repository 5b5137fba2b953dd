"""Part `prediction` of `benchmarks.tuning`: predicted iterations, compared with iterations of the
real runtime on the virtual clock.

Emulated devices of SPEED, with a spread of 6 % (Omnivore, Figure 22), links of 1 Gbit/s; 8, 16 and
32 workers in g = 1, 2, 4 ... groups. The FC phase is 18 % of LeNet's FLOPs, 0.6 % of CIFAR-10
quick's, 9 % of CaffeNet's. AdaptDL's published performance model (Pollux, OSDI 2021, section 3.2)
is compared too. Its own package fits it to the same points that it is judged by. Measurements are
kept, so a part that was cut off can continue.
"""

from __future__ import annotations

import itertools
import math
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median, stdev
from typing import Any, NamedTuple

import numpy as np

from benchmarks.helpers.report import ROOT, Record
from benchmarks.scaling.runs import GIGABIT, VIRTUAL, Wanted, simulated
from benchmarks.tuning.kept import Kept
from nets import Net, load_net
from nets.tools.volumes import LayerVolume, volumes
from ops import get_backend
from roles.forecasting.prediction import Network, Prediction, Times, predict
from runtime.runs.checking import check

SPEED = 1e11  # FLOP/s of a device
MEMORY = 1e10  # bytes/s of an update or a sum
LATENCY = 1e-4
SPREAD = 0.06
MEDIAN = 0.05  # errors of the prediction
WORST = 0.10
SATURATED = 1.05  # times the shortest time over all g; the smallest g within this saturates
# Iterations of each group: not measured, and measured. Several groups begin at once and disturb
# each other at first, so only the later half of 64 iterations is measured; the prediction is for
# these.
ALONE = (2, 10)
SEVERAL = (32, 32)
# The order in which several groups take turns is random, and the time of an iteration depends on
# it. CIFAR-10 quick, omnivore, 32 workers in 16 groups, takes 5.3 to 8.8 ms from seed to seed.
# Groups of singa pull everything at one time, and take tens or hundreds of iterations to find an
# order at all. So several groups run twice, and up to RUNS times until the standard error of their
# mean is within KNOWN. After that they run up to MOST times until it is within ROUGHLY: for the
# first example, five runs have a mean of 6.24 ms and 25 runs one of 6.98. The runs that decide
# which g saturates are repeated in the same way: the fastest, and those within CLOSE of SATURATED.
# (CIFAR-10 quick, local-fc-shards, 4 of 8 workers: five runs 13.8 to 14.7 ms.)
RUNS = 5
KNOWN = 0.01
CLOSE = 0.05
MOST = 25
ROUGHLY = 0.02
WORKERS = (8, 16, 32)
FILE = ROOT / "runs" / "tuning-measured.jsonl"


class Case(NamedTuple):
    """A net with its image shape and the batch of a group."""

    net: str
    shape: tuple[int, int, int]
    batch: int


CASES = (
    Case("lenet", (1, 28, 28), 64),
    Case("cifar10_quick", (3, 32, 32), 128),
    Case("caffenet", (3, 227, 227), 256),
)
GROUPED = ("omnivore", "singa", "local-fc-shards")
PRESETS = (*GROUPED, "firecaffe", "parameter-server")


@dataclass(frozen=True)
class Point:
    """A cluster, measured and predicted, in seconds per iteration. `runs`: the measurement of each
    run. `computing`: the seconds of a worker's own work on its rows."""

    case: Case
    preset: str
    workers: int
    groups: int
    runs: tuple[float, ...]
    computing: float
    prediction: Prediction

    @property
    def measured(self) -> float:
        """The mean of all runs."""
        return fmean(self.runs)

    @property
    def unknown(self) -> float:
        """Twice the standard error of the mean; 0 for a single run, on which no judgement
        depends."""
        return 2 * stdev(self.runs) / math.sqrt(len(self.runs)) if len(self.runs) > 1 else 0.0

    @property
    def error(self) -> float:
        """The error of the prediction, relative to the measurement."""
        return self.prediction.seconds / self.measured - 1


def prediction(
    record: Record, cycles: int, *, cases: Sequence[Case] = CASES, workers: Sequence[int] = WORKERS
) -> None:
    """Measure and predict all points, and compare both with AdaptDL's model."""
    del cycles
    record.facts |= {
        "device": f"{SPEED:g} FLOP/s, spread {SPREAD}",
        "link": f"{GIGABIT} bytes/s, {LATENCY} s",
    }
    record.table(
        "Seconds per iteration",
        "net",
        "preset",
        "workers",
        "groups",
        "runs",
        "measured",
        "+-",
        "predicted",
        "error",
        "bottleneck",
        "use",
    )
    points = []
    kept = Kept(FILE)
    with tempfile.TemporaryDirectory(prefix="convoy-benchmark-") as folder:
        for case, preset, count in itertools.product(cases, PRESETS, workers):
            for found in curve(case, preset, count, Cluster(Path(folder), kept)):
                points.append(found)
                told = found.prediction
                most = found.prediction.bottleneck
                row = (
                    case.net,
                    preset,
                    count,
                    found.groups,
                    len(found.runs),
                    found.measured,
                    found.unknown,
                )
                record.row(*row, told.seconds, found.error, most, told.use[most])
    record.facts["commits of what was measured"] = ", ".join(sorted(kept.origins))
    judge(record, points)
    beside_adaptdl(record, points)


def curve(case: Case, preset: str, workers: int, cluster: Cluster) -> Iterator[Point]:
    """The points of so many workers in 1, 2, 4 ... groups."""
    powers = range(workers.bit_length() if preset in GROUPED else 1)
    runs = {2**power: cluster.runs(case, preset, workers, 2**power) for power in powers}
    least = min(map(fmean, runs.values()))
    for groups, found in runs.items():
        decides = len(runs) > 1 and abs(fmean(found) / least / SATURATED - 1) <= CLOSE
        runs[groups] = cluster.runs(case, preset, workers, groups, again=decides)
        yield cluster.point(case, preset, workers, groups, runs[groups])


class Cluster:
    """A cluster of emulated devices on the virtual clock, in a folder. A result in `kept` is not
    measured again."""

    def __init__(self, folder: Path, kept: Kept) -> None:
        self._folder = folder
        self._kept = kept

    def __repr__(self) -> str:
        return f"<clusters in {self._folder}, {self._kept}>"

    def runs(
        self, case: Case, preset: str, workers: int, groups: int, *, again: bool = False
    ) -> tuple[float, ...]:
        """The seconds of an iteration in each run: one run, or as many as are needed (`again`)."""
        found: list[float] = []
        while not found or ((again or groups > 1) and not is_known(found)):
            name = f"{case.net} {case.batch} {preset} {workers} {groups} seed {len(found) + 1}"
            seconds = self._kept.get(name)
            if seconds is None:
                seconds = self._run(case, preset, workers, groups, seed=len(found) + 1)
                self._kept.put(name, seconds)
            found.append(seconds)
        return tuple(found)

    def point(
        self, case: Case, preset: str, workers: int, groups: int, runs: tuple[float, ...]
    ) -> Point:
        """The measured and the predicted times of one case."""
        times, computing = profile(case, workers // groups)
        wanted = self._wanted(case, preset, workers, groups)
        placement = check(wanted.write(self._folder / "predicted")).placement
        network = Network(LATENCY, GIGABIT)
        told = predict(placement.topology, Times.of_profile(times), network, placement.process_of())
        return Point(case, preset, workers, groups, runs, computing, told)

    def _run(self, case: Case, preset: str, workers: int, groups: int, seed: int) -> float:
        warm, _ = ALONE if groups == 1 else SEVERAL
        wanted = self._wanted(case, preset, workers, groups, seed)
        place = self._folder / f"{case.net}-{preset}-{workers}-{groups}-{seed}"
        found = simulated(wanted.write(place)).journal.entries
        ends = [time for time, _, event, _ in found if event == "progress"]
        return (ends[-1] - ends[warm * groups - 1]) / (len(ends) - warm * groups)

    def _wanted(self, case: Case, preset: str, workers: int, groups: int, seed: int = 1) -> Wanted:
        times, _ = profile(case, workers // groups)
        wanted = Wanted(
            preset,
            workers,
            iterations=sum(ALONE if groups == 1 else SEVERAL) * groups,
            net=case.net,
            shape=case.shape,
            batch=case.batch,
            times=times,
            strategy=f"groups = {groups}" if preset in GROUPED else "",
        )
        wanted.more = f"{VIRTUAL.format(rate=GIGABIT, latency=LATENCY)}seed = {seed}\n"
        return wanted


def is_known(measured: Sequence[float]) -> bool:
    """Whether the mean is known well enough, or the most runs were made."""
    if len(measured) < 2:
        return False
    error = stdev(measured) / math.sqrt(len(measured)) / fmean(measured)
    return error <= (KNOWN if len(measured) < RUNS else ROUGHLY) or len(measured) >= MOST


def profile(case: Case, members: int) -> tuple[dict[str, Any], float]:
    """The service times from FLOPs and bytes, and the seconds of a worker's own work if a group has
    `members` workers."""
    spec = load_net(case.net)
    net = Net(spec, "TRAIN", ops=get_backend("numpy"), batch=case.batch, input_shape=case.shape)
    layers = [layer for layer in volumes(net).layers if layer.forward]
    made: dict[str, Any] = {}
    for layer in layers:
        made[f"conv_compute/forward {layer.name}"] = _work(layer.forward / SPEED, case.batch)
        made[f"conv_compute/backward {layer.name}"] = _work(layer.backward / SPEED, case.batch)
        made[f"*/update {layer.name}"] = _work(12 * layer.parameters / MEMORY)
    fc = [layer for layer in layers if layer.part == "fc"]
    whole = _seconds(layers)
    made["fc_server/fc *"] = _work(_seconds(fc), case.batch)
    # two shards, about four pieces each
    made["fc_shard/fc *"] = _work(_seconds(fc) / 2 / 4, case.batch)
    made["replica/forward"] = _work(sum(layer.forward for layer in layers) / SPEED, case.batch)
    made["replica/backward"] = _work(
        sum(layer.backward for layer in layers) / SPEED / len(layers), case.batch
    )
    made["*/update"] = made["*/reduce"] = _work(
        12 * sum(layer.parameters for layer in layers) / MEMORY / len(layers)
    )
    return made | {"*/*": 0}, whole / members


def _seconds(layers: Sequence[LayerVolume]) -> float:
    return sum(layer.forward + layer.backward for layer in layers) / SPEED


def _work(seconds: float, rows: int = 0) -> dict[str, Any]:
    return {"mean": seconds, "cv": SPREAD, "law": "gamma"} | ({"rows": rows} if rows else {})


def judge(record: Record, points: Sequence[Point]) -> None:
    """Judge the errors, and whether the predicted g that saturates is the measured one."""
    errors = [abs(point.error) for point in points]
    record.note(f"{len(points)} points: median error {median(errors):.4f}, worst {max(errors):.4f}")
    if median(errors) > MEDIAN or max(errors) > WORST:
        record.fail(f"MISSED: median error at most {MEDIAN:g}, worst at most {WORST:g}")
    record.table(
        "The smallest g that saturates",
        "net",
        "preset",
        "workers",
        "measured",
        "as far as measured",
        "predicted",
    )
    for key in dict.fromkeys((point.case.net, point.preset, point.workers) for point in points):
        mine = [point for point in points if (point.case.net, point.preset, point.workers) == key]
        if len(mine) > 1:
            found = saturating([(point.groups, point.measured) for point in mine])
            told = saturating([(point.groups, point.prediction.seconds) for point in mine])
            first, last = may_saturate(mine)
            record.row(*key, found, f"{first} to {last}" if first < last else found, told)
            if not first <= told <= last:
                record.fail(
                    f"MISSED {' '.join(map(str, key))}: saturates at {found}, predicted {told}"
                )


def saturating(curve: Sequence[tuple[int, float]]) -> int:
    """The smallest g whose time is within SATURATED of the shortest."""
    least = min(seconds for _, seconds in curve)
    return min(groups for groups, seconds in curve if seconds <= SATURATED * least)


def may_saturate(points: Sequence[Point]) -> tuple[int, int]:
    """The first and the last g that may saturate, given how well the means of the runs are
    known."""
    fastest = min(points, key=lambda point: point.measured)
    groups: list[int] = []
    for sign in (-1, 1):
        limit = SATURATED * (fastest.measured - sign * fastest.unknown)
        groups.append(
            min(
                (
                    point.groups
                    for point in points
                    if point.measured + sign * point.unknown <= limit
                ),
                default=fastest.groups,
            )
        )
    return groups[0], max(groups)


def beside_adaptdl(record: Record, points: Sequence[Point]) -> None:
    """Compare with AdaptDL's model for each net and preset, fitted to all its points. A group is a
    job with k replicas on k nodes, and its iteration lasts g times as long as the run's."""
    try:
        # an extra package, which needs scipy and more
        from adaptdl.goodput import GoodputFunction, fit_perf_params
    except ImportError as error:
        record.note(
            f"AdaptDL's model is left out: {error}; pip install 'convoy-runtime[tuning-peers]'"
        )
        return
    record.table(
        "Errors beside AdaptDL's",
        "net",
        "preset",
        "points",
        "ours: median",
        "worst",
        "AdaptDL's: median",
        "worst",
    )
    ours = []
    theirs = []
    for key in dict.fromkeys((point.case, point.preset) for point in points):
        mine = [point for point in points if (point.case, point.preset) == key]
        members = np.array([point.workers // point.groups for point in mine])
        rows = key[0].batch / members
        seconds = np.array([point.measured * point.groups for point in mine])
        parameters = fit_perf_params(
            members, members, rows, np.array([point.computing for point in mine]), seconds
        )
        rate = GoodputFunction(parameters, (1.0, 1.0), 1).throughput(
            members, members, rows, np.zeros(len(mine))
        )
        errors = np.abs(members * rows / rate / seconds - 1).tolist()
        own = [abs(point.error) for point in mine]
        record.row(
            key[0].net, key[1], len(mine), median(own), max(own), median(errors), max(errors)
        )
        ours = [*ours, *own]
        theirs = [*theirs, *errors]
    record.note(f"median error: ours {median(ours):.4f}, AdaptDL's {median(theirs):.4f}")
    if median(ours) > median(theirs) / 2:
        record.fail("MISSED: the median error is at most half of AdaptDL's")
