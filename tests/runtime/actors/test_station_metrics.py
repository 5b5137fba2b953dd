"""The metrics of actors as stations of a queueing network, compared with numbers calculated by
hand, on virtual time.
"""

from __future__ import annotations

import asyncio
import re

import pytest

from runtime.actors.actor import Actor
from runtime.messages.message import Envelope
from tests.helpers.node_pair import Answer, Other, Pair, Question, on_virtual_time


class Slow(Actor):
    """Takes two seconds for a Question and five for an Other."""

    async def on_question(self, said: Question, envelope: Envelope) -> None:
        await asyncio.sleep(2)
        await self.reply(envelope, Answer(number=said.number))

    async def on_other(self, said: Other, envelope: Envelope) -> None:
        await asyncio.sleep(5)


def value(page: str, name: str, **labels: str) -> float:
    """The value of the one series of this name with these labels."""
    lines = [line for line in page.splitlines() if re.match(rf"{name}{{|{name} ", line)]
    (found,) = (
        line for line in lines if all(f'{key}="{value}"' in line for key, value in labels.items())
    )
    return float(found.rpartition(" ")[2])


def test_waiting_and_service_are_summed_by_kind_of_message() -> None:
    async def talk(pair: Pair) -> tuple[str, str]:
        pair.q.add("slow", "slow", Slow())
        pair.p.connect("q", 1, await pair.road_q.open(), ["server", "slow"], pair.road_p)
        pair.q.begin(["slow"])
        await asyncio.sleep(1)  # idle time is not service time
        for _ in range(2):
            await pair.asker.tell("slow", Question(number=1))
        await pair.asker.tell("slow", Other(number=1))
        await asyncio.sleep(1)
        busy = pair.q.metrics.text()
        await asyncio.sleep(20)
        await pair.asker.tell("slow", Question(number=1))
        await asyncio.sleep(20)
        return busy, pair.q.metrics.text()

    busy, page = on_virtual_time(talk)
    assert value(busy, "convoy_inbox_messages", actor="slow") == 2
    assert value(page, "convoy_inbox_messages", actor="slow") == 0
    question = {"actor": "slow", "kind": "tests.Question"}
    other = {"actor": "slow", "kind": "tests.Other"}
    assert value(page, "convoy_messages_handled_total", **question) == 3
    assert value(page, "convoy_handler_seconds_total", **question) == pytest.approx(6)
    # the second question waits for the first
    assert value(page, "convoy_inbox_seconds_total", **question) == pytest.approx(2)
    assert value(page, "convoy_messages_handled_total", **other) == 1
    assert value(page, "convoy_handler_seconds_total", **other) == pytest.approx(5)
    # behind both questions
    assert value(page, "convoy_inbox_seconds_total", **other) == pytest.approx(4)


def test_a_message_that_arrives_before_an_actor_begins_waits_until_then() -> None:
    async def talk(pair: Pair) -> str:
        pair.q.add("slow", "slow", Slow())
        pair.p.connect("q", 1, await pair.road_q.open(), ["server", "slow"], pair.road_p)
        await pair.asker.tell("slow", Question(number=1))
        await asyncio.sleep(3)
        pair.q.begin(["slow"])
        await asyncio.sleep(3)
        return pair.q.metrics.text()

    page = on_virtual_time(talk)
    question = {"actor": "slow", "kind": "tests.Question"}
    assert value(page, "convoy_inbox_seconds_total", **question) == pytest.approx(3)
    assert value(page, "convoy_handler_seconds_total", **question) == pytest.approx(2)
