"""Actors and their node: tell, ask, reply; whose error goes where; what is refused and counted; the end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import numpy as np
import pytest
import pytest_asyncio

from runtime.actor import Actor
from runtime.clock import run_virtual
from runtime.compute import InlineCompute
from runtime.errors import ActorStopped, AskTimeout, MessageError, Refused
from runtime.messages import Array, Envelope, Message, Save, WindDown, message
from runtime.metrics import Metrics
from runtime.node import Node
from runtime.transport import Endpoints, Limits
from runtime.transport.inproc import InprocNetwork, InprocTransport


@message
class Question(Message):
    number: int


@message
class Answer(Message):
    number: int


@message
class Other(Message):
    number: int


@message
class Bulk(Message):
    blob: Array


class Asker(Actor):
    """Only asks; tests drive it."""


class Server(Actor):
    """Answers with the number, later, never, or with an error: as the number says."""

    def __init__(self) -> None:
        self.seen: list[int] = []
        self.kept: list[Envelope] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.inside = 0
        self.stopped = 0

    async def on_stop(self) -> None:
        self.stopped += 1

    async def on_question(self, said: Question, envelope: Envelope) -> None:
        self.inside += 1
        assert self.inside == 1, "two handlers at once"
        self.seen.append(said.number)
        await self.gate.wait()
        self.inside -= 1
        match said.number:
            case -1:
                raise ValueError("no such number")
            case -2:
                raise MessageError("bad_number", "not legal here")
            case -3:
                self.kept.append(envelope)
            case -4:
                await self.reply(envelope, Other(number=0))
            case number:
                await self.reply(envelope, Answer(number=2 * number))


class Pair:
    """Process p hosts `asker`, process q hosts `server`; what they report is kept."""

    def __init__(self, network: InprocNetwork | None = None, limits: Limits | None = None) -> None:
        self.failures: list[tuple[str, BaseException]] = []
        self.ends = 0
        self.events: list[tuple[str, str, dict[str, Any]]] = []
        network = network or InprocNetwork()
        self.p, self.road_p = self._node("p", network, limits or Limits())
        self.q, self.road_q = self._node("q", network, limits or Limits())
        self.asker, self.server = Asker(), Server()

    def _node(self, name: str, network: InprocNetwork, limits: Limits) -> tuple[Node, InprocTransport]:
        node = Node(name, 1, InlineCompute(), Metrics())
        node.lead = "asker"
        node.on_failure = lambda actor, error: self.failures.append((actor, error))
        node.on_event = lambda actor, event, fields: self.events.append((actor, event, fields))
        node.on_finished = self._ended
        return node, InprocTransport(name, node.deliver, node.reject, limits, network)

    def _ended(self) -> None:
        self.ends += 1

    async def open(self) -> None:
        for road in (self.road_p, self.road_q):
            await road.open()
        self.p.add("asker", "client", self.asker)
        self.q.add("server", "service", self.server)
        self.p.connect("q", 1, Endpoints("", ""), ["server"], self.road_p)
        self.q.connect("p", 1, Endpoints("", ""), ["asker"], self.road_q)
        for node in (self.p, self.q):
            await node.prepare(node.actors)
            node.begin(node.actors)

    async def close(self) -> None:
        for node, road in ((self.p, self.road_p), (self.q, self.road_q)):
            await node.stop()
            await road.close()

    async def settled(self) -> None:
        """Wait until the server has handled everything that was sent to it."""
        await self.asker.ask("server", Question(number=0), Answer)


@pytest_asyncio.fixture
async def pair() -> AsyncIterator[Pair]:
    made = Pair()
    await made.open()
    yield made
    await made.close()


def rejected(node: Node, reason: str) -> float:
    return node.metrics.registry.get_sample_value(
        "convoy_messages_rejected_total", {"role": "node", "reason": reason}
    ) or 0.0  # fmt: skip


def on_virtual_time(talk: Callable[[Pair], Any], **options: Any) -> Any:
    async def main() -> Any:
        made = Pair(**options)
        await made.open()
        try:
            return await talk(made)
        finally:
            await made.close()

    return run_virtual(main())


# -- tell, ask, reply


async def test_an_ask_brings_the_answer_and_a_tell_only_arrives(pair: Pair) -> None:
    assert (await pair.asker.ask("server", Question(number=21), Answer)).number == 42
    await pair.asker.tell("server", Question(number=5))
    await pair.settled()
    assert pair.server.seen == [21, 5, 0]
    assert rejected(pair.p, "unasked") == 0  # nothing is sent in reply to a tell
    assert repr(pair.p) == "<node p.1: 1 actors, 0 asks open>"


async def test_handlers_run_one_at_a_time_in_the_order_of_arrival(pair: Pair) -> None:
    for number in range(1, 50):
        await pair.asker.tell("server", Question(number=number))
    answers = await asyncio.gather(
        *(pair.asker.ask("server", Question(number=number), Answer) for number in range(50, 60))
    )
    assert pair.server.seen == list(range(1, 60))
    assert [answer.number for answer in answers] == [2 * number for number in range(50, 60)]


async def test_a_reply_may_come_later_from_outside_the_handler_while_others_are_answered(pair: Pair) -> None:
    late = asyncio.create_task(pair.asker.ask("server", Question(number=-3), Answer, step=7))
    await pair.settled()
    assert not late.done()
    assert pair.server.kept[0].step == 7
    await pair.server.reply(pair.server.kept[0], Answer(number=1))
    assert (await late).number == 1


async def test_actors_of_one_process_talk_through_the_same_checks(pair: Pair) -> None:
    second = Asker()
    pair.q.add("second", "client", second)
    pair.q.connect("q", 1, Endpoints("", ""), ["server", "second"], pair.road_q)
    assert (await second.ask("server", Question(number=4), Answer)).number == 8


# -- whose error goes where


async def test_an_error_in_a_handler_goes_to_the_asker_and_the_actor_lives_on(pair: Pair) -> None:
    with pytest.raises(Refused, match=r"server refused Question\(number=-1\) of asker: ValueError: no such number"):
        await pair.asker.ask("server", Question(number=-1), Answer)
    assert (await pair.asker.ask("server", Question(number=1), Answer)).number == 2
    assert pair.failures == []


async def test_an_error_after_a_tell_is_the_actors_failure_and_is_reported_with_its_name(pair: Pair) -> None:
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


async def test_asking_somebody_without_a_link_is_an_error_and_leaves_no_ask_open(pair: Pair) -> None:
    with pytest.raises(ActorStopped, match="asker has no link to an actor called 'nobody'"):
        await pair.asker.ask("nobody", Question(number=1), Answer)
    with pytest.raises(ActorStopped, match="nobody"):
        await pair.asker.tell("nobody", Question(number=1))
    assert "0 asks open" in repr(pair.p)


def test_no_answer_in_time_is_an_error_and_an_answer_that_comes_too_late_is_counted() -> None:
    async def talk(pair: Pair) -> None:
        with pytest.raises(AskTimeout, match=r"asker asked server Question\(number=-3\): no answer in 5 s"):
            await pair.asker.ask("server", Question(number=-3), Answer, timeout=5)
        assert pair.asker.now() == 5.0
        await pair.server.reply(pair.server.kept[0], Answer(number=1))
        await pair.settled()
        assert rejected(pair.p, "unasked") == 1
        assert "0 asks open" in repr(pair.p)

    on_virtual_time(talk)


# -- what is refused and counted


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
async def test_a_message_that_does_not_belong_here_is_counted_released_and_changes_nothing(
    pair: Pair, reason: str, changes: dict[str, Any]
) -> None:
    good = {"message": Question(number=1), "id": 1, "sender": "asker", "incarnation": 1, "receiver": "server"}
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
    pair.p.connect("q", 1, Endpoints("", ""), ["server", "other"], pair.road_p)
    pair.p.add("second", "client", Asker())
    asking = asyncio.create_task(pair.asker.ask("server", Question(number=-3), Answer))
    await pair.settled()
    asked = pair.server.kept[0].id
    pair.p.deliver(Envelope(Answer(number=6), 1, sender, 1, receiver, answers=asked), 10, lambda: None)
    assert rejected(pair.p, "unasked") == 1
    await pair.server.reply(pair.server.kept[0], Answer(number=7))
    assert (await asking).number == 7


async def test_a_message_of_a_former_life_is_counted_after_its_sender_was_started_anew(pair: Pair) -> None:
    pair.q.connect("p", 2, Endpoints("", ""), ["asker"], pair.road_q)
    await pair.asker.tell("server", Question(number=1))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert rejected(pair.q, "unknown_sender") == 1
    assert pair.server.seen == []


async def test_two_answers_to_one_ask_are_one_answer_and_one_rejection(pair: Pair) -> None:
    asking = asyncio.create_task(pair.asker.ask("server", Question(number=-3), Answer))
    await pair.settled()
    for number in (1, 2):
        await pair.server.reply(pair.server.kept[0], Answer(number=number))
    assert (await asking).number == 1
    await pair.settled()
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
    pair.q.actors["server"] = server  # it ends after the sore one
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


async def test_what_a_stopped_actor_had_not_read_gives_its_senders_their_credits_back(pair: Pair) -> None:
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


async def test_a_lead_that_only_answers_does_not_end_the_run_until_it_is_wound_down(pair: Pair) -> None:
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


async def test_the_first_error_of_on_start_comes_through_prepare(pair: Pair) -> None:
    class Unready(Actor):
        async def on_start(self) -> None:
            raise OSError("no such data")

    pair.p.add("unready", "client", Unready())
    with pytest.raises(OSError, match="no such data"):
        await pair.p.prepare(["unready"])


# -- what is going on


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
        'convoy_messages_sent_total{actor="asker",kind="test_node.Question",role="client"} 1.0',
        'convoy_messages_received_total{actor="asker",kind="test_node.Answer",role="client"} 1.0',
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

        asking = [asyncio.create_task(pair.asker.ask("server", Question(number=-3), Answer)) for _ in range(2)]
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


async def test_the_status_says_what_each_actor_does_and_for_whom_it_waits(pair: Pair) -> None:
    pair.server.gate.clear()
    asking = asyncio.create_task(pair.asker.ask("server", Question(number=1), Answer))
    await pair.asker.tell("server", Question(number=2))
    for _ in range(3):
        await asyncio.sleep(0)
    assert pair.p.status() == [
        {"actor": "asker", "role": "client", "doing": "idle", "waiting_for": "server", "handled": 0, "inbox": 0}
    ]
    assert pair.q.status() == [
        {"actor": "server", "role": "service", "doing": "Question", "waiting_for": "", "handled": 0, "inbox": 1}
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


async def test_an_event_goes_to_whoever_listens_with_the_name_of_its_actor(pair: Pair) -> None:
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
    pair.p.connect("q", 1, Endpoints("", ""), ["server", "reader"], pair.road_p)
    for size in (9000, 0):  # also when the handler finds the message illegal
        reader.gate.clear()
        await pair.asker.tell("reader", Bulk(blob=np.zeros(size, np.uint8)))
        await pair.settled()
        assert pair.road_p.queued_bytes()["q"] >= max(256, size)
        reader.gate.set()
        await pair.settled()
        assert pair.road_p.queued_bytes()["q"] == 0
    await pair.close()


# -- declaring actors


def test_a_handler_must_be_called_after_its_message() -> None:
    with pytest.raises(TypeError, match=r"Wrong\.on_query: annotate its first parameter with the message of that name"):

        class Wrong(Actor):
            async def on_query(self, said: Question, envelope: Envelope) -> None: ...


def test_a_handler_must_say_which_message_it_handles() -> None:
    with pytest.raises(TypeError, match=r"Silent\.on_question"):

        class Silent(Actor):
            async def on_question(self, said, envelope): ...  # type: ignore[no-untyped-def]


def test_a_subclass_handles_what_its_base_handles_and_may_do_it_otherwise() -> None:
    class Base(Actor):
        async def on_question(self, said: Question, envelope: Envelope) -> None: ...

    class Derived(Base):
        async def on_other(self, said: Other, envelope: Envelope) -> None: ...
        async def on_save(self, message: Save, envelope: Envelope) -> None: ...

    assert set(Derived.handlers) == {Question, Other, Save, WindDown}
    assert set(Base.handlers) == {Question, Save, WindDown}
    assert repr(Derived()) == "<Derived (not placed)>"
