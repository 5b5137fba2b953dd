"""`python -m benchmarks.hosts`: eight machines with cables of 1 Gbit/s, compared with PyTorch's DDP
on the same machines.

    choice    the predicted time of each preset there; ours is the fastest of those that compute the same as DDP
    work      images a second, really computed, and the bar. The machines are network namespaces of this one and share
              its cores: computing takes longer than on eight machines, on both sides alike, and
              hides the network
    cores     the same with layers that sleep as long as they take on one core, on both sides: as on eight machines
              with a core each. Messages and their sizes are real, and so are gradients and
              buckets of DDP
    learning  seconds until CIFAR-10 quick and LeNet on MNIST reach a loss, as on machines with a core each, and the
              bar: real gradients in slow motion, with `groups`, `momentum` and `base_lr` "auto" (`learning`)
    start     seconds from `up` to the first iteration of sixteen machines, and the bar
    thousand  seconds of one core until a thousand machines are planned, placed and told to begin, and the bar
    placements  the machines of actors and the time of an iteration as `plan` predicts them, and of runs whose work is
              paced: twelve placements on two to nine machines of one or two kinds, and the bar

In the first three, both sides are up at once and take turns; a ratio is the median of the ratios of
the turns. In `learning` the lives of both sides alternate. Both sides have the same batch, one worker with one thread on each machine, and links
without encryption, since gloo has no other. Needs root.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.helpers.command_line import parser_of
from benchmarks.helpers.machines import Machine, Refused, machines
from benchmarks.helpers.report import ROOT, Record, machine, missing, ratio, write
from benchmarks.helpers.survivor import Gone
from benchmarks.hosts import clusters, learning, placements, starts
from benchmarks.hosts.clusters import GIGABIT, WORKS, Work
from benchmarks.hosts.sides import Ddp, Ours, Side, torch_times
from benchmarks.messages.pair import Lost
from benchmarks.scaling.runs import Processor
from benchmarks.scaling.scaling import BUSY
from roles.forecasting.costs import Timed
from runtime.errors import ConvoyError
from runtime.runs.checking import Checked

BAR = 1.5  # times DDP's images a second
LEAST = 2  # iterations of a turn
REPEATS = {"cifar10_quick": 10, "caffenet": 3}  # of each layer, for DDP's profile, by net
Own = Callable[[Record, argparse.Namespace], None]


@dataclass
class Known:
    """What is measured of a net before it is trained: our layers' times, each preset's cluster and
    predicted seconds of an iteration, and PyTorch's times."""

    timed: Timed
    clusters: Mapping[str, Checked]
    seconds: Mapping[str, float]
    torch: Mapping[str, Any]

    @property
    def preset(self) -> str:
        """Our preset: the one that is predicted to be the fastest."""
        return min(self.seconds, key=self.seconds.__getitem__)


@dataclass
class Bench:
    """The machines, a folder, the arguments of the command, and the nets that are measured."""

    made: list[Machine]
    folder: Path
    given: argparse.Namespace
    known: dict[str, Known] = field(default_factory=dict)

    def of(self, work: Work) -> Known:
        """The measurements of a net; they are made at the first call."""
        if work.net not in self.known:
            folder = self.folder / work.net
            timed = clusters.timed_here(
                clusters.cluster(folder, work, self.made, "replicas"), len(self.made)
            )
            found = clusters.candidates(folder, work, self.made)
            seconds = {name: clusters.predicted(checked, timed) for name, checked in found.items()}
            theirs = torch_times(self.told(work, repeats=REPEATS[work.net]))
            self.known[work.net] = Known(timed, found, seconds, theirs)
        return self.known[work.net]

    @property
    def works(self) -> list[Work]:
        """The nets that are compared here, of those that the command names."""
        return [WORKS[net] for net in REPEATS if net in self.given.nets]

    def told(self, work: Work, **more: Any) -> dict[str, Any]:
        """The options of a process of DDP."""
        return {**vars(work), "rows": work.batch // len(self.made), **more}


def main(arguments: list[str] | None = None) -> int:
    """Run the parts and write the results. Returns 1 if a bar is missed or a part failed."""
    parser = parser_of("hosts", __doc__)
    parser.add_argument("--parts", nargs="+", choices=(*PARTS, *OWN), default=[*PARTS, *OWN])
    parser.add_argument(
        "--nets",
        nargs="+",
        choices=tuple(WORKS),
        default=list(WORKS),
        help="of these, a part measures those that it has",
    )
    parser.add_argument("--machines", type=int, default=8)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument(
        "--seconds",
        type=float,
        default=4.0,
        help=("seconds of a turn, which has at least two iterations"),
    )
    parser.add_argument(
        "--lives", type=int, default=5, help="runs of each side and net in the part learning"
    )
    parser.add_argument(
        "--data",
        type=Path,
        default=ROOT.parent / "shared" / "data",
        help="the folder of the folders cifar10 and mnist",
    )
    parser.add_argument("--results", type=Path, default=ROOT / "benchmarks" / "results")
    given = parser.parse_args(arguments)
    if given.lives < 1:
        parser.error(f"argument --lives: found {given.lives}, expected at least 1")
    records = {name: Record({**PARTS, **OWN}[name][0]) for name in given.parts}
    if missing({"torch": "torch"}):
        why = (
            "PyTorch is missing; install it with: python -m pip install 'convoy-runtime[reference]'"
        )
        skip({name: records[name] for name in records if name in NEED_TORCH}, why)
    left = {name: record for name, record in records.items() if record.status == "running"}
    for name in (name for name in left if name in OWN):
        own(left[name], OWN[name][1], given)
    if compared := {name: record for name, record in left.items() if name in PARTS}:
        measure(compared, given)
    measured = {name: record for name, record in records.items() if record.status != "skipped"}
    if measured:
        print("results:", *write(given.results, "hosts", machine(), measured))
    return int(any(record.status == "failed" for record in measured.values()))


def measure(records: Mapping[str, Record], given: argparse.Namespace) -> None:
    """Make the machines and run the parts on them."""
    try:
        with (
            machines(given.machines, GIGABIT) as made,
            tempfile.TemporaryDirectory(prefix="convoy-benchmark-") as at,
        ):
            bench = Bench(made, Path(at), given)
            for name, record in records.items():
                run(record, PARTS[name][1], bench)
    except Refused as why:
        skip(records, f"no machines here: {why}")


def own(record: Record, part: Own, given: argparse.Namespace) -> None:
    """Run a part that makes its own machines."""
    print(record.title, flush=True)
    try:
        part(record, given)
    except Refused as why:
        skip({"": record}, f"no machines here: {why}")
    except Gone as error:
        record.fail(str(error))
    record.status = "passed" if record.status == "running" else record.status


def skip(records: Mapping[str, Record], why: str) -> None:
    """Note in each record why it is not measured."""
    for record in records.values():
        record.status = "skipped"
        record.note(f"left out: {why}")


def run(record: Record, part: Callable[[Record, Bench], Awaitable[None]], bench: Bench) -> None:
    """Run one part. The record has the error that ends it."""
    print(record.title, flush=True)
    if not bench.works:
        skip({"": record}, f"it measures {' and '.join(REPEATS)}; --nets names neither")
        return
    record.facts["machines"] = (
        f"{len(bench.made)} network namespaces, veth pairs of 1 Gbit/s each way (tbf)"
    )
    try:
        asyncio.run(part(record, bench))
    except (ConvoyError, Lost) as error:
        record.fail(str(error))
    record.status = "passed" if record.status == "running" else record.status


async def choice(record: Record, bench: Bench) -> None:
    """Record the predictions for each preset, fastest first."""
    record.table(
        ("Predicted seconds of an iteration, a core for each process"),
        "net",
        "batch",
        "preset",
        "seconds",
    )
    for work in bench.works:
        known = bench.of(work)
        for preset, seconds in sorted(known.seconds.items(), key=lambda item: item[1]):
            record.row(work.net, work.batch, preset, seconds)


async def worked(record: Record, bench: Bench) -> None:
    """Measure and judge real work."""
    begin(record)
    for work in bench.works:
        known = bench.of(work)
        ours = clusters.cluster(
            bench.folder / f"{work.net}-work",
            work,
            bench.made,
            known.preset,
            data=clusters.made_up(work),
        )
        theirs = bench.told(work, layout=known.torch["layout"])
        found = await beside(record, work, known, ours, Ddp(bench.made, "work", theirs), bench)
        text = f"{work.net}: {found:.2f} times DDP's images a second, at least {BAR}"
        if found < BAR:
            record.fail(f"MISSED {text}")
        else:
            record.note(text)


async def with_cores(record: Record, bench: Bench) -> None:
    """Measure layers that sleep."""
    begin(record)
    for work in bench.works:
        known = bench.of(work)
        times = clusters.profile(known.clusters[known.preset], known.timed)
        ours = clusters.cluster(
            bench.folder / f"{work.net}-cores", work, bench.made, known.preset, times=times
        )
        theirs = bench.told(work, parts=known.torch["parts"], update=known.torch["update"])
        found = await beside(record, work, known, ours, Ddp(bench.made, "sleep", theirs), bench)
        foretold = known.seconds[known.preset]
        record.note(
            f"{work.net}: {found:.2f} times DDP's images a second; {foretold:.4g} s "
            "an iteration predicted"
        )
    if min(busy for row in record.tables[-1].rows for busy in row[-2:]) > BUSY:
        record.note(
            "the processor had no time left: with a core for each machine both sides "
            "would be faster than this"
        )


def begin(record: Record) -> None:
    """Start the table of images a second."""
    record.table(
        "Images a second", "net", "batch", "preset", "ours", "DDP", "its layout", "times DDP",
        "seconds of an iteration", "DDP", "processor busy", "with DDP",
    )  # fmt: skip


async def beside(
    record: Record, work: Work, known: Known, ours: Path, theirs: Ddp, bench: Bench
) -> float:
    """Measure both sides in turns and record a row. Returns how many times faster ours is."""
    async with Ours(ours) as convoy, theirs as ddp:
        taken, busy = await in_turns(
            {"convoy": convoy, "DDP": ddp}, bench.given.turns, bench.given.seconds
        )
    found = ratio(taken["DDP"], taken["convoy"])
    here, there = (median(taken[name]) for name in ("convoy", "DDP"))
    rates = work.batch / here, work.batch / there
    used = (median(busy[name]) for name in ("convoy", "DDP"))
    record.row(
        work.net, work.batch, known.preset, *rates, known.torch["layout"], found, here, there, *used
    )
    return found


async def in_turns(
    sides: Mapping[str, Side], turns: int, seconds: float
) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    """The seconds of an iteration of each side, turn by turn, and how busy the processor was. A
    first turn only determines the number of iterations of the others."""
    many = {name: max(LEAST, round(seconds / await side.turn(1))) for name, side in sides.items()}
    taken: dict[str, list[float]] = {name: [] for name in sides}
    busy: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(turns):
        for name, side in sides.items():
            processor = Processor()
            taken[name].append(await side.turn(many[name]))
            busy[name].append(processor.busy())
    return taken, busy


def by_turns(part: Callable[[Record, int], None]) -> Own:
    """A part of which only the number of turns can be chosen."""
    return lambda record, given: part(record, given.turns)


PARTS: dict[str, tuple[str, Callable[[Record, Bench], Awaitable[None]]]] = {
    "choice": ("Which preset is ours", choice),
    "work": ("Real work on the cores of this machine", worked),
    "cores": ("As on machines with a core each", with_cores),
}
OWN: dict[str, tuple[str, Own]] = {
    "learning": ("Seconds until a loss is reached", learning.learning),
    "start": ("From `up` to the first iteration of sixteen machines", by_turns(starts.start)),
    "thousand": ("Until a thousand machines have begun", by_turns(starts.thousand)),
    "placements": ("Placements as `plan` predicts them", by_turns(placements.placements)),
}
NEED_TORCH = {*PARTS, "learning"}
