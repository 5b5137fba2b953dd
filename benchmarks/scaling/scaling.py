"""`python -m benchmarks.scaling`: the costs and gains of more workers on emulated devices, compared
with the papers' formulas.

    communication   a parameter server and a reduction tree, 30 MB of gradients, 1 Gbit/s (FireCaffe, equations 3 and 4)
    machines        the same on the real clock, between network namespaces with cables of that rate
    staleness       g asynchronous groups: g - 1 updates on average (Omnivore, section 4)
    processes       the same on the real clock, many workers in a few processes
    shares          two unequal devices in one group: rows in proportion to their speed (Omnivore, section 5.1)

Devices take the time of a profile and compute nothing; roles, messages and their sizes are those of
a real run. A missed bar is reported in a line, and the command ends with 1.
"""

from __future__ import annotations

import itertools
import math
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import mean, median
from typing import Any

from benchmarks.helpers.command_line import parser_of
from benchmarks.helpers.machines import Refused, machines
from benchmarks.helpers.report import ROOT, Record, machine, write
from benchmarks.scaling.runs import (
    GIGABIT,
    VIRTUAL,
    Found,
    Processor,
    Wanted,
    on_machines,
    one_layer,
    real,
    simulated,
)
from roles.messages import LayerGradient
from roles.planning.strategies import PRESETS

WORKERS = (2, 4, 8, 16, 32)
GROUPS = (1, 2, 4, 8, 16, 32)
GRADIENTS = 30_000_000  # bytes
NEAR = 0.2  # relative difference from a formula
FASTER = 3.0  # the tree's advantage over the server at the most workers
BUSY = 0.9  # of the processor's time: above this, a figure of real time does not show the network
STALE = 0.1  # difference in updates, or relative to g - 1
IDEAL = 0.1  # largest excess over the time in proportion to the devices' speeds
LINKS = VIRTUAL.format(rate=GIGABIT, latency=1e-4)
PROCESSES = 4  # that share the workers, on the real clock
# of one stage, forward or backward, on the real clock; the machine must keep up with all workers
STAGE_SECONDS = 0.05
SERVERS = "parameter-server"
TREE = "firecaffe"


def main(arguments: list[str] | None = None) -> int:
    """Run the parts and write the results. Returns 1 if a bar is missed or a part failed."""
    parser = parser_of("scaling", __doc__)
    parser.add_argument("--parts", nargs="+", choices=tuple(PARTS), default=list(PARTS))
    parser.add_argument("--most", type=int, default=32, help="the most workers or groups")
    parser.add_argument("--results", type=Path, default=ROOT / "benchmarks" / "results")
    given = parser.parse_args(arguments)
    records = {name: Record(PARTS[name][0]) for name in given.parts}
    for name, record in records.items():
        print(record.title, flush=True)
        with tempfile.TemporaryDirectory(prefix="convoy-benchmark-") as folder:
            PARTS[name][1](record, Path(folder), given.most)
        if record.status == "running":
            record.status = "passed"
    paths = write(given.results, "scaling", machine(), records)
    print("results:", *paths)
    return int(any(record.status not in ("passed", "skipped") for record in records.values()))


def communication(record: Record, folder: Path, most: int) -> None:
    """Measure the seconds of an iteration that computes nothing."""
    if without_presets(record):
        return
    net = one_layer(folder, GRADIENTS)
    record.facts["link"] = "1 Gbit/s each way, one interface per machine; latency 0.1 ms"
    record.table(
        "Seconds, 30 MB in one message",
        "workers",
        "server: gradients in",
        "equation 3",
        "server: iteration",
        "tree: iteration",
        "equation 4",
        "server's gradients / tree",
        "server's iteration / tree",
    )
    for workers in (count for count in WORKERS if count <= most):
        server, tree = (exchange(preset, workers, net, folder) for preset in (SERVERS, TREE))
        eq3, eq4 = (GRADIENTS / GIGABIT * factor for factor in (workers, 2 * math.log2(workers)))
        inward = seconds_in(server)
        whole = median(server.seconds())
        both = median(tree.seconds())
        record.row(workers, inward, eq3, whole, both, eq4, inward / both, whole / both)
        near(record, f"server's gradients, {workers} workers", inward, eq3)
        near(record, f"tree, {workers} workers", both, eq4)
        if workers == WORKERS[-1]:
            record.judge(
                (f"server's gradients in, compared with a whole tree, {workers} workers"),
                inward / both,
                least=FASTER,
            )
    record.table(
        "Seconds, NiN layer by layer",
        "workers",
        "server: iteration",
        "tree: iteration",
        "times faster",
    )
    for workers in (count for count in WORKERS if count <= most):
        server, tree = (exchange(preset, workers, "nin", folder) for preset in (SERVERS, TREE))
        whole = median(server.seconds())
        both = median(tree.seconds())
        record.row(workers, whole, both, whole / both)


def over_cables(record: Record, folder: Path, most: int) -> None:
    """Measure the same exchanges in real time: a process for each worker, network namespaces for
    machines."""
    if without_presets(record):
        return
    net = one_layer(folder, GRADIENTS)
    record.facts["link"] = "veth pairs of 1 Gbit/s each way (tbf), one per process"
    record.table(
        ("Seconds, 30 MB in one message, real time"),
        "workers",
        "server: iteration",
        "virtual",
        "processor busy",
        "tree: iteration",
        "virtual",
        "processor busy",
        "equation 4",
        "times faster",
    )
    for workers in (count for count in WORKERS if count <= most):
        found = {}
        modelled = {}
        busy = {}
        for preset in (SERVERS, TREE):
            wanted = Wanted(preset, workers, iterations=6, net=net, shape=(3, 50, 50))
            try:
                with machines(workers + 2, 8 * GIGABIT) as made:
                    processor = Processor()
                    events = real(on_machines(wanted, made, folder / f"{preset}-{workers}"))
            except Refused as why:
                record.status = "skipped"
                record.note(f"no machines here: {why}")
                return
            busy[preset] = processor.busy()
            at = [event["t"] for event in events if event["event"] == "progress"]
            found[preset] = median(later - earlier for earlier, later in itertools.pairwise(at))
            modelled[preset] = median(exchange(preset, workers, net, folder).seconds())
        faster = found[SERVERS] / found[TREE]
        eq4 = GRADIENTS / GIGABIT * 2 * math.log2(workers)
        sides = [side[preset] for preset in (SERVERS, TREE) for side in (found, modelled, busy)]
        record.row(workers, *sides, eq4, faster)
        for preset, seconds in found.items():
            what = f"{preset}, compared with the virtual clock, {workers} workers"
            if busy[preset] < BUSY:
                near(record, what, seconds, modelled[preset])
            else:
                record.note(f"not judged: {what}: the processor had no time left")
        if workers == WORKERS[-1]:
            record.judge(
                f"tree, compared with server, {workers} workers, real time", faster, least=FASTER
            )


def without_presets(record: Record) -> bool:
    """Whether presets are missing; the record is then skipped with a note."""
    absent = [name for name in (SERVERS, TREE) if name not in PRESETS]
    if absent:
        record.status = "skipped"
        record.note(f"no preset {' and '.join(absent)}")
    return bool(absent)


def exchange(preset: str, workers: int, net: str, folder: Path) -> Found:
    """Run a few iterations on links of 1 Gbit/s with devices that take no time."""
    shape = (3, 50, 50) if net != "nin" else (3, 224, 224)
    wanted = Wanted(preset, workers, iterations=6, net=net, shape=shape, more=LINKS)
    return simulated(wanted.write(folder / f"{preset}-{workers}-{Path(net).stem}"))


def seconds_in(found: Found) -> float:
    """The median time of an iteration from the first gradient that a worker sends to the last that
    arrives."""
    spans: dict[int, tuple[float, float]] = {}
    for transfer in found.transfers:
        message = transfer.envelope.message
        if isinstance(message, LayerGradient):
            first, last = spans.get(message.number, (math.inf, 0.0))
            spans[message.number] = min(first, transfer.sent), max(last, transfer.arrived)
    return median(last - first for first, last in spans.values())


def staleness(record: Record, folder: Path, most: int) -> None:
    """Measure the staleness of asynchronous groups on the virtual clock, with exponential service
    times."""
    record.table("Virtual clock", "groups", "iterations", "mean staleness", "g - 1", "FC staleness")
    law = {"cv": 1.0, "law": "gamma"}
    times = {
        "conv_compute/forward *": {"mean": 0.01, **law},
        "conv_compute/backward *": {"mean": 0.01, **law},
    }
    for groups in (count for count in GROUPS if count <= most):
        wanted = Wanted(
            "async", groups, iterations=60 * groups, times={**times, "*/*": 1e-5}, more=LINKS
        )
        fc = FcVersions()
        found = simulated(wanted.write(folder / str(groups)), fc.watch)
        stale = settled(found.journal.of("progress"), groups)
        record.row(groups, wanted.iterations, stale, groups - 1, max(fc.staleness))
        fresh(record, f"{groups} groups", stale, groups)
        if max(fc.staleness):
            record.fail(
                f"MISSED {groups} groups: the FC phase's own model was "
                f"{max(fc.staleness)} updates old"
            )


class FcVersions:
    """Counts, for every pass, the updates of the merged FC model between reading the model and the
    update by that pass."""

    def __init__(self) -> None:
        self.staleness: list[int] = []

    def watch(self, actors: dict[str, Any]) -> None:
        """Observe every access to the server's parameters."""
        store = actors["fc_server"]._store
        read = store.read
        apply = store.apply
        seen = dict[str, int]()

        def noted_read(layer: str, *phase: str) -> Any:
            seen[layer] = store.versions[layer]
            return read(layer, *phase)

        def noted_apply(layer: str, *gradients: Any) -> Any:
            self.staleness.append(store.versions[layer] - seen[layer])
            return apply(layer, *gradients)

        store.read = noted_read
        store.apply = noted_apply


def settled(reports: list[dict[str, Any]], groups: int) -> float:
    """The mean staleness from when every group has read a model that others have updated, until the
    first group must stop."""
    return mean(report["staleness"] for report in reports[2 * groups :])


def processes(record: Record, folder: Path, most: int) -> None:
    """Measure asynchronous groups on the real clock: up to 32 workers in four processes, the
    servers in others."""
    record.table(
        "Real clock", "groups", "iterations", "mean staleness", "g - 1", "iterations/s", "expected"
    )
    times = {
        "conv_compute/forward *": STAGE_SECONDS,
        "conv_compute/backward *": STAGE_SECONDS,
        "*/*": 0,
    }
    for groups in (count for count in GROUPS if count <= most):
        wanted = Wanted("async", groups, iterations=20 * groups, times=times, more=together(groups))
        events = real(wanted.write(folder / str(groups)))
        reports = [event for event in events if event["event"] == "progress"]
        stale = settled(reports, groups)
        rate = (len(reports) - 1) / (reports[-1]["t"] - reports[0]["t"])
        devices = min(PROCESSES, groups)  # the workers of a process share its device
        record.row(
            groups, wanted.iterations, stale, groups - 1, rate, devices / (4 * STAGE_SECONDS)
        )
        fresh(record, f"{groups} groups in processes", stale, groups)


def together(groups: int) -> str:
    """The tables of up to four processes that share the workers."""
    count = min(PROCESSES, groups)
    shares = [
        [f'"conv-{group}-0"' for group in range(groups) if group % count == index]
        for index in range(count)
    ]
    return "\n".join(
        (f'[[process]]\nname = "workers-{index}"\nactors = [{", ".join(share)}]')
        for index, share in enumerate(shares)
    )


def shares(record: Record, folder: Path, most: int) -> None:
    """Measure two devices of speeds 1 and 3 in one group."""
    slow = 0.3  # seconds of a stage for the whole batch
    fast = 0.1
    rows = 64
    record.table("Speeds 1 and 3", "shares", "seconds of an iteration", "ideal", "above it")
    times = {
        f"conv-0-{rank}/{label} *": {"mean": mean_, "rows": rows}
        for rank, mean_ in enumerate((slow, fast))
        for label in ("forward", "backward")
    }
    ideal = 4 / (1 / slow + 1 / fast)  # two stages, forward and backward, at the sum of both speeds
    found = {}
    for kind in ("equal", "throughput"):
        strategy = f'shares = "{kind}"'
        wanted = Wanted(
            "sync", 2, iterations=30, times={**times, "*/*": 0}, strategy=strategy, more=LINKS
        )
        taken = simulated(wanted.write(folder / kind)).seconds()
        found[kind] = median(taken[len(taken) // 2 :])
        record.row(kind, found[kind], ideal, found[kind] / ideal - 1)
    record.judge(
        ("in proportion to throughput, of the ideal"), found["throughput"] / ideal, most=1 + IDEAL
    )
    record.judge(
        "equal shares, of those in proportion", found["equal"] / found["throughput"], least=1.0
    )


def near(record: Record, what: str, found: float, formula: float) -> None:
    """Fail the record if a figure differs too much from its formula."""
    if abs(found / formula - 1) > NEAR:
        record.fail(f"MISSED {what}: {found:.4g} s, formula {formula:.4g} s")


def fresh(record: Record, what: str, found: float, groups: int) -> None:
    """Fail the record if a mean staleness differs too much from g - 1."""
    if abs(found - (groups - 1)) > max(STALE, STALE * (groups - 1)):
        record.fail(f"MISSED {what}: mean staleness {found:.3f}, expected {groups - 1}")


PARTS: dict[str, tuple[str, Callable[[Record, Path, int], None]]] = {
    "communication": ("A parameter server and a reduction tree", communication),
    "machines": ("The same between network namespaces", over_cables),
    "staleness": ("Staleness of asynchronous groups", staleness),
    "processes": ("Staleness in processes", processes),
    "shares": ("Two unequal devices in one group", shares),
}
