"""The second life of a process: its peers link it again, and messages of its first life are
refused. And the addresses of near and far peers.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from runtime.actors.actor import Actor
from runtime.actors.metrics import Metrics
from runtime.actors.node import Node
from runtime.cluster.agent import Agent
from runtime.cluster.lifecycle import Begin, Directory, Hello, Ready, agent_of
from runtime.compute.compute import InlineCompute
from runtime.errors import LaunchError
from runtime.messages.message import Envelope, Save
from runtime.plan.topology import SUPERVISOR
from runtime.tracing.tracer import Tracer
from runtime.transport import Endpoints, Limits
from runtime.transport.sockets import SocketTransport
from tests.helpers.node_pair import Answer, Question, Server, rejected
from tests.helpers.ports import free_ports


class Chief(Actor):
    """Stands in for the supervisor and keeps the messages that it gets."""

    def __init__(self) -> None:
        self.heard: list[Any] = []
        self.greeted = asyncio.Event()

    async def on_hello(self, message: Hello, envelope: Envelope) -> None:
        self.heard.append(message)
        self.greeted.set()

    async def on_ready(self, message: Ready, envelope: Envelope) -> None:
        self.heard.append(message)


class Process:
    """One life of a process: a node, its sockets and its actor."""

    def __init__(self, folder: Path, name: str, actor: Actor, life: int = 1) -> None:
        self.node = Node(name, life, InlineCompute(), Metrics())
        self.name = name
        self.life = life
        self.actor = actor
        self.road = SocketTransport(
            name, self.node.deliver, self.node.reject, Limits(), incarnation=life,
            bind=lambda lane: (f"unix://{folder}/{name}-{life}.{lane}",),
        )  # fmt: skip

    async def open(self, actor: str) -> None:
        self.endpoints = await self.road.open()
        self.node.add(actor, actor, self.actor)

    def entry(self, *actors: str) -> dict[str, Any]:
        """The entry of this process in a Directory."""
        return {**asdict(self.endpoints), "incarnation": self.life, "actors": list(actors)}

    def link(self, other: Process, *actors: str) -> None:
        self.node.connect(other.name, other.life, other.endpoints, actors, self.road)

    async def close(self) -> None:
        await self.node.stop()
        await self.road.close()


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[Process]:
    made = Process(tmp_path, "client", Actor())
    await made.open("asker")
    yield made
    await made.close()


@pytest.fixture
async def chief(tmp_path: Path) -> AsyncIterator[Process]:
    made = Process(tmp_path, SUPERVISOR, Chief())
    await made.open(SUPERVISOR)
    made.node.begin([SUPERVISOR])
    yield made
    await made.close()


def untraced(number: int) -> Tracer:
    raise AssertionError("no test here traces")


def agent_in(client: Process, dial: Callable[[], None] = lambda: None) -> Agent:
    agent = Agent(
        client.node,
        client.road,
        client.endpoints,
        actors=("asker",),
        metrics=("127.0.0.1", 0),
        heartbeat_seconds=60,
        versions={},
        tracer=untraced,
        dial=dial,
    )
    client.node.add(agent_of("client"), "agent", agent)
    return agent


async def test_a_second_life_replaces_the_first_and_messages_of_the_first_are_refused(
    tmp_path: Path, client: Process, chief: Process
) -> None:
    agent = agent_in(client)
    client.link(chief, SUPERVISOR)
    chief.link(client, agent_of("client"), "asker")
    envelope = Envelope(Begin(), 1, SUPERVISOR, 1, agent_of("client"))
    lives = [Process(tmp_path, "server", Server(), life) for life in (1, 2)]
    for life in lives:
        await life.open("server")
        life.link(client, "asker")
        life.node.begin(["server"])
        await agent.on_directory(Directory(peers={"server": life.entry("server")}), envelope)
        if life.life == 1:
            await agent.on_begin(Begin(), envelope)
        answer = await client.actor.ask("server", Question(number=life.life), Answer, timeout=60)
        assert answer.number == 2 * life.life
    assert [life.actor.seen for life in lives if isinstance(life.actor, Server)] == [[1], [2]]
    for life in lives:
        await life.node.send("server", "asker", Save())
    asker = client.node.actors["asker"]
    while not asker.handled or not rejected(client.node, "unknown_sender"):
        await client.actor.ask("server", Question(number=3), Answer, timeout=60)
    assert (asker.handled, rejected(client.node, "unknown_sender")) == (1, 1)
    late = Directory(peers={"server": lives[0].entry("server")})
    await agent.on_directory(late, envelope)
    assert (await client.actor.ask("server", Question(number=4), Answer, timeout=60)).number == 8
    assert isinstance(chief.actor, Chief)
    # the process prepared only once
    assert [type(message).__name__ for message in chief.actor.heard] == ["Ready"]
    for life in lives:
        await life.close()


async def test_a_process_prepares_when_it_has_learnt_of_all_its_peers(
    client: Process, chief: Process
) -> None:
    agent = agent_in(client)
    client.link(chief, SUPERVISOR)
    chief.link(client, agent_of("client"))
    prepared: list[str] = []

    async def on_start() -> None:
        prepared.append("asker")

    client.actor.on_start = on_start  # type: ignore[method-assign]
    envelope = Envelope(Begin(), 1, SUPERVISOR, 1, agent_of("client"))
    await agent.on_directory(Directory(peers={}, more=True), envelope)
    assert prepared == []
    await agent.on_directory(Directory(peers={}), envelope)
    assert prepared == ["asker"]


@pytest.fixture
def two_ports() -> Iterator[int]:
    with free_ports(2) as first:
        yield first


@pytest.mark.parametrize("scheme", ["unix", "tcp"])
async def test_a_process_that_does_not_reach_the_supervisor_greets_it_again_until_it_does(
    tmp_path: Path, two_ports: int, scheme: str
) -> None:
    places = {
        lane: f"tcp://127.0.0.1:{two_ports + number}"
        for number, lane in enumerate(("control", "bulk"))
    }
    client = Process(tmp_path, "client", Actor())
    chief = Process(tmp_path, SUPERVISOR, Chief())
    if scheme == "unix":
        places = {lane: f"unix://{tmp_path}/late.{lane}" for lane in places}
    chief.road = SocketTransport(
        SUPERVISOR,
        chief.node.deliver,
        chief.node.reject,
        Limits(),
        incarnation=1,
        bind=lambda lane: (places[lane],),
    )
    await client.open("asker")
    dialled = asyncio.Event()

    def dial() -> None:
        client.node.connect(
            SUPERVISOR,
            1,
            Endpoints((places["control"],), (places["bulk"],)),
            [SUPERVISOR],
            client.road,
        )
        dialled.set()

    dial()
    dialled.clear()
    agent_in(client, dial)
    await client.node.prepare([agent_of("client")])
    client.node.begin([agent_of("client")])
    await asyncio.wait_for(dialled.wait(), 60)  # the process has dialled in vain, and once more
    await chief.open(SUPERVISOR)
    chief.node.begin([SUPERVISOR])
    chief.node.know(agent_of("client"), "client", 1, chief.road)
    assert isinstance(chief.actor, Chief)
    await asyncio.wait_for(chief.actor.greeted.wait(), 60)
    assert [type(message) for message in chief.actor.heard] == [Hello]
    for process in (client, chief):
        await process.close()


@pytest.mark.parametrize(
    ("addresses", "near", "far"),
    [
        (("unix:///a", "tcp://h:1"), "unix:///a", "tcp://h:1"),
        (("tcp://h:1", "tcp://g:1"), "tcp://h:1", "tcp://h:1"),
        (("ipc:///a",), "ipc:///a", "ipc:///a"),
        ((), "", ""),
    ],
)
def test_a_peer_is_reached_by_files_on_its_own_host_and_over_the_network_from_others(
    addresses: tuple[str, ...], near: str, far: str
) -> None:
    assert tuple(
        Endpoints(control=addresses).reached_at("control", near) for near in (True, False)
    ) == (near, far)


async def test_a_peer_of_another_host_is_reached_over_tcp_and_one_of_this_host_over_a_file(
    tmp_path: Path,
) -> None:
    here = Process(tmp_path, "here", Actor())
    there = Process(tmp_path, "there", Server())
    addresses = {
        lane: (f"unix://{tmp_path}/both.{lane}", "tcp://127.0.0.1:*")
        for lane in ("control", "bulk")
    }
    there.road = SocketTransport(
        "there",
        there.node.deliver,
        there.node.reject,
        Limits(),
        incarnation=1,
        bind=addresses.__getitem__,
    )
    await here.open("asker")
    await there.open("server")
    there.link(here, "asker")
    there.node.begin(["server"])
    assert [len(there.endpoints.control), len(there.endpoints.bulk)] == [2, 2]
    near = there.endpoints
    assert near.host == here.endpoints.host
    deaf = ("unix:///nowhere", *near.control[1:]), ("unix:///nowhere", *near.bulk[1:])
    far = Endpoints(*deaf, host="another")
    for where in (replace(near, control=near.control[:1], bulk=near.bulk[:1]), far):
        here.node.connect("there", 1, where, ["server"], here.road)
        assert (await here.actor.ask("server", Question(number=4), Answer, timeout=60)).number == 8
    assert Endpoints.of(asdict(near)) == near
    with pytest.raises(
        LaunchError, match=("process 'here' cannot reach 'there', which listens nowhere")
    ):
        here.road.connect("there", Endpoints())
    for process in (here, there):
        await process.close()
