"""Islands that come and go in real time: machines that are network namespaces are killed, stopped,
put to sleep, leave and come back, while a run of `up` goes on.

Each machine has a cable of 100 Mbit/s with 5 ms, an agent, and one island. Messages are those of
LeNet in int4, and no gradient is computed. The first machine also has the coordinator and the outer
server, and only the processes of its island are harmed. Events come at drawn times:

    kill    the process of an island gets SIGKILL, and is started again
    leave   the machine's agent gets SIGTERM, or a person types `scale --without`
    join    a person types `scale --with` for a machine that has left
    stop    all processes of a machine stand still, for less than a link may be silent
    sleep   all processes of a machine stand still until its island is left aside; the machine then
            cannot be reached for a while, and `up` finds it again by itself

Afterwards the outer server is killed. The samples in the outer model are counted by what islands
and the server wrote down (`noted`). Pauses of a busy processor are the load's, and are not judged.
Needs root.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median, quantiles

from benchmarks.helpers.cables import delayed
from benchmarks.helpers.machines import Machine, Refused, machines, rate_limit
from benchmarks.helpers.report import Record
from benchmarks.helpers.ssh_double import SshDouble
from benchmarks.helpers.survivor import Gone, Survivor, environment, events
from benchmarks.islands.attended import Ledger, Presence
from benchmarks.islands.noted import FOLDER, Lives, ledger_of, lives_in
from benchmarks.scaling.runs import Processor, Wanted
from runtime.attached.attach import attach
from runtime.errors import ConvoyError

EVENTS = 40
DEATHS = 3  # of the outer server
KINDS = ("kill", "leave", "join", "stop", "sleep")
SECONDS = (0.05, 0.1, 0.1, 0.2, 0.2)  # of a batch on each machine
BATCH = 32
RATE = 100_000_000  # bits per second
DELAY = 0.005  # seconds
BURST = 0.002  # seconds of the rate that may leave at once
LINK = 2.0  # seconds for which a link may be silent
EVERY = 2.0  # mean seconds between two events
LEAST = 2  # islands that are always there
STOPPED = (0.1, 1.2)  # seconds
ASLEEP = (0.5, 3.0)  # seconds after its island is left aside
BETWEEN = 4.0  # seconds between two deaths of the outer server
DISPLAY = 500  # iterations
MEASURED = 10  # events from one measurement of memory to the next
START = 240.0  # seconds until the run trains: five agents import all sources at once
PATIENCE = 60.0
PAUSE = 0.3  # bars, in seconds
BACK = 5.0
GROWTH = 0.05  # of the memory in the second half of the events
BUSY = 0.9  # of all cores, above which pauses are not judged
MACHINE = """[[machine]]
name = "{name}"
address = "{address}"
threads = 1
python = "{python}"
directory = "{folder}"
environment = {{ PYTHONPATH = "{path}", CONVOY_THREADS = "1", {notes} = "{folder}/notes" }}
"""
MORE = """program = "benchmarks.islands.noted"
[launcher]
kind = "ssh"
start_seconds = {start}
[liveness]
start_seconds = {start}
link_seconds = {link}
[checkpoint]
seconds = 0
"""


@dataclass
class Site:
    """A run on machines, and what was done to it. `done`: the number of events of each kind.
    `harmed`: the time of each event, its kind, and the island. `back`: the times at which islands
    that stood still went on. `memory`: megabytes of `up`, coordinator and outer server after each
    MEASURED events. `deaths`: the times at which the outer server was killed."""

    made: list[Machine]
    ssh: SshDouble
    folder: Path
    run: Survivor
    done: Counter[str] = field(default_factory=Counter)
    harmed: list[tuple[float, str, str]] = field(default_factory=list)
    back: list[tuple[str, float, float]] = field(default_factory=list)
    memory: list[float] = field(default_factory=list)
    deaths: list[float] = field(default_factory=list)

    def agent(self, number: int) -> int:
        """The pid of a machine's agent: its oldest process."""
        return min(self.made[number].pids(), key=_started)

    def happened(self, kind: str, number: int) -> float:
        """Note an event, and return its time."""
        at = time.monotonic()
        self.done[kind] += 1
        self.harmed.append((at, kind, f"island-{number}"))
        if self.done.total() % MEASURED == 0:
            pids = self.run.pids()
            each = [self.run.process.pid, pids["coordinator"], pids["outer"]]
            self.memory.append(sum(map(_megabytes, each)))
        return at

    async def until(self, kind: str, number: int, since: int) -> None:
        """Wait until an island has more than `since` events of this kind. Raises Gone if `up` ends
        or the time is over."""
        deadline = time.monotonic() + PATIENCE
        while self.count(kind, number) <= since:
            if self.run.process.poll() is not None or time.monotonic() > deadline:
                raise Gone(f"no '{kind}' of island-{number}:\n{self.run.said()}")
            await asyncio.sleep(0.05)

    def count(self, kind: str, number: int) -> int:
        """The number of events of this kind that the run has reported of an island."""
        told = events(self.run.newest, kind)
        return sum(event.get("worker") == f"island-{number}" for event in told)

    async def scale(self, **wish: list[str]) -> None:
        """Do what `scale` does."""
        async with attach(self.run.newest) as client:
            await client.scale(**wish)


class Harm:
    """Draws events, and makes them happen to one machine each. A machine is busy until it is there
    again, or has left."""

    def __init__(self, site: Site, seed: int) -> None:
        self._site = site
        self._draw = random.Random(seed)
        self._here = set(range(len(site.made)))
        self._left: list[int] = []
        self._busy: set[int] = set()

    async def events(self, count: int) -> None:
        """Let so many events happen, and wait until each is over."""
        async with asyncio.TaskGroup() as group:
            while self._site.done.total() < count:
                await asyncio.sleep(self._draw.expovariate(1 / EVERY))
                kind = self._draw.choice(KINDS)
                if kind == "join" and self._left:
                    group.create_task(self._one(self._join, self._left.pop(0)))
                elif kind != "join" and len(self._here) > LEAST:
                    able = self._here if kind == "kill" else self._here - {0}
                    number = self._draw.choice(sorted(able))
                    group.create_task(self._one(getattr(self, f"_{kind}"), number))
                await asyncio.sleep(0)

    async def outer(self, deaths: int) -> None:
        """Kill the outer server so many times."""
        for _ in range(deaths):
            await asyncio.sleep(BETWEEN)
            self._site.deaths.append(time.monotonic())
            os.kill(self._site.run.pids()["outer"], signal.SIGKILL)
        await asyncio.sleep(BETWEEN)

    async def _one(self, harm: Callable[[int], Awaitable[None]], number: int) -> None:
        self._here.discard(number)
        await harm(number)

    async def _kill(self, number: int) -> None:
        joined = self._site.count("joined", number)
        self._site.happened("kill", number)
        os.kill(self._site.run.pids()[f"island-{number}"], signal.SIGKILL)
        await self._site.until("joined", number, joined)
        self._here.add(number)

    async def _leave(self, number: int) -> None:
        left = self._site.count("left", number)
        self._site.happened("leave", number)
        if self._draw.random() < 0.5:
            os.kill(self._site.agent(number), signal.SIGTERM)
        else:
            await self._site.scale(without=[f"m{number}"])
        await self._site.until("left", number, left)
        self._left.append(number)

    async def _join(self, number: int) -> None:
        joined = self._site.count("joined", number)
        self._site.happened("join", number)
        await self._site.scale(including=[f"m{number}"])
        await self._site.until("joined", number, joined)
        self._here.add(number)

    async def _stop(self, number: int) -> None:
        at = self._site.happened("stop", number)
        with _standing_still(self._site.made[number]):
            await asyncio.sleep(self._draw.uniform(*STOPPED))
        self._site.back.append((f"island-{number}", at, time.monotonic()))
        self._here.add(number)

    async def _sleep(self, number: int) -> None:
        left, joined = self._site.count("left", number), self._site.count("joined", number)
        self._site.happened("sleep", number)
        self._site.ssh.down(f"m{number}").touch()
        with _standing_still(self._site.made[number]):
            await self._site.until("left", number, left)
            await asyncio.sleep(self._draw.uniform(*ASLEEP))
        self._site.ssh.down(f"m{number}").unlink()
        await self._site.until("joined", number, joined)
        self._here.add(number)


@contextmanager
def _standing_still(machine: Machine) -> Iterator[None]:
    """Stop all processes of a machine, and let those that are left go on."""
    pids = machine.pids()
    _signal(pids, signal.SIGSTOP)
    try:
        yield
    finally:
        _signal(pids, signal.SIGCONT)


def _signal(pids: set[int], number: signal.Signals) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def _started(pid: int) -> int:
    """When a process started, in clock ticks since boot."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])


def _megabytes(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1e6


def _cluster(made: list[Machine], folder: Path) -> Path:
    times = {f"island-{rank}/train": seconds for rank, seconds in enumerate(SECONDS)}
    tables = "".join(
        MACHINE.format(
            name=f"m{number}",
            address=machine.address,
            python=sys.executable,
            folder=folder,
            path=environment()["PYTHONPATH"],
            notes=FOLDER,
        )
        for number, machine in enumerate(made)
    )
    (folder / "notes").mkdir()
    wanted = Wanted(
        "islands",
        len(made),
        1_000_000,
        batch=BATCH,
        times=times | {"*/*": 0},
        strategy='options = { leave_out = false }\n[train.gradients]\nformat = "int4"\n',
        more=MORE.format(link=LINK, start=START / 2) + tables,
    )
    cluster = wanted.write(folder)
    solver = folder / "solver.prototxt"
    solver.write_text(solver.read_text().replace("display: 1\n", f"display: {DISPLAY}\n"))
    return cluster


@contextmanager
def _site(folder: Path) -> Iterator[Site]:
    """A run that has begun to train."""
    with machines(len(SECONDS), RATE, BURST) as made, ExitStack() as ends:
        for machine in made[1:]:
            limit = rate_limit(RATE, BURST)
            ends.enter_context(delayed(machine, DELAY, DELAY, limit=limit))
        ssh = SshDouble(folder, {f"m{n}": each.namespace for n, each in enumerate(made)})
        run = Survivor(_cluster(made, folder), ssh.path(environment()))
        ends.callback(run.stop)
        run.until("progress ", START)
        yield Site(made, ssh, folder, run)


def presence_of(site: Site, lives: Lives) -> Presence:
    """Which islands were there. An island that was harmed is away until it begins an iteration, in
    its next life unless it was stopped."""
    found = Presence(lambda island: SECONDS[int(island.rpartition("-")[2])])
    found.events = [(at, island) for at, _, island in site.harmed]
    for island in (f"island-{number}" for number in range(len(SECONDS))):
        begun = sorted((line["at"], life) for life in lives[island] for line in lives[island][life])
        found.iterated[island] = [at for at, _ in begun]
        for at, kind, who in site.harmed:
            if who == island and kind not in ("stop", "join"):
                before = max((life for when, life in begun if when <= at), default=0)
                again = min((when for when, life in begun if life > before), default=float("inf"))
                found.absent.append((island, at, again))
    for island, at, until in site.back:
        again = min((when for when in found.iterated[island] if when > until), default=until)
        found.absent.append((island, at, again))
    return found


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this part."""
    parser.add_argument("--real-events", type=int, default=EVENTS, help="of islands (events)")
    parser.add_argument("--real-deaths", type=int, default=DEATHS, help="of the server (events)")
    parser.add_argument("--real-seed", type=int, default=1, help="of the events (events)")


def measured(given: argparse.Namespace) -> Record:
    """The record of one run."""
    record = Record("Islands that come and go in real time over network namespaces")
    record.facts |= {
        "machines": f"1 : 1 : 2 : 2 : 4, {RATE // 10**6} Mbit/s, {DELAY * 1e3:g} ms, LeNet, int4, emulated",
        "command": f"python -m benchmarks.islands --parts events --real-seed {given.real_seed}",
    }
    processor = Processor()
    with tempfile.TemporaryDirectory(prefix="convoy-benchmark-") as name:
        folder = Path(name)
        try:
            with _site(folder) as site:
                hung = _harmed(site, given)
                finished = events(site.run.newest, "finished")
        except Refused as why:
            record.status = "skipped"
            record.note(f"no machines here: {why}")
            return record
        lives = lives_in(folder / "notes")
    busy = processor.busy()
    ledger = ledger_of(lives, "outer", BATCH)
    _judged(record, given, site, ledger, presence_of(site, lives), busy)
    record.judge("runs that hung", bool(hung), most=0)
    if hung:
        record.note(hung)
    iterations = int(finished[-1]["iterations"]) if finished else 0
    record.judge("each sample once in the model", ledger.is_exact(iterations), least=1)
    record.status = "passed" if record.status == "running" else record.status
    return record


def _harmed(site: Site, given: argparse.Namespace) -> str:
    """Let all events happen, and end the run well. Returns why it hung, or an empty text."""

    async def main() -> None:
        harm = Harm(site, given.real_seed)
        await harm.events(given.real_events)
        await harm.outer(given.real_deaths)

    hung = ""
    try:
        asyncio.run(main())
        site.run.process.send_signal(signal.SIGINT)
        code, said = site.run.end(PATIENCE)
        hung = "" if code == 130 else f"`up` ended with {code}: {said}"
    except* (Gone, ConvoyError, subprocess.TimeoutExpired) as errors:
        hung = "; ".join(map(str, errors.exceptions))
    return hung


def _judged(
    record: Record,
    given: argparse.Namespace,
    site: Site,
    ledger: Ledger,
    presence: Presence,
    busy: float,
) -> None:
    said = ", ".join(f"{many} {kind}" for kind, many in sorted(site.done.items()))
    record.table("run", "events", "samples", "samples in the model once", "processor busy")
    counts = ledger.samples()
    once = sum(many == 1 for many in counts.values())
    record.row(said, len(counts), once, busy)
    record.judge("events that happened", site.done.total(), least=given.real_events)
    pauses = presence.pauses()
    *_, late = quantiles(pauses, n=20)
    record.note(f"seconds that others pause: median {median(pauses):.3g}")
    if late <= PAUSE or busy < BUSY:
        record.judge("seconds that others pause, 95th percentile", late, most=PAUSE)
    else:
        record.note(f"seconds that others pause, 95th percentile: {late:.3g}, not judged: the load")
    if len(site.memory) > 1:
        half = site.memory[len(site.memory) // 2]
        record.judge("growth of memory in the later half", site.memory[-1] / half - 1, most=GROWTH)
    back = [ledger.next_after(at) for at in site.deaths]
    if back:
        record.judge("seconds until the next outer step after a death", max(back), most=BACK)
        record.judge("deaths of the outer server", len(ledger.lost), least=given.real_deaths)
