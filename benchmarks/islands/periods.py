"""The seconds of a period on clusters with emulated devices, next to those that `plan` predicts.

A period goes from one gain of an island to the next. Machines differ in speed, and the seconds of an
iteration vary by a tenth (`VARIES`). Each process has a link of its own. The runs are long ones of
which only the first gains are simulated: the later half of these gains counts, on both sides. Over
the islands of a cluster, the mean of their gains in a second counts.
"""

from __future__ import annotations

import argparse
import tempfile
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median

from benchmarks.helpers.report import Record
from benchmarks.scaling.runs import VIRTUAL, Wanted
from roles.forecasting.island_machines import home_of
from roles.forecasting.island_worth import Pace, pace
from roles.forecasting.prediction_inputs import basis_of
from roles.islands.island_messages import Gain
from runtime.plan import prospects
from runtime.plan.program import actor_of
from runtime.runs.checking import check
from runtime.runs.virtual_run import network_of
from runtime.simulation.clock import run_virtual
from runtime.simulation.cluster import Simulation
from runtime.transport.inproc import Transfer

MEDIAN = 5.0  # bars, in percent of the measured seconds
WORST = 15.0
SECONDS = 0.05  # of an iteration on the fastest machine
VARIES = 0.1  # standard deviation / mean
CODING = 0.002  # seconds of encoding a gain, of decoding an answer, and of an outer step
ITERATIONS = 100_000
GAINS = 64  # of each island, of which the later half counts
NETS = {"LeNet": ("lenet", (1, 28, 28)), "ResNet-20": ("resnet20", (3, 32, 32))}


@dataclass(frozen=True)
class Cluster:
    """A cluster of one island on each machine: their relative speeds, the rate of each link in
    Mbit/s and its latency in seconds, and the wire format."""

    net: str
    speeds: tuple[int, ...]
    rate: int
    latency: float
    form: str
    quorum: str = "grace"

    def __str__(self) -> str:
        """ "LeNet, 4:2:1:1"."""
        text = f"{self.net}, {':'.join(map(str, self.speeds))}"
        return text if self.quorum == "grace" else f"{text}, quorum {self.quorum}"

    def write(self, folder: Path) -> Path:
        """Write its cluster.toml. Returns the path."""
        net, shape = NETS[self.net]
        fastest = max(self.speeds)
        times: dict[str, object] = {
            f"island-{rank}/train": {"mean": SECONDS * fastest / speed, "cv": VARIES, "rows": 32}
            for rank, speed in enumerate(self.speeds)
        }
        times |= {f"*/{label}": CODING for label in ("encode", "decode", "merge")}
        options = f'quorum = "{self.quorum}", leave_out = false'
        if self.quorum == "all":
            options += f", speeds = {list(self.speeds)}"
        return Wanted(
            "islands",
            len(self.speeds),
            ITERATIONS,
            net,
            shape,
            32,
            times | {"*/*": 0},
            f'options = {{ {options} }}\n[train.gradients]\nformat = "{self.form}"\n',
            VIRTUAL.format(rate=self.rate * 125_000, latency=self.latency)
            + "[checkpoint]\nseconds = 0\n",
        ).write(folder)


CLUSTERS = (
    Cluster("LeNet", (1, 1), 20, 0.02, "int4"),
    Cluster("LeNet", (1, 1, 1, 1), 20, 0.02, "int8"),
    Cluster("LeNet", (4, 2, 1, 1), 20, 0.02, "float32"),
    Cluster("LeNet", (4, 2, 1, 1), 20, 0.02, "int4"),
    Cluster("LeNet", (20, 1, 1), 20, 0.02, "float32"),
    Cluster("LeNet", (10, 5, 1), 100, 0.005, "float32"),
    Cluster("LeNet", (4, 2, 1, 1), 1000, 0.0005, "int8"),
    Cluster("LeNet", (20, 1), 10_000, 0.0001, "float32"),
    Cluster("LeNet", (4, 2, 1, 1), 20, 0.02, "int4", "all"),
    Cluster("LeNet", (1, 1, 1), 100, 0.005, "float32", "all"),
    Cluster("ResNet-20", (4, 2, 1, 1), 20, 0.02, "float32"),
    Cluster("ResNet-20", (1, 1, 1), 20, 0.02, "int8"),
    Cluster("ResNet-20", (20, 4, 1), 100, 0.005, "int4"),
    Cluster("ResNet-20", (2, 1), 10_000, 0.0001, "float32"),
)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this part."""
    parser.add_argument("--gains", type=int, default=GAINS, help="of each island (periods)")


def measured(given: argparse.Namespace) -> Record:
    """The record of all clusters."""
    record = Record("Seconds of a period of islands: predicted and on the virtual clock")
    record.facts |= {
        "iteration": f"{SECONDS} s on the fastest machine, varies by {VARIES:.0%}",
        "gains of each island": given.gains,
        "command": f"python -m benchmarks.islands --parts periods --gains {given.gains}",
    }
    record.table(
        "seconds of a period",
        *("cluster", "Mbit/s", "format", "predicted", "measured", "error in %"),
    )
    errors = []
    for one in CLUSTERS:
        with tempfile.TemporaryDirectory(prefix="convoy-benchmark-") as folder:
            told, found = compared(one.write(Path(folder)), given.gains)
        errors.append(100 * (told.period / found - 1))
        record.row(str(one), one.rate, one.form, told.period, found, errors[-1])
    record.judge("median error in %", median(map(abs, errors)), most=MEDIAN)
    record.judge("largest error in %", max(map(abs, errors)), most=WORST)
    record.status = "passed" if record.status == "running" else record.status
    return record


def compared(cluster: Path, gains: int) -> tuple[Pace, float]:
    """The predicted pace of a cluster, and the measured seconds of a period."""
    checked = check(cluster)
    config, placement = checked.loaded.config, checked.placement
    home = home_of(placement, basis_of(config, placement, prospects.Wanted()))
    network = network_of(placement, config)
    sent: defaultdict[str, list[float]] = defaultdict(list)

    async def main() -> None:
        simulation = Simulation(placement, network=network, directory=cluster.parent)

        def seen(transfer: Transfer) -> None:
            if isinstance(transfer.envelope.message, Gain):
                sent[transfer.envelope.sender].append(transfer.sent)
                if len(sent) == islands and min(map(len, sent.values())) >= gains:
                    simulation.end()

        network.on_transfer = seen
        await simulation.run(lambda spec: actor_of(checked.loaded.program, spec))

    islands = sum(len(one.seconds) for one in home.machines)
    run_virtual(main())
    rates = []
    for times in sent.values():
        later = times[len(times) // 2 :]
        rates.append((len(later) - 1) / (later[-1] - later[0]))
    return pace(home.machines, home.run), 1 / fmean(rates)
