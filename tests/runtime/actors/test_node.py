"""Nodes: tell, ask and reply; where errors go; messages that are rejected and counted; the end."""

from __future__ import annotations

import asyncio
import logging
import weakref
from typing import Any

import numpy as np
import pytest

from runtime.actors.actor import Actor
from runtime.errors import ActorStopped, AskTimeout, MessageError, Refused, Unsendable
from runtime.messages.message import Envelope, Save, WindDown
from runtime.transport import Endpoints
from tests.helpers.node_pair import Answer, Asker, Bulk, Pair, Question, on_virtual_time, rejected

# -- tell, ask, reply


async def test_an_ask_brings_the_answer_and_a_tell_only_arrives(pair: Pair) -> None:
    assert (await pair.asker.ask("server", Question(number=21), Answer)).number == 42
    await pair.asker.tell("server", Question(number=5))
    await pair.settled()
    assert pair.server.seen == [21, 5, 0]
    assert rejected(pair.p, "unasked") == 0  # a tell gets no reply
    assert repr(pair.p) == "<node p.1: 1 actors, <router: 1 actors known, 0 asks open>>"


async def test_handlers_run_one_at_a_time_in_the_order_of_arrival(pair: Pair) -> None:
    for number in range(1, 50):
        await pair.asker.tell("server", Question(number=number))
    answers = await asyncio.gather(
        *(pair.asker.ask("server", Question(number=number), Answer) for number in range(50, 60))
    )
    assert pair.server.seen == list(range(1, 60))
    assert [answer.number for answer in answers] == [2 * number for number in range(50, 60)]


async def test_a_reply_may_come_later_from_outside_the_handler_while_others_are_answered(
    pair: Pair,
) -> None:
    late = asyncio.create_task(pair.asker.ask("server", Question(number=-3), Answer, step=7))
    await pair.settled()
    assert not late.done()
    assert pair.server.kept[0].step == 7
    await pair.server.reply(pair.server.kept[0], Answer(number=1))
    assert (await late).number == 1


async def test_actors_of_one_process_talk_through_the_same_checks(pair: Pair) -> None:
    second = Asker()
    pair.q.add("second", "client", second)
    pair.q.connect("q", 1, Endpoints(), ["server", "second"], pair.road_q)
    assert (await second.ask("server", Question(number=4), Answer)).number == 8


# -- where errors go


async def test_an_error_in_a_handler_goes_to_the_asker_and_the_actor_lives_on(pair: Pair) -> None:
    with pytest.raises(
        Refused,
        match=(
            r"server refused Question\(number=-1\) of asker: \S+\.py:\d+, in \w+: ValueError: no such number"
        ),
    ):
        await pair.asker.ask("server", Question(number=-1), Answer)
    assert (await pair.asker.ask("server", Question(number=1), Answer)).number == 2
    assert pair.failures == []


async def test_an_error_after_a_tell_is_the_actors_failure_and_is_reported_with_its_name(
    pair: Pair,
) -> None:
    await pair.asker.tell("server", Question(number=-1))
    await asyncio.wait(pair.q.actors["server"].tasks)
    ((name, error),) = pair.failures
    assert (name, str(error)) == ("server", "no such number")


async def test_a_message_that_the_handler_finds_illegal_is_counted_and_harmless(pair: Pair) -> None:
    await pair.asker.tell("server", Question(number=-2))
    with pytest.raises(Refused, match="bad_number: not legal here"):
        await pair.asker.ask("server", Question(number=-2), Answer)
    await pair.settled()
    assert rejected(pair.q, "bad_number") == 2
    assert pair.failures == []


async def test_an_answer_of_another_kind_is_an_error_for_the_asker(pair: Pair) -> None:
    with pytest.raises(MessageError, match=r"server answered .*Other.* expected Answer"):
        await pair.asker.ask("server", Question(number=-4), Answer)


async def test_asking_an_actor_without_a_link_is_an_error_and_leaves_no_ask_open(
    pair: Pair,
) -> None:
    with pytest.raises(ActorStopped, match="asker has no link to an actor called 'absent'"):
        await pair.asker.ask("absent", Question(number=1), Answer)
    with pytest.raises(ActorStopped, match="absent"):
        await pair.asker.tell("absent", Question(number=1))
    assert "0 asks open" in repr(pair.p)


def test_no_answer_in_time_is_an_error_and_an_answer_that_comes_too_late_is_counted() -> None:
    async def talk(pair: Pair) -> None:
        with pytest.raises(
            AskTimeout, match=(r"asker asked server Question\(number=-3\): no " r"answer in 5 s")
        ):
            await pair.asker.ask("server", Question(number=-3), Answer, timeout=5)
        assert pair.asker.now() == 5.0
        await pair.server.reply(pair.server.kept[0], Answer(number=1))
        await pair.settled()
        assert rejected(pair.p, "unasked") == 1
        assert "0 asks open" in repr(pair.p)

    on_virtual_time(talk)


# -- messages that are rejected and counted


@pytest.mark.parametrize(
    ("reason", "changes"),
    [
        ("unknown_receiver", {"receiver": "nobody"}),
        ("unknown_sender", {"sender": "stranger"}),
        ("unknown_sender", {"incarnation": 2}),
        ("unknown_sender", {"incarnation": 0}),
        ("not_understood", {"message": Answer(number=1)}),
        ("unasked", {"answers": 77}),
    ],
)
async def test_a_misdirected_message_is_counted_released_and_has_no_effect(
    pair: Pair, reason: str, changes: dict[str, Any]
) -> None:
    good = {
        "message": Question(number=1),
        "id": 1,
        "sender": "asker",
        "incarnation": 1,
        "receiver": "server",
    }
    released: list[int] = []
    pair.q.deliver(Envelope(**{**good, **changes}), 10, lambda: released.append(1))
    assert released == [1]
    assert rejected(pair.q, reason) == 1
    await pair.settled()
    assert pair.server.seen == [0]
    assert pair.failures == []


@pytest.mark.parametrize(("sender", "receiver"), [("other", "asker"), ("server", "second")])
async def test_only_the_actor_that_was_asked_can_answer_and_only_to_the_asker(
    pair: Pair, sender: str, receiver: str
) -> None:
    pair.p.connect("q", 1, Endpoints(), ["server", "other"], pair.road_p)
    pair.p.add("second", "client", Asker())
    asking = asyncio.create_task(pair.asker.ask("server", Question(number=-3), Answer))
    await pair.settled()
    asked = pair.server.kept[0].id
    pair.p.deliver(
        Envelope(Answer(number=6), 1, sender, 1, receiver, answers=asked), 10, lambda: None
    )
    assert rejected(pair.p, "unasked") == 1
    await pair.server.reply(pair.server.kept[0], Answer(number=7))
    assert (await asking).number == 7


async def test_a_message_of_a_process_that_has_gone_is_counted_and_is_no_warning(
    pair: Pair, caplog: pytest.LogCaptureFixture
) -> None:
    def deliver(sender: str, life: int) -> None:
        message = Envelope(Question(number=1), 1, sender, life, "server")
        pair.q.deliver(message, 10, lambda: None)

    pair.q.lost("p")
    with caplog.at_level(logging.WARNING):
        deliver("asker", 1)
        pair.q.connect("p", 2, Endpoints(), ["asker"], pair.road_q)
        deliver("asker", 1)
        assert caplog.records == []
        deliver("asker", 3)
        deliver("stranger", 1)
    assert rejected(pair.q, "unknown_sender") == 4
    assert len(caplog.records) == 2
    assert pair.server.seen == []


async def test_a_message_of_a_former_life_is_counted_after_its_sender_was_restarted(
    pair: Pair,
) -> None:
    pair.q.connect("p", 2, Endpoints(), ["asker"], pair.road_q)
    await pair.asker.tell("server", Question(number=1))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert rejected(pair.q, "unknown_sender") == 1
    assert pair.server.seen == []


async def test_a_second_answer_to_an_ask_is_an_error_where_it_is_given(pair: Pair) -> None:
    asking = asyncio.create_task(pair.asker.ask("server", Question(number=-3), Answer))
    await pair.settled()
    asked = pair.server.kept[0]
    await pair.server.reply(asked, Answer(number=1))
    with pytest.raises(Unsendable, match=r"server has already answered Question\(number=-3\) of "):
        await pair.server.reply(asked, Answer(number=2))
    assert (await asking).number == 1


async def test_a_second_answer_that_arrives_is_rejected(pair: Pair) -> None:
    asking = asyncio.create_task(pair.asker.ask("server", Question(number=-3), Answer))
    await pair.settled()
    asked = pair.server.kept[0].id
    for number in (1, 2):
        answer = Envelope(Answer(number=number), number, "server", 1, "asker", answers=asked)
        pair.p.deliver(answer, 10, lambda: None)
    assert (await asking).number == 1
    assert rejected(pair.p, "unasked") == 1


# -- the end


async def test_stopping_fails_the_open_asks_of_the_stopped_actor(pair: Pair) -> None:
    asking = asyncio.create_task(pair.asker.ask("server", Question(number=-3), Answer))
    await pair.settled()
    await pair.p.stop(["asker"])
    with pytest.raises(ActorStopped, match="asker is stopping"):
        await asking


async def test_a_stopped_actor_cannot_ask_any_more(pair: Pair) -> None:
    await pair.p.stop(["asker"])
    with pytest.raises(ActorStopped, match="asker has stopped"):
        await pair.asker.ask("server", Question(number=1), Answer)
    assert "0 asks open" in repr(pair.p)


async def test_stopping_calls_on_stop_once_even_if_another_actors_end_fails(pair: Pair) -> None:
    class Sore(Actor):
        async def on_stop(self) -> None:
            raise ValueError("sore")

    server = pair.q.actors.pop("server")
    pair.q.add("sore", "service", Sore())
    pair.q.actors["server"] = server  # the server now ends after the failing actor
    await pair.q.stop()
    await pair.q.stop()
    assert pair.server.stopped == 1
    assert pair.failures == []


def test_stopping_waits_only_so_long_for_an_actor_whose_end_hangs() -> None:
    class Endless(Actor):
        async def on_stop(self) -> None:
            await asyncio.Event().wait()

    async def talk(pair: Pair) -> None:
        pair.q.add("endless", "service", Endless())
        await pair.q.stop(["endless"])
        assert pair.asker.now() == 1.0

    on_virtual_time(talk)


async def test_unread_messages_of_a_stopped_actor_give_their_senders_the_credits_back(
    pair: Pair,
) -> None:
    pair.server.gate.clear()
    for _ in range(3):
        await pair.asker.tell("server", Question(number=1))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert pair.road_p.queued_bytes()["q"] > 0
    await pair.q.stop(["server"])
    assert pair.road_p.queued_bytes()["q"] == 0


async def test_the_end_of_the_leads_own_work_ends_the_run_once(pair: Pair) -> None:
    class Worker(Actor):
        async def run(self) -> None:
            await asyncio.sleep(0)

    for name in ("follower", "asker2"):
        pair.p.add(name, "client", Worker())
    pair.p.lead = "asker2"
    pair.p.begin(["follower"])
    await asyncio.gather(pair.p.actors["follower"].tasks[1])
    assert pair.ends == 0
    pair.p.begin(["asker2"])
    await asyncio.gather(pair.p.actors["asker2"].tasks[1])
    assert pair.ends == 1


async def test_a_lead_that_only_answers_does_not_end_the_run_until_it_is_wound_down(
    pair: Pair,
) -> None:
    assert pair.ends == 0
    pair.q.lead = "server"
    await pair.asker.tell("server", Save())
    await pair.asker.tell("server", WindDown(reason="enough"))
    await pair.settled()
    assert pair.ends == 1


async def test_an_error_in_an_actors_own_work_is_its_failure(pair: Pair) -> None:
    class Worker(Actor):
        async def run(self) -> None:
            raise KeyError("lost")

    pair.p.add("worker", "client", Worker())
    pair.p.begin(["worker"])
    await asyncio.wait([pair.p.actors["worker"].tasks[1]])
    ((name, error),) = pair.failures
    assert (name, type(error)) == ("worker", KeyError)


async def test_of_several_errors_of_an_actor_the_one_that_is_not_a_consequence_is_reported(
    pair: Pair,
) -> None:
    class Torn(Actor):
        async def run(self) -> None:
            async with asyncio.TaskGroup() as group:
                for error in (ActorStopped("a peer is gone"), KeyError("the reason")):
                    group.create_task(self._raise(error))

        async def _raise(self, error: Exception) -> None:
            raise error

    pair.p.add("torn", "client", Torn())
    pair.p.begin(["torn"])
    await asyncio.wait([pair.p.actors["torn"].tasks[1]])
    ((name, error),) = pair.failures
    assert (name, repr(error)) == ("torn", "KeyError('the reason')")


async def test_the_first_error_of_on_start_comes_through_prepare(pair: Pair) -> None:
    class Unready(Actor):
        async def on_start(self) -> None:
            raise OSError("no such data")

    pair.p.add("unready", "client", Unready())
    with pytest.raises(OSError, match="no such data"):
        await pair.p.prepare(["unready"])


def test_an_idle_actor_keeps_no_reference_to_the_message_it_handled_last() -> None:
    class Reader(Actor):
        async def on_bulk(self, said: Bulk, envelope: Envelope) -> None:
            await self.reply(envelope, Answer(number=said.blob.size))

    async def talk(pair: Pair) -> None:
        reader = Reader()
        pair.q.add("reader", "service", reader)
        pair.p.connect("q", 1, Endpoints(), ["reader"], pair.road_p)
        pair.q.know("asker", "p", 1, pair.road_q)
        pair.q.begin(["reader"])
        blob = np.zeros(1000)
        gone = weakref.ref(blob)
        await pair.asker.ask("reader", Bulk(blob=blob), Answer)
        del blob
        await asyncio.sleep(1)
        assert gone() is None

    on_virtual_time(talk)


# -- messages that a receiver would not understand


async def test_a_message_that_the_receiver_does_not_understand_fails_at_the_sender_and_is_not_sent(
    pair: Pair,
) -> None:
    pair.p.router.vocabulary = {"server": type(pair.server).handlers}
    expected = r"asker cannot send Answer\(number=1\) to server; server understands .*Question"
    with pytest.raises(MessageError, match=f"not_understood: {expected}"):
        await pair.asker.tell("server", Answer(number=1))
    with pytest.raises(MessageError, match=expected):
        await pair.asker.ask("server", Answer(number=1), Answer)
    await pair.settled()
    assert (pair.server.seen, rejected(pair.q, "not_understood")) == ([0], 0)
    assert (await pair.asker.ask("server", Question(number=1), Answer)).number == 2
    assert "0 asks open" in repr(pair.p)


async def test_a_handler_that_sends_a_message_its_receiver_does_not_understand_fails_by_its_own_name(
    pair: Pair,
) -> None:
    """The failure belongs to the handler's actor, not to the sender of the question."""
    pair.q.router.vocabulary = {"asker": type(pair.asker).handlers}
    await pair.asker.tell("server", Question(number=-5))
    await asyncio.wait(pair.q.actors["server"].tasks, return_when=asyncio.FIRST_COMPLETED)
    ((name, error),) = pair.failures
    assert name == "server"
    assert (
        "server cannot send Other(number=-5) to asker; asker understands GetWork, Save, WindDown"
    ) in str(error)
    assert rejected(pair.q, "not_understood") == 0
