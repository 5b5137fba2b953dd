"""Homes that are drawn at random: whether the machines that `plan` chooses are never later than the
fastest of them alone, and whether the predicted worth of a machine is what leaving it out does.

A home has two to eight machines, with speeds up to 1 : 50 and links from 10 Mbit/s to 1 Gbit/s. Each
machine has one island with LeNet, the first and fastest also has the outer server. The runs are
emulated: messages travel as in training, and no gradient is computed. So samples in a second are
measured, while what is learned from each sample is that of the rule of `island_worth`, for the
measured number of periods. The load of the machine changes no number.
"""

from __future__ import annotations

import argparse
import random
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import fmean

from benchmarks.helpers.report import Record
from benchmarks.islands.runs import BATCH, Home
from benchmarks.scaling.runs import VIRTUAL, Wanted
from benchmarks.tuning.kept import Kept
from roles import ROLES
from roles.forecasting.island_periods import IslandMachine, IslandRun
from roles.forecasting.island_worth import Pace, Worth, learned, worths
from roles.islands.island_messages import Gain
from runtime.runs.checking import check
from runtime.simulation.clock import run_virtual
from runtime.simulation.cluster import simulate
from runtime.transport.inproc import InprocNetwork, Transfer

FILE = Path(__file__).with_name("homes.jsonl")
HOMES = 40
LEFT_OUT = 10  # homes in which each machine is left out
ITERATIONS = 6000
NUMBERS = 431_080  # of LeNet
BYTES = NUMBERS * (1 / 2 + 1 / 32)  # of a gain in int4
FASTEST = 0.05  # seconds of a batch on the fastest machine
SLOWEST = 50.0  # times the seconds of the fastest
LINKS = (10e6 / 8, 1e9 / 8)  # bytes per second
LATENCIES = (0.0005, 0.002, 0.02, 0.05)  # seconds
LATE = 1.03  # bars: times the seconds of the fastest machine alone
MOSTLY = 95.0  # % of the homes
POINTS = 10.0


def drawn(seed: int) -> list[IslandMachine]:
    """A home, fastest machine first."""
    dice = random.Random(seed)
    slower = sorted(SLOWEST ** dice.random() for _ in range(dice.randint(1, 7)))
    return [
        IslandMachine(
            f"m{number}",
            (FASTEST * times,),
            BYTES,
            BYTES,
            dice.choice(LATENCIES),
            LINKS[0] * (LINKS[1] / LINKS[0]) ** dice.random(),
            variation=0.0,
        )
        for number, times in enumerate([1.0, *slower])
    ]


def emulated_cluster(
    machines: Sequence[IslandMachine], iterations: int, form: str = "int4"
) -> Wanted:
    """An emulated run of one island on each machine, whose gains have the format `form`."""
    times = {f"island-{rank}/train": one.seconds[0] for rank, one in enumerate(machines)}
    return Wanted(
        "islands",
        len(machines),
        iterations,
        batch=BATCH,
        times=times | {"*/*": 0},
        strategy=f'options = {{ leave_out = false }}\n[train.gradients]\nformat = "{form}"\n',
        more=VIRTUAL.format(rate=1, latency=0) + "[checkpoint]\nseconds = 0\n",
    )


def emulated_network(machines: Sequence[IslandMachine]) -> InprocNetwork:
    """The links of these machines, the first of which has the servers."""
    ranks = {f"island-{rank}": rank for rank in range(len(machines))}
    home = Home(
        tuple(one.seconds[0] for one in machines),
        tuple(one.bytes_per_second for one in machines),
        tuple(one.latency for one in machines),
    )
    return home.network({"outer": 0, "coordinator": 0} | ranks)


def emulated(machines: Sequence[IslandMachine], form: str = "int4") -> Pace:
    """The pace of an emulated run on these machines, the first of which has the servers. `form`: the
    format of gains."""
    gains = 0

    def seen(transfer: Transfer) -> None:
        nonlocal gains
        gains += isinstance(transfer.envelope.message, Gain)

    network = emulated_network(machines)
    network.on_transfer = seen
    with tempfile.TemporaryDirectory(prefix="convoy-benchmark-") as folder:
        cluster = emulated_cluster(machines, ITERATIONS, form).write(Path(folder))
        placement = check(cluster).placement
        journal = run_virtual(simulate(placement, ROLES, network=network, directory=Path(folder)))
    seconds = journal.of("finished")[-1]["seconds"]
    periods = gains / len(machines)
    speeds = [1 / one.seconds[0] for one in machines]
    return Pace(ITERATIONS / seconds, seconds / periods, learned(speeds, periods))


class Emulated:
    """Paces of emulated runs, each made once."""

    def __init__(self, kept: Kept) -> None:
        self.kept = kept

    def __repr__(self) -> str:
        return f"<emulated homes of {self.kept!r}>"

    def value(self, seed: int, machines: Sequence[IslandMachine]) -> float:
        """The iterations of one process that are worth as much as a second of these machines. One
        machine alone is one process."""
        if len(machines) == 1:
            return 1 / machines[0].seconds[0]
        name = f"home {seed}, {ITERATIONS} iterations: {' '.join(one.name for one in machines)}"
        if self.kept.get(name) is None:
            self.kept.put(name, asdict(emulated(machines)))
        return Pace(**self.kept.get(name)).value


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this part."""
    parser.add_argument("--homes", type=int, default=HOMES, help="(homes)")
    parser.add_argument("--left-out", type=int, default=LEFT_OUT, help="of the homes (homes)")
    parser.add_argument("--kept-homes", type=Path, default=FILE, help="(homes)")


def measured(given: argparse.Namespace) -> Record:
    """The record of all homes."""
    record = Record("Islands in homes that are drawn, on the virtual clock without gradients")
    runs = Emulated(Kept(given.kept_homes))
    record.facts["command"] = f"python -m benchmarks.islands --parts homes --homes {given.homes}"
    record.table(
        "homes",
        *("home", "machines", "used", "times the seconds of the fastest alone"),
        "largest error of a worth in points",
    )
    errors: list[float] = []
    late = [_late(runs, seed) for seed in range(given.homes)]  # before machines are left out
    for seed, each in enumerate(late):
        home, found, used = _chosen(seed)
        points = [
            100 * abs(worth.share - _share(runs, seed, one, used, home))
            for one, worth in zip(home, found, strict=True)
            if seed < given.left_out and used != [one]
        ]
        errors += points
        record.row(seed, len(home), len(used), each, max(points, default="not measured"))
    in_time = 100 * fmean(each <= LATE for each in late)
    record.judge("% of homes never later than the fastest alone", in_time, least=MOSTLY)
    if errors:
        record.judge("largest error of a worth in points", max(errors), most=POINTS)
    record.status = "passed" if record.status == "running" else record.status
    return record


def _chosen(seed: int) -> tuple[list[IslandMachine], list[Worth], list[IslandMachine]]:
    """A home, the predicted worth of its machines, and those that are used."""
    home = drawn(seed)
    found = worths(home, IslandRun(ITERATIONS, server=home[0].name))
    return home, found, [one for one, worth in zip(home, found, strict=True) if worth.used]


def _late(runs: Emulated, seed: int) -> float:
    """The seconds of the machines that are used, times those of the fastest alone, to learn as
    much."""
    home, _, used = _chosen(seed)
    return runs.value(seed, home[:1]) / runs.value(seed, used)


def _share(
    runs: Emulated,
    seed: int,
    one: IslandMachine,
    used: Sequence[IslandMachine],
    home: Sequence[IslandMachine],
) -> float:
    """What a machine brings next to all others that are used."""
    on = [each for each in home if each in used or each is one]
    off = [each for each in on if each is not one]
    return runs.value(seed, on) / runs.value(seed, off) - 1
