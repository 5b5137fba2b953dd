"""What it takes until many machines have begun, for `benchmarks.hosts`.

start     `up` is typed, and sixteen machines with two processes each have made their first iteration. The machines are
          network namespaces of this one: all their agents, nurseries and processes start on its
          cores
thousand  what `up` computes for a thousand machines that are not there: plan, places and directory, and the
          messages from the first Hello to the last Begin, which are encoded and delivered nowhere
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
from benchmarks.helpers.machines import Machine, machines
from benchmarks.helpers.report import ROOT, Record
from benchmarks.helpers.survivor import Survivor, environment
from runtime.actors.metrics import Metrics
from runtime.actors.node import Node
from runtime.cluster.launcher import Launched, Launcher, LaunchPlan
from runtime.cluster.lifecycle import FIRST, Hello, Ready, agent_of
from runtime.cluster.supervision import Liveness
from runtime.cluster.supervisor import Supervisor
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

MACHINES = 16  # and so many workers on each
EACH = 2
START_BAR = 10.0  # seconds; the second of one core
THOUSAND_BAR = 5.0
PRESETS = ("sync", "firecaffe")
PACKAGES = ("runtime", "roles", "nets", "ops")
TRAIN = """[train]
solver = "lenet_digits_solver"
batch = {batch}
[train.strategy]
preset = "{preset}"
workers = {workers}
"""
FAR = (
    '[[machine]]\nname = "m{number}"\naddress = "{address}"\nthreads = 1\ncores = '
    '{each}\npython = "{python}"\n'
)
SSH = """#!/bin/sh
while [ "$1" != "--" ]; do shift; done
host=$2; shift 2
exec ip netns exec {prefix}${{host#m}} sh -c "$*"
"""
THOUSAND = """[[machine]]
hosts = "node[0001-1000]"
address = "127.0.0.1"
cores = 8
[links]
transport = "tcp"
"""


def start(record: Record, turns: int) -> None:
    """Seconds from `up` to the first iteration, judged by their median."""
    record.facts["cluster"] = (
        f"{MACHINES} machines, LeNet, firecaffe, {MACHINES * EACH} workers, links encrypted"
    )
    record.facts["agents"] = (
        "started by `ip netns exec` in place of ssh: what a login takes is not in the figures"
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
    )  # as pip does
    with machines(MACHINES, 10**9) as made:
        taken = [_started(record, turn, made) for turn in range(1, turns + 1)]
    text = f"`up` to the first iteration: {median(taken):.2f} s, at most {START_BAR:g}"
    if median(taken) > START_BAR:
        record.fail(f"MISSED {text}")
    else:
        record.note(text)


def _started(record: Record, turn: int, made: Sequence[Machine]) -> float:
    """One run: a row, and its seconds. Failed if something of it is left."""
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
    """The environment, in which Python keeps what it has compiled: where that is forbidden, and
    nothing is compiled yet, each of the processes compiles all modules anew."""
    return {
        name: value for name, value in environment().items() if name != "PYTHONDONTWRITEBYTECODE"
    }


def cluster(folder: Path, made: Sequence[Machine]) -> Path:
    """The cluster.toml, and in `bin` what is in place of ssh."""
    script = folder / "bin" / "ssh"
    script.parent.mkdir()
    script.write_text(SSH.format(prefix=made[0].namespace[:-1]))
    script.chmod(0o755)
    settings = (
        f'directory = "{folder}"\nenvironment = {{ PYTHONPATH = '
        f'"{environment()["PYTHONPATH"]}" }}\n'
    )
    tables = "".join(
        FAR.format(number=number, address=at.address, each=EACH, python=sys.executable) + settings
        for number, at in enumerate(made)
    )
    workers = EACH * len(made)
    path = folder / "cluster.toml"
    train = TRAIN.format(batch=4 * workers, preset="firecaffe", workers=workers)
    path.write_text(f'{tables}[launcher]\nkind = "ssh"\n{train}')
    return path


def living(made: Sequence[Machine]) -> list[str]:
    """The processes on the machines."""
    asked = (["ip", "netns", "pids", at.namespace] for at in made)
    return [
        pid
        for words in asked
        for pid in subprocess.run(words, capture_output=True, text=True, check=True).stdout.split()
    ]


class Road(Transport):
    """Encodes what is sent, and delivers nothing."""

    sent = 0

    async def open(self) -> Endpoints:
        """Nowhere."""
        return Endpoints()

    def connect(self, peer: str, endpoints: Endpoints) -> None:
        """Everybody is reached."""

    def disconnect(self, peer: str, why: str) -> None:
        """Nobody is held."""

    async def send(self, peer: str, envelope: Envelope) -> None:
        """As far as the bytes."""
        encode(envelope)
        self.sent += 1

    async def close(self) -> None:
        """Nothing is queued."""

    def queued_bytes(self) -> dict[str, int]:
        """Of nobody."""
        return {}


class Nobody(Launcher):
    """Starts nothing."""

    async def open(self, machine: Place) -> None:
        """It is there."""

    async def launch(self, spec: ProcessSpec, incarnation: int) -> Launched:
        """Nobody asks for it."""
        raise NotImplementedError

    async def close(self) -> None:
        """Nothing was started."""


@dataclass(frozen=True)
class Begun:
    """A run over a thousand machines that has begun: seconds of one core until it was planned, was
    placed and written, and all had been told; how many messages went out."""

    placement: Placement
    planned: float
    placed: float
    told: float
    messages: int

    @property
    def seconds(self) -> float:
        """All of them."""
        return self.planned + self.placed + self.told


async def begin(folder: Path, preset: str) -> Begun:
    """Plan a run over a thousand machines with two workers each, and say all that its start
    says."""
    (folder / "cluster.toml").write_text(
        THOUSAND + TRAIN.format(batch=2000, preset=preset, workers=2000)
    )
    identity("roles")  # every process has asked for it before
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
    """The supervisor's part from the first Hello to the last Begin; how many messages it sent."""
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
        supervisor.admit(envelope)
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
    """Seconds of one core until a thousand machines have begun, the least of some turns, judged."""
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
