"""The loss of a process as its peers' actors see it, over every road: their asks end, and no
message of the lost process is accepted.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import pytest_asyncio
from roads import LIMITS, ROADS, Load, Nodes, Roads

from runtime.actors.actor import Actor
from runtime.errors import ActorStopped
from runtime.messages.message import Envelope, Message, message
from tests.helpers.faults import Shares


@message
class Question(Message):
    number: int


@message
class Answer(Message):
    number: int


class Client(Actor):
    """Counts the answers that it gets."""

    told = 0

    async def on_answer(self, said: Answer, envelope: Envelope) -> None:
        self.told += 1


class Server(Actor):
    """Never answers, and never finishes the handling of a load."""

    def __init__(self) -> None:
        self.kept: list[Envelope] = []
        self.asked = asyncio.Event()

    async def on_question(self, said: Question, envelope: Envelope) -> None:
        self.kept.append(envelope)
        self.asked.set()

    async def on_load(self, said: Load, envelope: Envelope) -> None:
        await asyncio.Event().wait()


class Linked(Nodes):
    def __init__(self, roads: Roads) -> None:
        self.client = Client()
        self.server = Server()
        super().__init__(roads, self.client, self.server)

    def full(self, number: int) -> Load:
        """A message that fills the whole credit window."""
        return Load(
            number=number, blobs=(self.roads.array("p", np.zeros(LIMITS.credit_bytes, np.uint8)),)
        )


@pytest_asyncio.fixture(params=ROADS)
async def linked(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Linked]:
    made = Linked(Roads(request.param, tmp_path, Shares()))
    await made.open()
    yield made
    await made.close()


async def test_an_open_ask_to_a_lost_process_ends_with_the_names_of_process_and_actor(
    linked: Linked,
) -> None:
    asked = asyncio.ensure_future(linked.client.ask("server", Question(number=1), Answer))
    await linked.server.asked.wait()
    linked.p.lost("q")
    with pytest.raises(ActorStopped, match="server will not answer client: its process q is gone"):
        await asked
    assert "0 asks open" in repr(linked.p)


async def test_senders_that_wait_for_credits_of_a_lost_process_get_an_error_and_so_do_later_ones(
    linked: Linked,
) -> None:
    await linked.client.tell("server", linked.full(1))
    held = [
        asyncio.ensure_future(linked.client.tell("server", linked.full(2))),
        asyncio.ensure_future(linked.client.ask("server", linked.full(3), Answer)),
    ]
    await asyncio.wait(held, timeout=0.02)
    linked.p.lost("q")
    for end in await asyncio.gather(*held, return_exceptions=True):
        assert isinstance(end, ActorStopped)
        assert str(end) == "client cannot send to server: process q is gone"
    with pytest.raises(ActorStopped, match="client has no link to an actor called 'server'"):
        await linked.client.tell("server", Question(number=4))


async def test_later_messages_of_a_lost_process_are_rejected(linked: Linked) -> None:
    linked.p.lost("q")
    linked.p.lost("q")  # a second report changes nothing
    await linked.server.tell("client", Answer(number=1))
    labels = {"role": "node", "reason": "unknown_sender"}
    counted = partial(
        linked.p.metrics.registry.get_sample_value, "convoy_messages_rejected_total", labels
    )
    while not counted():  # noqa: ASYNC110  # rejections raise no event
        await asyncio.sleep(0)
    assert linked.client.told == 0
