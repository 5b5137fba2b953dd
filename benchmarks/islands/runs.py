"""Runs of LeNet and of a small residual net with real gradients, on unequal machines of the virtual
clock: what each run learns, how long it takes and what it sends.

Every worker has a machine of its own. Servers, and the single worker, are on the fastest machine,
which is the first. A batch of BATCH rows takes a machine a time in inverse proportion to its speed,
all of it in the first piece of a pass. The load of the machine changes no number.
"""

from __future__ import annotations

import asyncio
import gc
import itertools
import re
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import roles
from benchmarks.presets.runs import Data
from benchmarks.tuning.runs import Examination
from roles.islands.island_messages import Gain
from roles.messages import TRAIN, Ticket
from roles.workers.passes import Passes
from runtime import Actor
from runtime.compute.threads import using
from runtime.config.file import of_script, program_options
from runtime.errors import ProgramFailed
from runtime.plan.program import made_of
from runtime.plan.topology import Placement, ProcessSpec, Topology
from runtime.simulation.clock import run_virtual
from runtime.simulation.cluster import Simulation
from runtime.transport.inproc import InprocNetwork, Transfer
from runtime.transport.network_model import LinkRule, Way

BATCH = 32
FIRST = ("train", "forward", "forward conv1")  # the labels of the first piece of a pass
UNLIMITED = 1e12  # bytes per second
TESTS = 10  # in a run, from outside: they take no virtual time
IMAGES = 2000  # of such a test
SOLVER = """net: "{net}" base_lr: {rate} momentum: 0.9 weight_decay: 0.0005
lr_policy: "poly" power: 1 max_iter: 100 display: 1 snapshot: 0 test_interval: 1000000
test_initialization: false snapshot_after_train: false
"""
RESNET8 = Path(__file__).with_name("resnet8.prototxt")
WIDER = {"resnet8": 1, "resnet8-wide": 2}  # times the channels of that file


@dataclass(frozen=True)
class Home:
    """Machines of these `seconds` for a batch of BATCH rows, fastest first. `rates`: bytes per
    second of each link in each direction. `latencies`: seconds of each link."""

    seconds: tuple[float, ...]
    rates: tuple[float, ...]
    latencies: tuple[float, ...]

    @staticmethod
    def alike(speeds: Sequence[float], fastest: float, rate: float, latency: float) -> Home:
        """Machines of these relative speeds, the fastest of which takes `fastest` seconds, on links
        of one kind."""
        seconds = tuple(fastest * max(speeds) / speed for speed in speeds)
        return Home(seconds, (rate,) * len(speeds), (latency,) * len(speeds))

    @property
    def rows_per_second(self) -> float:
        """The rows that all machines together train in a second if none waits."""
        return sum(BATCH / each for each in self.seconds)

    def network(self, ranks: dict[str, int]) -> InprocNetwork:
        """The links between actors at these machines. Those of one machine reach each other at
        once."""
        rules = [
            LinkRule(a, b, max(self.latencies[ranks[a]], self.latencies[ranks[b]]))
            for a, b in itertools.permutations(ranks, 2)
        ]
        names = {actor: f"machine {rank}" for actor, rank in ranks.items()}
        network = InprocNetwork(bytes_per_second=UNLIMITED, interfaces=names, links=rules)
        for rank, rate in enumerate(self.rates):
            network._outward[f"machine {rank}"] = Way(rate)
            network._inward[f"machine {rank}"] = Way(rate)
        return network


@dataclass(frozen=True)
class Task:
    """A net on its data, at the learning rate of one process with momentum 0.9. `net`: "lenet" on
    the digits, and "lenet-cifar10", "resnet8" or "resnet8-wide" on CIFAR-10."""

    net: str
    data: Data = field(hash=False, compare=False, repr=False)
    rate: float = 0.01

    def train(self, strategy: dict[str, Any], iterations: int) -> dict[str, Any]:
        """The section [train] without the solver."""
        if self.net == "lenet":
            said = self.data.lenet(strategy, iterations)
        else:
            said = self.data.cifar_quick(strategy, iterations, BATCH)
            files = [str(self.data.cifar / "test_batch_10000.bin.gz")] if self.data.cifar else []
            said["data"]["test"]["files"] = files
        return {key: said[key] for key in ("max_iter", "data", "strategy")}

    def file(self, folder: Path) -> Path:
        """The file of the net: that of the zoo's LeNet, or one of a residual net in this folder."""
        if self.net not in WIDER:
            return Path("lenet.prototxt")
        text = re.sub(
            r"num_output: (\d+)(?= kernel_size)",
            lambda found: f"num_output: {int(found[1]) * WIDER[self.net]}",
            RESNET8.read_text("utf-8"),
        )
        file = folder / f"{self.net}.prototxt"
        file.write_text(text, "utf-8")
        return file


@dataclass
class Ran:
    """What a run did: the accuracy of the model at the end on all test images, the virtual
    `seconds` and the `megabytes` between machines up to the last iteration, the `gains` of an
    island, and (seconds, accuracy) on the first IMAGES images during the run."""

    accuracy: float = 0.0
    seconds: float = 0.0
    megabytes: float = 0.0
    gains: float = 0.0
    diverged: bool = False
    way: list[tuple[float, float]] = field(default_factory=list)


def trained(
    task: Task,
    home: Home,
    train: dict[str, Any],
    iterations: int,
    *,
    rate: float = 1.0,
    tests: int = TESTS,
) -> Ran:
    """Train once, on the virtual clock. `train`: keys of [train], among them `strategy`. `rate`: a
    factor of the task's learning rate."""
    with tempfile.TemporaryDirectory(prefix="convoy-benchmark-") as folder, using(1):
        solver = Path(folder, "solver.prototxt")
        solver.write_text(SOLVER.format(net=task.file(Path(folder)), rate=task.rate * rate))
        said = task.train(train["strategy"], iterations) | {"precision": "fast"} | train
        said |= {"solver": str(solver)}
        config = of_script(
            "islands", {"train": said, "simulation": {"clock": "virtual"}}, Path(folder)
        )
        topology = roles.plan(config, program_options(config, roles.Options))
        run = _Run(topology, home, iterations, tests)
        try:
            return run_virtual(run.result(Path(folder)))
        except ProgramFailed as error:
            if "diverged" not in str(error):
                raise
            return Ran(seconds=run.ran.seconds, diverged=True, way=run.ran.way)
        finally:
            gc.collect()  # actors form a reference cycle with few objects and much memory


class _Run:
    """One run: the machine of each actor, its time for each piece of work, and the bytes sent."""

    def __init__(self, topology: Topology, home: Home, iterations: int, tests: int) -> None:
        self._topology = topology
        self._home = home
        self._workers = [actor.name for actor in topology.actors if actor.options.spread]
        self._rank = {
            actor.name: self._workers.index(actor.name) if actor.name in self._workers else 0
            for actor in topology.actors
        }
        self._rows = dict.fromkeys(self._rank, BATCH)
        self._bytes = 0
        self._gains = 0
        self._done = 0
        self._every = max(1, iterations // tests) if tests else iterations + 1
        self._examination: Examination | None = None
        self.ran = Ran()

    async def result(self, folder: Path) -> Ran:
        """Run to the end."""
        names = list(self._rank)
        network = self._home.network(self._rank)
        network.on_transfer = self._sent
        simulation = Simulation(
            Placement(self._topology, tuple(ProcessSpec(name, "local", (name,)) for name in names)),
            network=network,
            service_time=self._seconds,
            directory=folder,
            watch=self._watch,
        )
        await simulation.run(lambda spec: made_of(roles.ROLES, spec), self._prepared)
        return self.ran

    def _seconds(self, actor: str, label: str) -> float:
        if label not in FIRST:
            return 0.0
        return self._home.seconds[self._rank[actor]] * self._rows[actor] / BATCH

    def _prepared(self, actors: dict[str, Actor]) -> None:
        for name, actor in actors.items():
            passes = getattr(actor, "_passes", None)
            if isinstance(passes, Passes):
                passes.read = self._noting(name, passes.read)  # type: ignore[method-assign]
        servers = {name: actor for name, actor in actors.items() if name not in self._workers}
        holds = any(hasattr(actor, "_store") for actor in servers.values())
        shown = servers if holds else servers | {self._workers[0]: actors[self._workers[0]]}
        self._examination = Examination(actors, shown, IMAGES)

    def _noting(self, name: str, read: Callable[..., None]) -> Callable[..., None]:
        """Note the rows of each pass. Tests take no time."""

        def noted(net: Any, ticket: Ticket) -> None:
            low, high = ticket.mine
            self._rows[name] = high - low if ticket.phase == TRAIN else 0
            read(net, ticket)

        return noted

    def _sent(self, transfer: Transfer) -> None:
        ends = transfer.envelope.sender, transfer.envelope.receiver
        if self._rank[ends[0]] != self._rank[ends[1].partition(":")[0]]:
            self._bytes += transfer.size
        self._gains += isinstance(transfer.envelope.message, Gain)

    def _watch(self, actor: str, event: str, fields: dict[str, Any]) -> None:
        now = asyncio.get_running_loop().time()
        if event == "progress":
            self._done += 1
            self.ran.seconds = now
            self.ran.megabytes = self._bytes / 1e6
            self.ran.gains = self._gains / max(1, len(self._workers))
            if self._done % self._every == 0 and self._examination is not None:
                self.ran.way.append((round(now, 3), round(self._examination.accuracy(), 5)))
        elif event == "test":
            self.ran.accuracy = fields["accuracy"]
