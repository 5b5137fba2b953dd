"""A greeting that arrives after its process has ended: an error, unless the run is over already."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.hosts.starts import Nobody, Road
from runtime.actors.metrics import Metrics
from runtime.actors.node import Node
from runtime.cluster.launcher import LaunchPlan
from runtime.cluster.lifecycle import FIRST, Hello, agent_of
from runtime.cluster.supervising.supervision import Liveness
from runtime.cluster.supervising.supervisor import Supervisor
from runtime.compute.compute import InlineCompute
from runtime.errors import LaunchError, MessageError
from runtime.messages.message import Envelope
from runtime.plan.topology import SUPERVISOR, ActorSpec, Placement, ProcessSpec, Topology
from runtime.runs.execution import Watchers
from runtime.transport import Limits


async def test_a_greeting_of_a_process_that_has_ended_is_an_error_only_while_the_run_goes_on() -> (
    None
):
    node = Node(SUPERVISOR, FIRST, InlineCompute(), Metrics())
    road = Road(SUPERVISOR, node.deliver, node.reject, Limits())
    spec = ProcessSpec("p", "local", ("a",), 1, 0)
    placement = Placement(Topology("roles", (ActorSpec("a", "role"),), (), "a"), (spec,))
    supervisor = Supervisor(
        node, road, placement, Nobody(LaunchPlan(Path(), "roles", ())), Liveness(), Watchers()
    )
    supervisor.supervised_run.supervision.note("p", "exit", supervisor.now())
    hello = Hello(
        process="p",
        incarnation=FIRST,
        pid=1,
        host_name="h",
        control=(),
        bulk=(),
        arena="",
        host="h",
        metrics_address="",
        metrics_port=0,
        versions={},
    )
    envelope = Envelope(hello, 1, agent_of("p"), FIRST, SUPERVISOR)
    with pytest.raises(MessageError, match="'hello' of process 'p', which is gone"):
        await supervisor.on_hello(hello, envelope)
    supervisor.outcome.set_result(LaunchError("no space"))
    await supervisor.on_hello(hello, envelope)
    assert supervisor.roll.greetings == {}
    await node.stop()
