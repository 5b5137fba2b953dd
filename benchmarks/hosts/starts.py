"""The time until many machines have begun, for `benchmarks.hosts`.

start     seconds from `up` until sixteen machines with two processes each have made their first iteration. The
          machines are network namespaces of this one: all their agents, nurseries and processes start on its
          cores
thousand  the computation of `up` for a thousand machines that do not exist: plan, places and directory, and the
          messages from the first Hello to the last Begin, which are encoded but not delivered
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median

import roles
from benchmarks.helpers import logins
from benchmarks.helpers.machines import Machine, machines
from benchmarks.helpers.report import ROOT, Record
from benchmarks.helpers.survivor import Survivor, environment
from runtime.actors.metrics import Metrics
from runtime.actors.node import Node
from runtime.cluster.launcher import Launched, Launcher, LaunchPlan
from runtime.cluster.lifecycle import FIRST, Hello, Ready, agent_of
from runtime.cluster.supervising.supervision import Liveness
from runtime.cluster.supervising.supervisor import Supervisor
from runtime.compute.compute import InlineCompute
from runtime.config.file import load_with_program
from runtime.config.sections import Machine as Place
from runtime.machine.versions import identity
from runtime.messages.message import Envelope
from runtime.messages.wire import decode, encode
from runtime.plan.placement import place
from runtime.plan.program import checked
from runtime.plan.run_plan import RunPlan
from runtime.plan.topology import SUPERVISOR, Placement, ProcessSpec
from runtime.runs.execution import Watchers
from runtime.transport import Endpoints, Limits, Transport

MACHINES = 16  # machines, each with EACH workers
EACH = 2
START_BAR = 10.0  # seconds
THOUSAND_BAR = 5.0  # seconds of one core
PRESETS = ("sync", "firecaffe")
PACKAGES = ("runtime", "roles", "nets", "ops")
TRAIN = """[train]
solver = "lenet_digits_solver"
batch = {batch}
[train.strategy]
preset = "{preset}"
workers = {workers}
"""
THOUSAND = """[[machine]]
hosts = "node[0001-1000]"
address = "127.0.0.1"
cores = 8
[links]
transport = "tcp"
"""


def start(record: Record, turns: int) -> None:
    """Measure the seconds from `up` to the first iteration, and judge their median."""
    record.facts["cluster"] = (
        f"{MACHINES} machines, LeNet, firecaffe, {MACHINES * EACH} workers, links encrypted"
    )
    record.facts["agents"] = (
        "started by `ip netns exec` in place of ssh: the figures do not include the time of a login"
    )
    record.table(
        "Seconds since `up` was typed",
        "turn",
        "all have begun",
        "first iteration",
        "processes",
        "end of all",
    )
    subprocess.run(
        [sys.executable, "-m", "compileall", "-q", *PACKAGES], cwd=ROOT, env=bare(), check=True
    )  # as pip does when it installs
    with machines(MACHINES, 10**9) as made:
        taken = [_started(record, turn, made) for turn in range(1, turns + 1)]
    text = f"`up` to the first iteration: {median(taken):.2f} s, at most {START_BAR:g}"
    if median(taken) > START_BAR:
        record.fail(f"MISSED {text}")
    else:
        record.note(text)


def _started(record: Record, turn: int, made: Sequence[Machine]) -> float:
    """Start one run and record a row. Returns its seconds. The record fails if a process is
    left."""
    with tempfile.TemporaryDirectory(prefix="convoy-benchmark-") as name:
        folder = Path(name)
        began = time.monotonic()
        run = Survivor(
            cluster(folder, made), {**bare(), "PATH": f"{folder / 'bin'}:{os.environ['PATH']}"}
        )
        try:
            all_there = run.at("began ")
            first = run.at("progress ")
            processes = len(run.pids())
            ended = time.monotonic()
            run.process.send_signal(signal.SIGINT)
            run.end()
        finally:
            run.stop()
    record.row(turn, all_there - began, first - began, processes, time.monotonic() - ended)
    if left := living(made):
        record.fail(f"{len(left)} processes are left on the machines: {left[0]}")
    return first - began


def bare() -> dict[str, str]:
    """The environment, in which Python may keep compiled modules. If that is forbidden, and nothing
    is compiled yet, every process compiles all modules again."""
    return {
        name: value for name, value in environment().items() if name != "PYTHONDONTWRITEBYTECODE"
    }


def cluster(folder: Path, made: Sequence[Machine]) -> Path:
    """Write the cluster.toml, and into `bin` the script that replaces ssh."""
    logins.script(folder, [at.before for at in made])
    workers = EACH * len(made)
    path = folder / "cluster.toml"
    train = TRAIN.format(batch=4 * workers, preset="firecaffe", workers=workers)
    path.write_text(logins.tables(folder, made, EACH) + train)
    return path


def living(made: Sequence[Machine]) -> list[int]:
    """The processes that live on the machines."""
    return [pid for at in made for pid in at.pids()]


class Road(Transport):
    """A transport that encodes messages and delivers none."""

    sent = 0

    async def open(self) -> Endpoints:
        """Listens nowhere."""
        return Endpoints()

    def connect(self, peer: str, endpoints: Endpoints) -> None:
        """Accepts every peer."""

    def disconnect(self, peer: str, why: str) -> None:
        """Does nothing: no peer is connected."""

    async def send(self, peer: str, envelope: Envelope) -> None:
        """Encodes the message and counts it."""
        encode(envelope)
        self.sent += 1

    async def close(self) -> None:
        """Does nothing: no message is queued."""

    def queued_bytes(self) -> dict[str, int]:
        """Empty: no message is queued."""
        return {}


class Nobody(Launcher):
    """A launcher that starts nothing."""

    async def open(self, machine: Place) -> None:
        """Does nothing: the machine counts as reached."""

    async def launch(self, spec: ProcessSpec, incarnation: int) -> Launched:
        """Never called."""
        raise NotImplementedError

    async def close(self) -> None:
        """Does nothing: no process was started."""


@dataclass(frozen=True)
class Begun:
    """A run over a thousand machines that has begun: the seconds of one core to plan it, to place
    and write it, and to exchange all messages; the number of messages that were sent."""

    placement: Placement
    planned: float
    placed: float
    told: float
    messages: int

    @property
    def seconds(self) -> float:
        """The sum of all three."""
        return self.planned + self.placed + self.told


async def begin(folder: Path, preset: str) -> Begun:
    """Plan a run over a thousand machines with two workers each, and encode all messages of its
    start."""
    (folder / "cluster.toml").write_text(
        THOUSAND + TRAIN.format(batch=2000, preset=preset, workers=2000)
    )
    identity("roles")  # computed once by every process before
    times = [time.process_time()]
    loaded = load_with_program(folder / "cluster.toml")
    topology = checked(roles.plan(loaded.config, loaded.options))
    times.append(time.process_time())
    placement = place(topology, loaded.config)
    addresses = {machine.name: machine.address for machine in loaded.config.machine}
    here = Endpoints(("unix:///x",), ("unix:///y",))
    RunPlan(
        placement, (), here, Limits(), 0.25, "tcp", "/tmp", addresses, "127.0.0.1", False
    ).write(folder)
    times.append(time.process_time())
    sent = await _told(placement)
    times.append(time.process_time())
    return Begun(placement, *(after - before for before, after in pairwise(times)), sent)


async def _told(placement: Placement) -> int:
    """Play the supervisor from the first Hello to the last Begin. Returns the number of messages
    that it sent."""
    node = Node(SUPERVISOR, FIRST, InlineCompute(), Metrics())
    road = Road(SUPERVISOR, node.deliver, node.reject, Limits())
    launcher = Nobody(LaunchPlan(Path(), "roles", ()))
    supervisor = Supervisor(node, road, placement, launcher, Liveness(), Watchers())
    node.add(SUPERVISOR, SUPERVISOR, supervisor)
    versions = identity("roles")

    def arrived(message: Hello | Ready, number: int) -> Envelope:
        made = Envelope(message, number, agent_of(message.process), FIRST, SUPERVISOR)
        return decode(encode(made))

    for number, spec in enumerate(placement.processes, 1):
        address = (f"tcp://10.0.{number % 250}.{number // 250}:40000",)
        hello = Hello(
            process=spec.name,
            incarnation=FIRST,
            pid=number,
            host_name=spec.machine,
            control=address,
            bulk=address,
            arena="",
            host=spec.machine,
            metrics_address="127.0.0.1",
            metrics_port=1,
            versions=versions,
        )
        envelope = arrived(hello, number)
        supervisor.beginning.admit(envelope)
        await supervisor.on_hello(envelope.message, envelope)  # type: ignore[arg-type]
    for number, spec in enumerate(placement.processes, 1):
        ready = arrived(Ready(process=spec.name, reads={"the net": "one"}), number)
        await supervisor.on_ready(ready.message, ready)  # type: ignore[arg-type]
    assert supervisor.began.is_set()
    supervisor.outcome.set_result(None)
    await node.stop()
    return road.sent


def _begun(folder: str, preset: str) -> Begun:
    return asyncio.run(begin(Path(folder), preset))


def thousand(record: Record, turns: int) -> None:
    """Measure the seconds of one core until a thousand machines have begun. The least of all turns
    is judged."""
    record.table(
        "Seconds of one core",
        "preset",
        "processes",
        "plan",
        "places and plan.json",
        "messages",
        "their seconds",
        "all",
    )
    for preset in PRESETS:
        with tempfile.TemporaryDirectory(prefix="convoy-benchmark-") as folder:
            found = min(
                (asyncio.run(begin(Path(folder), preset)) for _ in range(turns)),
                key=lambda begun: begun.seconds,
            )
        processes = len(found.placement.processes)
        record.row(
            preset,
            processes,
            found.planned,
            found.placed,
            found.messages,
            found.told,
            found.seconds,
        )
        text = (
            f"{preset}: a thousand machines are planned and told in {found.seconds:.2f} "
            f"s, at most {THOUSAND_BAR:g}"
        )
        if found.seconds > THOUSAND_BAR:
            record.fail(f"MISSED {text}")
        else:
            record.note(text)
