"""A thousand machines with two processes each: what `up` computes until they begin, without the machines."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest

import roles
from runtime.actors.metrics import Metrics
from runtime.actors.node import Node
from runtime.cluster.launcher import Launched, Launcher, LaunchPlan
from runtime.cluster.lifecycle import FIRST, Hello, Ready, agent_of
from runtime.cluster.supervision import Liveness
from runtime.cluster.supervisor import Supervisor
from runtime.compute.compute import InlineCompute
from runtime.config.file import load_with_program
from runtime.config.sections import Machine
from runtime.machine.versions import identity
from runtime.messages.message import Envelope
from runtime.messages.wire import decode, encode
from runtime.plan.placement import idle, place
from runtime.plan.program import checked
from runtime.plan.run_plan import RunPlan
from runtime.plan.topology import SUPERVISOR, Placement, ProcessSpec
from runtime.runs.house import Watchers
from runtime.transport import Endpoints, Limits, Transport

LIMIT = 5.0  # seconds of one core, promised
CLUSTER = """
[[machine]]
hosts = "node[0001-1000]"
address = "127.0.0.1"
cores = 8
[links]
transport = "tcp"
[train]
solver = "lenet_digits_solver"
batch = 2000
[train.strategy]
workers = 2000
"""


class Road(Transport):
    """Encodes what is sent, and delivers nothing."""

    sent = 0

    async def open(self) -> Endpoints:
        return Endpoints()

    def connect(self, peer: str, endpoints: Endpoints) -> None:
        """Everybody is reached."""

    def disconnect(self, peer: str, why: str) -> None:
        """Nobody is held."""

    async def send(self, peer: str, envelope: Envelope) -> None:
        encode(envelope)
        self.sent += 1

    async def close(self) -> None:
        """Nothing is queued."""

    def queued_bytes(self) -> dict[str, int]:
        return {}


class Nobody(Launcher):
    """Starts nothing."""

    async def open(self, machine: Machine) -> None: ...
    async def launch(self, spec: ProcessSpec, incarnation: int) -> Launched:
        raise NotImplementedError(signal.SIGKILL)

    async def close(self) -> None: ...


async def start_messages(placement: Placement) -> int:
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
            process=spec.name, incarnation=FIRST, pid=number, host_name=spec.machine, control=address, bulk=address,
            arena="", host=spec.machine, metrics_address="127.0.0.1", metrics_port=1, versions=versions,
        )  # fmt: skip
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


@pytest.mark.slow
@pytest.mark.parametrize("preset", ["sync", "firecaffe"])
async def test_planning_placing_and_starting_a_thousand_machines_takes_less_than_five_seconds_of_a_core(
    tmp_path: Path, preset: str
) -> None:
    (tmp_path / "cluster.toml").write_text(CLUSTER)
    identity("roles")  # every process has asked for it before
    began = time.process_time()
    loaded = load_with_program(tmp_path / "cluster.toml", [f"train.strategy.preset={preset}"])
    placement = place(checked(roles.plan(loaded.config, loaded.options)), loaded.config)
    assert idle(placement, loaded.config) == []
    addresses = {machine.name: machine.address for machine in loaded.config.machine}
    plan = RunPlan(
        placement, (), Endpoints(("unix:///x",), ()), Limits(), 0.25, "tcp", "/tmp", addresses, "127.0.0.1", False
    )
    plan.write(tmp_path)
    sent = await start_messages(placement)
    seconds = time.process_time() - began
    assert sent > 2 * len(placement.processes)  # a Directory and a Begin each, and more for who has thousands of peers
    assert len({spec.machine for spec in placement.processes}) == 1000
    assert RunPlan.read(tmp_path).placement.processes == placement.processes
    assert seconds < LIMIT
