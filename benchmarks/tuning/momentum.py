"""Omnivore, Figure 6: the momentum of g asynchronous groups, with real gradients on the virtual
clock.

The measurement is of expected updates, as Theorem 1 states them. The trajectory is the run's own,
with the noise of its batches. Along it, the gradient of one fixed batch is computed in every
version of the model, G[v]. If an update was computed on a model that is not a version (layers that
were read at different times), the gradient is computed there too. Let r(v) be the version that the
update of version v was computed on. Theorem 1 says for any such function of the model

    E[ G[r(v)] - mu G[r(v-1)] - (1 - mu) G[v] | all before v - 1 ] = 0,   mu = 1 - 1/g

so mu is the ratio of the sums of Z.(G[r(v)] - G[v]) and Z.(G[r(v-1)] - G[v]). Z is the mean of G
over the updates under way at v - 1, less G[v-1], of length 1. The paper measured in another way (by
the best explicit momentum).

Batches are noisy: one run of two groups determines mu only to +- 0.1 or 0.2. So runs with other
seeds are added, each weighted by 1 / error ** 2, until the interval is half of the precision asked
of mu.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import fsum
from typing import Any
from xml.sax.saxutils import escape

import numpy as np

from benchmarks.helpers.report import ROOT, Record
from benchmarks.tuning.learning import Learning, Profile, missing, real, virtual
from roles.learning.buffers import gradient_buffers
from roles.messages import TRAIN, Blobs
from roles.tuning.momentum import expected, expected_of, reach_of
from roles.tuning.ratio import Measured, Ratio
from runtime import Actor

GROUPS = (1, 2, 4, 8, 16)
NEAR = 0.1  # difference from theory, with exponential service times
PRECISE = NEAR / 2  # half a 95 % interval that is precise enough
MOST_RUNS = 24  # runs of one point
UNKNOWN = 2  # runs without a measured momentum, after which no more are made
PROBE = 10_000  # the number of the fixed batch
MOST = 4096  # coordinates of an array
BLOCK = 16  # pairs in a block
CYCLES = 500  # one iteration for so many of `--cycles`
KEPT = 200  # versions of the model
RUNS = {
    "LeNet on MNIST": Learning(
        "lenet", "mxnet-async", momentum=0.0, rate=0.05, batch=32, decays=False
    ),
    "cifar10_quick on CIFAR-10": Learning(
        "cifar10_quick", "mxnet-async", momentum=0.0, rate=0.005, batch=32, decays=False
    ),
}
PICTURE = ROOT / "docs" / "pictures" / "momentum.svg"
Flat = np.ndarray[Any, np.dtype[np.float64]]


# A2 of the paper: all parameters are read at once, all gradients arrive at once, and one
# exponential time lies between, here the time of ip2, whose backward pass is the first.
EXPONENTIAL: Profile = {
    "conv_compute/backward ip2": {"mean": 1.0, "cv": 1.0, "law": "gamma"},
    "*/*": 0,
}


def momentum(record: Record, cycles: int) -> None:
    """Measure both nets, every number of groups and both sorts of service times; draw the
    picture."""
    if lacks := missing():
        record.status = "skipped"
        record.note(lacks)
        return
    record.facts = {"iterations of a run": cycles // CYCLES, "explicit momentum": 0}
    record.table(
        "Implicit momentum",
        "net",
        "service times",
        "groups",
        "1 - 1/g",
        "measured",
        "95 % +-",
        "runs",
        "by staleness",
        "mean staleness",
        "by the server's gradients",
        "+-",
    )
    for name, wanted in RUNS.items():
        _, taken = real(dataclasses.replace(wanted, workers=2, iterations=60), seed=1, record=True)
        for law, times in (("exponential", EXPONENTIAL), ("measured", {**taken, "*/*": 0})):
            for g in GROUPS:
                learning = dataclasses.replace(wanted, workers=g, iterations=cycles // CYCLES)
                judge(record, name, law, g, measure(learning, times))
    PICTURE.parent.mkdir(exist_ok=True)
    PICTURE.write_text(chart(record.tables[0].rows))


@dataclass
class Found:
    """The implicit momentum of `runs` runs: as measured, as expected by the staleness that was
    counted, and as the server measured it live in the first run."""

    measured: Measured | None
    by_staleness: float
    staleness: float
    live: Measured | None
    runs: int = 1


def measure(wanted: Learning, times: Profile) -> Found:
    """Run with seeds 1, 2, ..., until the momentum is known well enough."""
    watchers: list[Watcher] = []
    told: list[Measured] = []
    while len(watchers) < MOST_RUNS and not settled(told, len(watchers)):
        watcher = Watcher()
        watchers.append(watcher)
        virtual(wanted, times, len(watchers), prepared=watcher.look)
        ratio = watcher.ratio().measured()
        told += [ratio] if ratio else []
    staleness = sum((each.staleness for each in watchers), Counter[int]())
    mean = sum(stale * count for stale, count in staleness.items()) / staleness.total()
    live = watchers[0].model._watch.by_gradients()
    by_staleness = expected_of(staleness, reach_of(wanted.workers))
    return Found(weighed(told) if told else None, by_staleness, mean, live, len(watchers))


def settled(told: Sequence[Measured], runs: int) -> bool:
    """Whether more runs would not help: the momentum is known well enough, or too many runs gave no
    measurement."""
    return runs - len(told) >= UNKNOWN or (bool(told) and 1.96 * weighed(told).error <= PRECISE)


def weighed(told: Sequence[Measured]) -> Measured:
    """The mean of independent measurements, each weighted by 1 / error ** 2 (the mean of least
    variance)."""
    if len(told) == 1:
        return told[0]
    weights = [each.error**-2 for each in told]
    value = fsum(weight * each.value for weight, each in zip(weights, told, strict=True)) / fsum(
        weights
    )
    return Measured(value, fsum(weights) ** -0.5)


def judge(record: Record, name: str, law: str, g: int, found: Found) -> None:
    """Record a row. If the theorem holds and the momentum is not near it, the record fails."""
    value, error = (
        (found.measured.value, 1.96 * found.measured.error) if found.measured else ("", "")
    )
    live = (found.live.value, 1.96 * found.live.error) if found.live else ("", "")
    record.row(
        name,
        law,
        g,
        expected(g),
        value,
        error,
        found.runs,
        found.by_staleness,
        found.staleness,
        *live,
    )
    if law != "exponential":
        return
    if found.measured is None:
        record.fail(f"{name}, {g} groups: too few updates to know the momentum")
    elif abs(found.measured.value - expected(g)) > NEAR:
        record.fail(
            f"{name}, {g} groups: {found.measured.value:.3f}, theory "
            f"{expected(g):.3f}, at most {NEAR} apart"
        )


class Watcher:
    """Follows the one model server of a run, and computes the fixed batch's gradient in each of its
    versions."""

    def __init__(self) -> None:
        self.staleness = Counter[int]()  # of whole iterations
        self.model: Any = None
        # of a layer in a version; these arrays are never written to
        self._arrays: dict[tuple[str, int], Blobs] = {}
        # iteration -> the version of each layer that it read
        self._reading: dict[int, dict[str, int]] = {}
        self._along: list[Flat] = []  # G of each version
        self._states: list[dict[str, int]] = []  # the layers' versions in each of them
        # for each version: the version at which its update began, and G of the model that it read
        self._updates: list[tuple[int, Flat]] = []

    def look(self, actors: dict[str, Actor]) -> None:
        """Attach to the actors of a run that is about to begin."""
        self.model = actors["model-0"]
        self._store = self.model._store
        self._applied = self.model._ledger.applied
        self.model._ledger.applied = self._updated
        job = self.model._job
        source = job.source(TRAIN)
        self._batch = job.batches(TRAIN, source).read(PROBE, 0, job.batch)
        self._net = job.build(TRAIN, "all", job.shapes(TRAIN, source))
        self._gradients = gradient_buffers(self._net)
        self._keep(self._store.layers)
        self._state()

    def ratio(self) -> Ratio:
        """The pairs of numbers of all updates for which the updates under way are known."""
        found = Ratio(BLOCK)
        for at in range(2, len(self._updates)):
            under_way = [where for began, where in self._updates[at - 1 :] if began <= at - 1]
            change = np.mean(under_way, axis=0) - self._along[at - 1]
            if not change.any():  # one group: no update is late
                change = self._along[at - 2] - self._along[at - 1]
            change /= np.linalg.norm(change) or 1.0
            (_, applied), (_, before), now = (
                self._updates[at],
                self._updates[at - 1],
                self._along[at],
            )
            found.add(float(change @ (applied - now)), float(change @ (before - now)))
        return found

    def _keep(self, layers: Iterable[str]) -> None:
        for layer in layers:
            version = self._store.versions[layer]
            self._arrays[layer, version] = self._store.read(layer)
            self._arrays.pop((layer, version - KEPT), None)

    def _state(self) -> None:
        self._states.append(dict(self._store.versions))
        self._along.append(self._gradient(self._states[-1]))

    def _updated(self, message: Any, version: int) -> Any:
        """Called in place of `ModelLedger.applied`."""
        stale, whole = self._applied(message, version)
        self._keep([message.layer])
        self._reading.setdefault(message.number, {})[message.layer] = version - 1 - stale
        if whole is not None:
            read = self._reading.pop(message.number)
            self.staleness[whole.staleness] += 1
            began = len(self._updates) - whole.staleness
            where = self._along[began] if self._states[began] == read else self._gradient(read)
            self._updates.append((began, where))
            self._state()
        return stale, whole

    def _gradient(self, versions: dict[str, int]) -> Flat:
        """G of the model with these layer versions: at most MOST coordinates of each array."""
        net = self._net
        net.begin(0, (0, len(self._batch[0])))
        for name, array in zip(net.inputs, self._batch, strict=True):
            net.feed(name, array)
        for stage in net.stages:
            if stage.layer is not None:
                net.load(stage.layer, self._arrays[stage.layer, versions[stage.layer]])
            net.forward(stage)
        for stage in reversed(net.stages):
            net.backward(stage, self._gradients[stage.layer] if stage.layer is not None else None)
        arrays = (array.ravel() for of in self._gradients.values() for array in of)
        return np.concatenate([array[:: -(-array.size // MOST)] for array in arrays]).astype(
            np.float64
        )


WIDTH = 420.0
HEIGHT = 280.0
MARGIN = 44.0
COLOURS = {"1 - 1/g": "#64748b", "exponential": "#2563eb", "measured": "#d97706"}


def chart(rows: list[list[Any]]) -> str:
    """Figure 6 as SVG: implicit momentum over groups, a panel for each net; bars are 95 %
    intervals."""
    nets = list(dict.fromkeys(row[0] for row in rows))
    width = WIDTH * len(nets)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{HEIGHT:.0f}" '
        f'viewBox="0 0 {width:.0f} {HEIGHT:.0f}">',
        "<style>text { font: 12px sans-serif; fill: #1e293b } .axis { stroke: #cbd5e1 }</style>",
        '<rect width="100%" height="100%" fill="#ffffff"/>',
    ]
    for number, net in enumerate(nets):
        parts += [f'<g transform="translate({number * WIDTH:.0f} 0)">']
        parts += [*_panel(net, [row for row in rows if row[0] == net]), "</g>"]
    return "\n".join([*parts, "</svg>\n"])


def _panel(net: str, rows: list[list[Any]]) -> Iterator[str]:
    groups = sorted({row[2] for row in rows})
    xs = {
        g: MARGIN + (WIDTH - 2 * MARGIN) * at / max(1, len(groups) - 1)
        for at, g in enumerate(groups)
    }
    yield f'<text x="{MARGIN:.0f}" y="20">{escape(net)}</text>'
    for at in range(6):
        yield (
            f'<line class="axis" x1="{MARGIN}" x2="{WIDTH - MARGIN}" y1="{_y(at / 5):.1f}" '
            f'y2="{_y(at / 5):.1f}"/>'
        )
        yield f'<text x="{MARGIN - 26:.0f}" y="{_y(at / 5) + 4:.1f}">{at / 5:.1f}</text>'
    for g, x in xs.items():
        yield f'<text x="{x - 4:.1f}" y="{HEIGHT - MARGIN + 18:.1f}">{g}</text>'
    yield f'<text x="{WIDTH / 2 - 20:.0f}" y="{HEIGHT - 8:.0f}">groups</text>'
    lines = {"1 - 1/g": [(xs[g], expected(g), 0.0) for g in groups]}
    for row in (row for row in rows if row[4] != ""):
        lines.setdefault(row[1], []).append((xs[row[2]], row[4], row[5]))
    for number, (name, points) in enumerate(lines.items()):
        yield from _line(COLOURS[name], points)
        y = _y(0.3 - 0.1 * number)
        yield (
            f'<text x="{WIDTH - MARGIN - 130:.0f}" y="{y:.1f}" style="fill: '
            f'{COLOURS[name]}">{_legend(name)}</text>'
        )


def _line(colour: str, points: list[tuple[float, float, float]]) -> Iterator[str]:
    path = " ".join(f"{x:.1f},{_y(value):.1f}" for x, value, _ in points)
    yield f'<polyline points="{path}" style="fill: none; stroke: {colour}; stroke-width: 1.5"/>'
    for x, value, error in points:
        ends = f'y1="{_y(value - error):.1f}" y2="{_y(value + error):.1f}"'
        yield f'<line x1="{x:.1f}" x2="{x:.1f}" {ends} style="stroke: {colour}"/>'


def _y(value: float) -> float:
    """The y coordinate of a momentum. A momentum outside 0 to 1 is drawn at the edge."""
    return HEIGHT - MARGIN - (HEIGHT - 2 * MARGIN) * min(1.0, max(0.0, value))


def _legend(name: str) -> str:
    return name if name.startswith("1") else f"{name} times"
