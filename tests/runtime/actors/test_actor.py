"""Actors: their declaration, and their metrics, status, events and credits."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from runtime.actors.actor import Actor
from runtime.errors import MessageError
from runtime.messages.message import Envelope, GetWork, Message, Save, WindDown
from runtime.transport import Endpoints, Limits
from tests.helpers.node_pair import Answer, Bulk, Other, Pair, Question, on_virtual_time

# -- declaring actors


def test_a_handler_must_be_called_after_its_message() -> None:
    with pytest.raises(
        TypeError,
        match=(r"Wrong\.on_query: annotate its first parameter with " r"the message of that name"),
    ):

        class Wrong(Actor):
            async def on_query(self, said: Question, envelope: Envelope) -> None: ...


def test_a_handler_must_annotate_its_message() -> None:
    with pytest.raises(TypeError, match=r"Silent\.on_question"):

        class Silent(Actor):
            async def on_question(self, said, envelope): ...  # type: ignore[no-untyped-def]


def test_a_handler_with_another_number_of_parameters_is_refused_with_its_right_form() -> None:
    right = r"write `async def on_question\(self, message, envelope\)`$"
    with pytest.raises(
        TypeError,
        match=(
            r"^Short\.on_question: the runtime calls it as on_question\(message, envelope\): "
            rf"too many positional arguments; {right}"
        ),
    ):

        class Short(Actor):
            async def on_question(self, said: Question) -> None: ...

    with pytest.raises(TypeError, match=rf"missing a required argument: 'more'; {right}"):

        class Long(Actor):
            async def on_question(self, said: Question, envelope: Envelope, more: int) -> None: ...

    class Right(Actor):
        async def on_question(self, said: Question, *rest: Envelope, more: int = 0) -> None: ...

    assert Right.handlers[Question] == "on_question"


def test_a_handler_behind_a_decorator_that_passes_its_coroutine_on_is_legal() -> None:
    def logged(handler: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(handler)
        def inner(self: Actor, said: Message, envelope: Envelope) -> Any:
            return handler(self, said, envelope)

        return inner

    class Mine(Actor):
        @logged
        async def on_question(self, said: Question, envelope: Envelope) -> None: ...

    assert Mine.handlers[Question] == "on_question"


def test_a_handler_that_cannot_be_awaited_is_refused_with_its_right_form() -> None:
    wanted = r"Plain\.on_question: write `async def on_question\(self, message, envelope\)`$"
    with pytest.raises(TypeError, match=wanted):

        class Plain(Actor):
            def on_question(self, said: Question, envelope: Envelope) -> None: ...

    with pytest.raises(TypeError, match=r"Flag\.on_demand: write `async def on_demand\(self, "):

        class Flag(Actor):
            on_demand = True


def test_a_subclass_inherits_the_handlers_of_its_base_and_may_override_them() -> None:
    class Base(Actor):
        async def on_question(self, said: Question, envelope: Envelope) -> None: ...

    class Derived(Base):
        async def on_other(self, said: Other, envelope: Envelope) -> None: ...
        async def on_save(self, message: Save, envelope: Envelope) -> None: ...

    assert set(Derived.handlers) == {Question, Other, GetWork, Save, WindDown}
    assert set(Base.handlers) == {Question, GetWork, Save, WindDown}
    assert repr(Derived()) == "<Derived (not placed)>"


def test_an_actor_with_two_bases_has_the_handlers_of_both_in_either_order() -> None:
    class Asked(Actor):
        async def on_question(self, said: Question, envelope: Envelope) -> None: ...

    class Told(Actor):
        async def on_other(self, said: Other, envelope: Envelope) -> None: ...

    class First(Asked, Told): ...

    class Last(Told, Asked): ...

    assert set(First.handlers) == set(Last.handlers) == {Question, Other, GetWork, Save, WindDown}


# -- what an actor shows of its work


def test_phases_waits_and_counts_appear_in_the_metrics_with_their_owner() -> None:
    class Meter(Actor):
        async def on_start(self) -> None:
            self.counter("things", "Things.", colour="red").inc(3)
            self.gauge("level", "Level.").set(0.5)
            self.histogram("sizes", "Sizes.", (1, 10)).observe(5)

    async def talk(pair: Pair) -> str:
        pair.p.add("meter", "client", Meter())
        await pair.p.prepare(["meter"])
        with pair.asker.phase("forward"):
            await asyncio.sleep(2)
        asking = asyncio.create_task(pair.asker.ask("server", Question(number=-3), Answer))
        await asyncio.sleep(3)
        await pair.server.reply(pair.server.kept[0], Answer(number=1))
        await asking
        return pair.p.metrics.text()

    page = on_virtual_time(talk)
    for line in (
        'convoy_phase_duration_seconds_sum{actor="asker",phase="forward",role="client"} 2.0',
        'convoy_phase_duration_seconds_count{actor="asker",phase="forward",role="client"} 1.0',
        'convoy_wait_seconds_total{actor="asker",peer="server",role="client"} 3.0',
        'convoy_messages_sent_total{actor="asker",kind="tests.Question",role="client"} 1.0',
        'convoy_messages_received_total{actor="asker",kind="tests.Answer",role="client"} 1.0',
        'convoy_things_total{actor="meter",colour="red",role="client"} 3.0',
        'convoy_level{actor="meter",role="client"} 0.5',
        'convoy_sizes_bucket{actor="meter",le="10.0",role="client"} 1.0',
    ):
        assert line in page.splitlines()
    assert all(line.startswith(("#", "convoy_")) for line in page.splitlines())


def test_two_asks_at_once_are_both_waited_for_and_each_wait_is_counted() -> None:
    async def talk(pair: Pair) -> None:
        def waits() -> str:
            return str(pair.p.status()[0]["waiting_for"])

        asking = [
            asyncio.create_task(pair.asker.ask("server", Question(number=-3), Answer))
            for _ in range(2)
        ]
        await asyncio.sleep(2)
        assert waits() == "server"
        await pair.server.reply(pair.server.kept[1], Answer(number=1))
        await asking[1]
        assert waits() == "server"
        await asyncio.sleep(3)
        await pair.server.reply(pair.server.kept[0], Answer(number=1))
        await asking[0]
        assert waits() == ""
        page = pair.p.metrics.text()
        assert 'convoy_wait_seconds_total{actor="asker",peer="server",role="client"} 7.0' in page

    on_virtual_time(talk)


async def test_the_status_says_what_each_actor_does_and_which_actor_it_waits_for(
    pair: Pair,
) -> None:
    pair.server.gate.clear()
    asking = asyncio.create_task(pair.asker.ask("server", Question(number=1), Answer))
    await pair.asker.tell("server", Question(number=2))
    for _ in range(3):
        await asyncio.sleep(0)
    assert pair.p.status() == [
        {
            "actor": "asker",
            "role": "client",
            "doing": "idle",
            "waiting_for": "server",
            "blocked_by": ("", 0),
            "steps": 0,
            "waited": {},
            "handled": 0,
            "inbox": 0,
        }
    ]
    assert pair.q.status() == [
        {
            "actor": "server",
            "role": "service",
            "doing": "Question",
            "waiting_for": "",
            "blocked_by": ("", 0),
            "steps": 0,
            "waited": {},
            "handled": 0,
            "inbox": 1,
        }
    ]
    pair.server.gate.set()
    await asking
    await pair.settled()
    await asyncio.sleep(0)
    status = pair.q.status()[0]
    assert (status["doing"], status["handled"], status["inbox"]) == ("idle", 3, 0)


async def test_the_status_names_the_array_work_under_way(pair: Pair) -> None:
    seen = await pair.server.compute("conv1 forward", lambda: pair.q.status()[0]["doing"])
    assert seen == "conv1 forward"


async def test_an_event_goes_to_its_listener_with_the_name_of_its_actor(pair: Pair) -> None:
    pair.asker.emit("progress", iteration=3, loss=0.5)
    assert pair.events == [("asker", "progress", {"iteration": 3, "loss": 0.5})]


async def test_credits_are_given_back_when_a_handler_is_done_not_before() -> None:
    class Reader(Actor):
        def __init__(self) -> None:
            self.gate = asyncio.Event()

        async def on_bulk(self, said: Bulk, envelope: Envelope) -> None:
            await self.gate.wait()
            if not said.blob.size:
                raise MessageError("empty", "nothing in it")

    pair = Pair(limits=Limits(credit_bytes=10_000))
    reader = Reader()
    pair.q.add("reader", "service", reader)
    await pair.open()
    pair.p.connect("q", 1, Endpoints(), ["server", "reader"], pair.road_p)
    for size in (9000, 0):  # the second message is one that the handler finds illegal
        reader.gate.clear()
        await pair.asker.tell("reader", Bulk(blob=np.zeros(size, np.uint8)))
        await pair.settled()
        assert pair.road_p.queued_bytes()["q"] >= max(256, size)
        reader.gate.set()
        await pair.settled()
        assert pair.road_p.queued_bytes()["q"] == 0
    await pair.close()
