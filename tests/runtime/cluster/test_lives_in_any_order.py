"""Lives of a process in any order of events, compared with a small model: joins, crashes, restarts,
zombies, credits, asks.
"""

from __future__ import annotations

import asyncio
import os
from itertools import pairwise

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from runtime.actors.actor import Actor
from runtime.actors.metrics import Metrics
from runtime.actors.node import Node
from runtime.compute.compute import InlineCompute
from runtime.errors import ActorStopped
from runtime.messages.message import Envelope, Message, message
from runtime.simulation.clock import VirtualTimeLoop
from runtime.transport import Endpoints, Limits
from runtime.transport.inproc import InprocNetwork, InprocTransport
from tests.helpers.faults import Faults, Shares

EXAMPLES = int(os.environ.get("CONVOY_EXAMPLES", "200"))
WINDOW = 2000  # bytes of credits: about ten messages
LIMITS = Limits(credit_bytes=WINDOW, message_bytes=1 << 20, control_credit_bytes=WINDOW)
FAULTS = Shares(drop=0.05, duplicate=0.1, reorder=0.1, delay=0.1)
LATENCY = 0.01


@message
class Said(Message):
    number: int


@message
class Asked(Message):
    number: int


@message
class Answered(Message):
    number: int
    life: int


class Client(Actor):
    """Keeps the messages of servers."""

    def __init__(self) -> None:
        self.heard: list[tuple[int, int]] = []  # (life, number)

    async def on_said(self, said: Said, envelope: Envelope) -> None:
        self.heard.append((envelope.incarnation, said.number))


class Server(Actor):
    """Keeps numbers. While it is held it handles nothing, and the messages in its inbox keep their
    credits.
    """

    def __init__(self, life: int) -> None:
        self.life = life
        self.seen = list[int]()
        self.open = asyncio.Event()
        self.open.set()

    async def on_said(self, said: Said, envelope: Envelope) -> None:
        await self.open.wait()
        self.seen.append(said.number)

    async def on_asked(self, said: Asked, envelope: Envelope) -> None:
        await self.open.wait()
        self.seen.append(said.number)
        await self.reply(envelope, Answered(number=said.number, life=self.life))


class Process:
    """One life of a process; each life has its own address, as with sockets."""

    def __init__(self, network: InprocNetwork, name: str, life: int, actor: Actor) -> None:
        self.process = f"{name}-{life}"
        self.node = Node(self.process, life, InlineCompute(), Metrics())
        faults = Faults(self.node.deliver, FAULTS, seed=life)
        self.road = InprocTransport(self.process, faults, self.node.reject, LIMITS, network)
        self.name = name
        self.life = life
        self.actor = actor
        self.node.add(name, name, actor)

    def link(self, other: Process) -> None:
        self.node.connect(other.process, other.life, Endpoints(), [other.name], self.road)

    async def stop(self) -> None:
        await self.node.stop()
        await self.road.close()


class Lives(RuleBasedStateMachine):
    """A client, and the lives of a server. The model is the life to which the client is linked, and
    the messages sent to each life.
    """

    def __init__(self) -> None:
        super().__init__()
        self.loop = VirtualTimeLoop()
        self.network = InprocNetwork(latency=LATENCY)
        # life, number, the task that sends it
        self.tasks: list[tuple[int, int, asyncio.Task[None] | asyncio.Task[Answered]]] = []
        self.number = 0
        self.asked = set[int]()
        self.client = self.loop.run_until_complete(self._made("client", 1))
        self.lives: list[Process] = []
        self.linked = 0  # the life to which the client is linked, or 0
        self.alive = False  # whether the last life has not crashed
        # number -> the life that sent it; 0 if the client was not linked to that life
        self.spoke: dict[int, int] = {}

    async def _made(self, name: str, life: int) -> Process:
        made = Process(self.network, name, life, Server(life) if name == "server" else Client())
        await made.road.open()
        made.node.begin([name])
        return made

    @property
    def server(self) -> Server:
        actor = self.lives[-1].actor
        assert isinstance(actor, Server)
        return actor

    def turn(self, seconds: float = 0.0) -> None:
        self.loop.run_until_complete(asyncio.sleep(seconds))

    @precondition(lambda self: not self.alive)
    @rule()
    def a_life_begins_and_the_client_is_told(self) -> None:
        born = self.loop.run_until_complete(self._made("server", len(self.lives) + 1))
        self.lives.append(born)
        born.link(self.client)
        # an agent does this when it learns of a new life
        self.client.node.lost(f"server-{self.linked}")
        self.client.link(born)
        self.alive = True
        self.linked = born.life

    @precondition(lambda self: self.alive)
    @rule()
    def it_is_killed(self) -> None:
        """Kill the last life: it gets no more messages, but those that it has sent are still on
        their way.
        """
        self.network.members.pop(self.lives[-1].process)
        self.alive = False

    @precondition(lambda self: not self.alive and self.linked)
    @rule()
    def the_client_is_told_that_it_is_lost(self) -> None:
        self.client.node.lost(f"server-{self.linked}")
        self.linked = 0
        self.turn()

    @rule(asks=st.booleans())
    def the_client_says_something(self, asks: bool) -> None:
        self.number += 1
        number = self.number
        actor = self.client.actor
        if asks:
            self.asked.add(number)
            task: asyncio.Task[None] | asyncio.Task[Answered] = self.loop.create_task(
                actor.ask("server", Asked(number=number), Answered)
            )
        else:
            task = self.loop.create_task(actor.tell("server", Said(number=number)))
        self.tasks.append((self.linked, number, task))
        self.turn()

    @precondition(lambda self: self.lives)
    @rule(data=st.data())
    def a_life_says_something_perhaps_a_former_one(self, data: st.DataObject) -> None:
        life = data.draw(st.sampled_from(self.lives))
        self.number += 1
        self.spoke[self.number] = life.life if life.life == self.linked else 0
        task = self.loop.create_task(life.node.send("server", "client", Said(number=self.number)))
        self.turn()
        if not task.done():  # without credits it waits for ever, as a zombie does
            task.cancel()
            self.turn()

    @precondition(lambda self: self.alive)
    @rule()
    def the_server_is_held_or_goes_on(self) -> None:
        if self.server.open.is_set():
            self.server.open.clear()
        else:
            self.server.open.set()
        self.turn()

    @rule(latencies=st.integers(1, 8))
    def time_passes(self, latencies: int) -> None:
        self.turn(latencies * LATENCY / 2)

    @invariant()
    def every_life_sees_what_was_sent_to_it_at_most_once_and_in_order(self) -> None:
        sent_to = {number: life for life, number, _ in self.tasks}
        for life in self.lives:
            seen = life.actor.seen if isinstance(life.actor, Server) else []
            assert all(one < other for one, other in pairwise(seen)), f"life {life.life} saw {seen}"
            assert all(sent_to[number] == life.life for number in seen), (
                f"life {life.life} saw a message of another life"
            )

    @invariant()
    def only_the_life_that_is_linked_is_heard_and_each_word_once(self) -> None:
        heard = self.client.actor.heard if isinstance(self.client.actor, Client) else []
        assert all(self.spoke[number] == life for life, number in heard)
        assert all(one[0] <= other[0] for one, other in pairwise(heard)), (
            "a message of a former life came after one of a later life"
        )
        assert all(one < other for one, other in pairwise(number for _, number in heard))

    @invariant()
    def credits_are_never_negative_nor_more_than_the_window_and_a_message(self) -> None:
        for process in (self.client, *self.lives):
            for peer, size in process.road.queued_bytes().items():
                assert 0 <= size <= WINDOW + 500, (
                    f"{process.name} has {size} bytes under way to {peer}"
                )

    def teardown(self) -> None:
        """Check that every ask ends: with an answer of the life that was asked, or with an
        error.
        """
        if self.alive:
            self.server.open.set()
        self.turn(10.0)
        waiting = [
            number
            for life, number, task in self.tasks
            if not task.done() and number not in self.asked
        ]
        assert not (self.alive and waiting), (
            f"{waiting} wait for credits, although all messages were read"
        )
        self.client.node.lost(f"server-{self.linked}")
        self.turn()
        for life, number, task in self.tasks:
            assert task.done(), f"{number}, sent to life {life}, still waits"
            error = task.exception()
            assert error is None or isinstance(error, ActorStopped), repr(error)
            if error is None and isinstance(found := task.result(), Answered):
                assert (found.number, found.life) == (number, life)
        assert "0 asks open" in repr(self.client.node)
        for process in (*self.lives, self.client):
            self.loop.run_until_complete(process.stop())
        self.loop.close()


TestLives = Lives.TestCase
TestLives.settings = settings(max_examples=EXAMPLES, stateful_step_count=40, deadline=None)
TestLives.pytestmark = [pytest.mark.timeout(120 + EXAMPLES // 5)]
