"""Islands that come and go on the virtual clock: what is in the outer model, and how long the other
islands wait.

Islands learn a net of one layer with real gradients, on links of 20 Mbit/s and 20 ms. Events come
at drawn times:

    kill    an island dies, and its process is started again
    leave   an island leaves, and stays away until it joins
    join    an island that has left is back
    stop    an island stands still, and goes on before it counts as dead
    sleep   an island stands still until it counts as dead, and is started again later

The samples in the outer model are counted by the gains that the outer server merges. If a server
goes on from an older model in its next life, the gains after that model do not count. In a second run
only the outer server dies. Seconds are virtual, memory is that of this process.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import logging
import random
import resource
import tempfile
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import quantiles
from typing import Any

import roles
from benchmarks.helpers.report import Record
from benchmarks.islands.attended import PATIENCE, Ledger, Presence
from roles.islands.island_messages import OuterModel
from roles.islands.outer_server import Arrived, OuterServer
from roles.messages import TRAIN, Ticket
from runtime.actors.actor import Actor
from runtime.config.file import of_script, program_options
from runtime.errors import Deadlock
from runtime.plan.program import made_of
from runtime.plan.topology import ActorSpec, Placement, ProcessSpec
from runtime.simulation.clock import run_virtual
from runtime.simulation.cluster import Simulation
from runtime.transport.inproc import InprocNetwork, Transfer

EVENTS = 200
DEATHS = 20  # of the outer server
KINDS = ("kill", "leave", "join", "stop", "sleep")
SPEEDS = (4, 2, 2, 1, 1, 1)
SECONDS = 0.05  # of an iteration on the fastest machine
BATCH = 10
EVERY = 1.0  # mean seconds between two events of islands
ITERATIONS = 60  # of the run for each event: more than all islands train until the next one
OUTER_ITERATIONS = 300  # for each death of the outer server
LEAST = 2  # islands that are always there
DEAD = 2.5  # seconds after which a process that stands still counts as dead
MEASURED = 10  # events from one measurement of memory to the next
PAUSE = 0.3  # bars, in seconds
BACK = 5.0
PERIOD = 16 * sum(SPEEDS) // SPEEDS[0]  # iterations of all islands in a period
GROWTH = 0.05  # of the memory in the second half of the events
NET = """layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 1 dim: 28 dim: 28 } } }
layer { name: "label" type: "Input" top: "label" input_param { shape { dim: 1 } } }
layer { name: "ip" type: "InnerProduct" bottom: "data" top: "ip" inner_product_param { num_output: 10
  weight_filler { type: "xavier" } } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss" }
"""
SOLVER = 'net: "net.prototxt" base_lr: 0.01 lr_policy: "fixed" momentum: 0.9 max_iter: {} display: 100 snapshot: 0\n'


def noting(ledger: Ledger, first: Mapping[int, int]) -> type[OuterServer]:
    """The outer server, which enters into a ledger what it merges. `first`: iteration -> its first
    sample."""

    class Noting(OuterServer):
        async def _merge(self, arrived: Mapping[str, Arrived]) -> dict[str, OuterModel]:
            gains = {name: each.gain for name, each in arrived.items()}
            new = [gain for name, gain in gains.items() if gain.sequence > self._merged[name]]
            answers = await super()._merge(arrived)
            numbers = (n for gain in new for n in range(gain.number, gain.number + gain.count))
            firsts = [first[number] for number in numbers]
            ledger.merged(self._version, firsts, asyncio.get_running_loop().time())
            return answers

        async def _anchored(self) -> None:
            await super()._anchored()
            ledger.goes_on_at(self._version)

    return Noting


def _seconds(island: str) -> float:
    return SECONDS * SPEEDS[0] / SPEEDS[int(island.rpartition("-")[2])]


@dataclass
class Trial:
    """One run, and what was seen of it.

    `iterations`: of the run. `first`: iteration -> its first sample. `done`: the number of events
    of each kind. `memory`: megabytes after each MEASURED events. `stands`: the seconds that an
    island will stand still. `hung`: why the run hung, or "".
    """

    iterations: int
    ledger: Ledger = field(default_factory=lambda: Ledger(BATCH))
    presence: Presence = field(default_factory=lambda: Presence(_seconds))
    first: dict[int, int] = field(default_factory=dict)
    done: Counter[str] = field(default_factory=Counter)
    memory: list[float] = field(default_factory=list)
    stands: dict[str, float] = field(default_factory=dict)
    hung: str = ""

    @property
    def exact(self) -> bool:
        """True if each sample of the run is once in the model."""
        return self.ledger.is_exact(self.iterations)

    def happened(self, kind: str, name: str) -> None:
        """Note an event."""
        self.done[kind] += 1
        self.presence.events.append((asyncio.get_running_loop().time(), name))
        if self.done.total() % MEASURED == 0:
            gc.collect()  # actors form reference cycles with few objects and much memory
            self.memory.append(_memory())

    def back(self) -> list[float]:
        """Seconds from each death of the outer server to the next outer step."""
        return [self.ledger.next_after(at) for at, _ in self.presence.events]


def _memory() -> float:
    """The megabytes of this process that are in memory."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1e6


class Attendance:
    """A run whose islands, or whose outer server, go and come back at drawn times."""

    def __init__(self, trial: Trial, seed: int, folder: Path) -> None:
        self._trial = trial
        self._draw = random.Random(seed)
        self._here = {f"island-{rank}" for rank in range(len(SPEEDS))}
        self._left: list[str] = []
        self._roles = {**roles.ROLES, "outer_server": noting(trial.ledger, trial.first)}
        (folder / "net.prototxt").write_text(NET)
        (folder / "solver.prototxt").write_text(SOLVER.format(trial.iterations))
        said: dict[str, Any] = {
            "solver": "solver.prototxt",
            "batch": BATCH,
            "seed": seed,
            "data": {"train": {"format": "digits", "split": "train"}},
            "strategy": {"preset": "islands", "workers": len(SPEEDS)},
            "gradients": {"format": "int4"},
        }
        virtual = {"simulation": {"clock": "virtual"}, "checkpoint": {"seconds": 0}}
        config = of_script("islands", {"train": said, **virtual}, folder)
        topology = roles.plan(config, program_options(config, roles.Options))
        names = [actor.name for actor in topology.actors]
        self._simulation = Simulation(
            Placement(topology, tuple(ProcessSpec(name, "local", (name,)) for name in names)),
            network=InprocNetwork(
                latency=0.02,
                bytes_per_second=2.5e6,
                interfaces={name: name for name in names},
                on_transfer=self._carried,
            ),
            service_time=self._work,
            directory=folder,
        )

    async def run(self, script: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run to the end, or until no gain arrives any more."""
        tasks = [asyncio.create_task(script()), asyncio.create_task(self._watched())]
        try:
            await self._simulation.run(self._made)
        except Deadlock as error:
            self._trial.hung = str(error)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def islands(self, events: int) -> None:
        """Let so many events happen to islands."""
        async with asyncio.TaskGroup() as group:
            while self._trial.done.total() < events:
                await asyncio.sleep(self._draw.expovariate(1 / EVERY))
                kind = self._draw.choice(KINDS)
                if kind == "join" and self._left:
                    await self._join(self._left.pop(0))
                elif kind != "join" and len(self._here) > LEAST:
                    name = self._draw.choice(sorted(self._here))
                    self._goes(name, kind)
                    group.create_task(getattr(self, f"_{kind}")(name))

    async def outer(self, deaths: int) -> None:
        """Let the outer server die so many times."""
        for _ in range(deaths):
            await asyncio.sleep(self._draw.uniform(2.0, 4.0))
            self._trial.happened("outer", "outer")
            await self._simulation.kill("outer", returns=True)
            await asyncio.sleep(self._draw.uniform(0.2, 1.5))
            await self._simulation.restart("outer", self._made)

    async def _join(self, name: str) -> None:
        self._trial.happened("join", name)
        await self._back(name, 0.0)

    async def _kill(self, name: str) -> None:
        await self._simulation.kill(name, returns=True)
        await self._back(name, self._draw.uniform(0.01, 1.0))

    async def _leave(self, name: str) -> None:
        await self._simulation.kill(name, returns=False)
        self._left.append(name)

    async def _stop(self, name: str) -> None:
        seconds = self._trial.stands[name] = self._draw.uniform(0.1, DEAD)
        await asyncio.sleep(seconds + 2 * _seconds(name))
        self._is_back(name)

    async def _sleep(self, name: str) -> None:
        self._trial.stands[name] = 10 * DEAD
        await asyncio.sleep(DEAD)
        await self._simulation.kill(name, returns=True)
        await self._back(name, self._draw.uniform(0.5, 3.0))

    def _goes(self, name: str, kind: str) -> None:
        self._here.discard(name)
        self._trial.happened(kind, name)
        now = asyncio.get_running_loop().time()
        self._trial.presence.absent.append((name, now, float("inf")))

    async def _back(self, name: str, seconds: float) -> None:
        await asyncio.sleep(seconds)
        self._trial.stands.pop(name, None)
        await self._simulation.restart(name, self._made)
        self._is_back(name)

    def _is_back(self, name: str) -> None:
        absent = self._trial.presence.absent
        now = asyncio.get_running_loop().time()
        absent[:] = [
            (who, low, now if who == name and high == float("inf") else high)
            for who, low, high in absent
        ]
        self._here.add(name)

    async def _watched(self) -> None:
        """End a run in which no gain is merged any more."""
        while True:
            before = len(self._trial.ledger.times)
            await asyncio.sleep(PATIENCE)
            if len(self._trial.ledger.times) == before:
                self._trial.hung = f"no gain in {PATIENCE:g} s"
                self._simulation.end()

    def _made(self, spec: ActorSpec) -> Actor:
        return made_of(self._roles, spec)

    def _carried(self, transfer: Transfer) -> None:
        message = transfer.envelope.message
        if isinstance(message, Ticket) and message.phase == TRAIN:
            self._trial.first |= {each.number: each.first for each in message.each()}

    def _work(self, actor: str, label: str) -> float:
        """Seconds of a piece of work. An island that stands still takes as much longer."""
        if label != "train":
            return 0.0
        self._trial.presence.iterated[actor].append(asyncio.get_running_loop().time())
        return _seconds(actor) + self._trial.stands.pop(actor, 0.0)


def trial_of(events: int, seed: int, *, outer: bool = False) -> Trial:
    """Run with so many events of islands, or so many deaths of the outer server."""
    trial = Trial(iterations=(OUTER_ITERATIONS if outer else ITERATIONS) * events)

    async def main(folder: Path) -> None:
        one = Attendance(trial, seed, folder)
        await one.run(lambda: one.outer(events) if outer else one.islands(events))

    logging.disable(logging.ERROR)  # dead processes leave many messages that are refused
    try:
        with tempfile.TemporaryDirectory(prefix="convoy-benchmark-") as name:
            run_virtual(main(Path(name)))
    finally:
        logging.disable(logging.NOTSET)
        gc.collect()
    return trial


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this part."""
    parser.add_argument("--events", type=int, default=EVENTS, help="of islands (attendance)")
    parser.add_argument("--deaths", type=int, default=DEATHS, help="of the outer server")
    parser.add_argument("--seed", type=int, default=1, help="of the events (attendance)")


def measured(given: argparse.Namespace) -> Record:
    """The record of both runs."""
    record = Record("Islands that come and go, and an outer server that dies")
    command = f"--events {given.events} --deaths {given.deaths} --seed {given.seed}"
    record.facts["command"] = f"python -m benchmarks.islands --parts attendance {command}"
    one = trial_of(given.events, given.seed)
    other = trial_of(given.deaths, given.seed, outer=True)
    record.table("runs", "events", "number", "samples", "samples in the model once", "hangs")
    for trial, said in ((one, _counted(one.done)), (other, "deaths of the outer server")):
        once = sum(many == 1 for many in trial.ledger.samples().values())
        record.row(said, trial.done.total(), trial.iterations * BATCH, once, int(bool(trial.hung)))
    for trial, wanted in ((one, given.events), (other, given.deaths)):
        record.judge("events that happened", trial.done.total(), least=wanted)
        record.judge("each sample once in the model", trial.exact, least=1)
        record.judge("runs that hung", bool(trial.hung), most=0)
    *_, late = quantiles(one.presence.pauses(), n=20)
    record.judge("seconds that others pause, 95th percentile", late, most=PAUSE)
    if len(one.memory) > 1:
        half = one.memory[len(one.memory) // 2]
        record.judge("growth of memory in the later half", one.memory[-1] / half - 1, most=GROWTH)
    record.judge("seconds until the next outer step after a death", max(other.back()), most=BACK)
    lost = max(other.ledger.lost)
    record.judge("iterations in the dead server only", lost, most=PERIOD)
    record.status = "passed" if record.status == "running" else record.status
    return record


def _counted(done: Mapping[str, int]) -> str:
    return ", ".join(f"{many} {kind}" for kind, many in sorted(done.items()))
