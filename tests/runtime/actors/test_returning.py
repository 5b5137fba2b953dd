"""Messages to actors whose process is started again: they wait, and keep the order of numbers."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from runtime.actors.message_metrics import MessageMetrics
from runtime.actors.metrics import Metrics
from runtime.actors.router import Router
from runtime.actors.routes import Home
from runtime.errors import ActorStopped
from runtime.messages.message import Envelope
from runtime.transport import Transport
from tests.helpers.node_pair import Answer, Question


class Road:
    """Keeps the envelopes that were sent, with the process that they were sent to."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, Envelope]] = []

    async def send(self, process: str, envelope: Envelope) -> None:
        self.sent.append((process, envelope))

    def disconnect(self, process: str, why: str) -> None:
        """Nothing is connected."""


def router_and_road() -> tuple[Router, Road]:
    road = Road()
    router = Router("here", 1, {}, MessageMetrics(Metrics()))
    for process, actor in (("old", "worker"), ("other", "server")):
        router.know([actor], Home(process, 1, cast("Transport", road)))
    return router, road


async def waiting(*sends: Any) -> list[asyncio.Future[Any]]:
    """The sends as tasks, which all wait."""
    tasks = [asyncio.ensure_future(each) for each in sends]
    for _ in range(3):
        await asyncio.sleep(0)
    assert not any(task.done() for task in tasks)
    return tasks


async def test_a_message_waits_for_the_next_life_and_is_numbered_after_the_wait() -> None:
    router, road = router_and_road()
    router.lost("old", returns=True)
    told, asked = await waiting(
        router.send("asker", "worker", Question(number=1)),
        router.ask("asker", "worker", Question(number=2), Answer, step=-1, timeout=None),
    )
    await router.send("asker", "server", Question(number=3))
    router.know(["worker"], Home("new", 2, cast("Transport", road)))
    await told
    await asyncio.sleep(0)
    assert [
        (process, cast("Question", envelope.message).number) for process, envelope in road.sent
    ] == [("other", 3), ("new", 1), ("new", 2)]
    numbers = [envelope.id for _, envelope in road.sent]
    assert numbers == sorted(numbers)
    asked.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asked


async def test_messages_that_wait_end_when_the_process_of_the_sender_stops() -> None:
    router, road = router_and_road()
    router.lost("old", returns=True)
    tasks = await waiting(
        router.send("asker", "worker", Question(number=1)),
        router.ask("asker", "worker", Question(number=2), Answer, step=-1, timeout=None),
    )
    router.stopping = True
    router.stop(["asker"])
    for end in await asyncio.gather(*tasks, return_exceptions=True):
        assert isinstance(end, ActorStopped)
    assert road.sent == []


async def test_only_late_messages_of_a_process_that_has_ended_in_order_count() -> None:
    router, road = router_and_road()
    late = Envelope(Question(number=1), 7, "worker", 1, "asker")
    assert router._take(late) is None
    router.lost("old", in_order=True)
    assert router._take(late._replace(id=8)) is None
    twice = router._take(late._replace(id=8))
    assert twice is not None
    assert twice.reason == "late"
    with pytest.raises(ActorStopped, match="no link to an actor called 'worker'"):
        await router.send("asker", "worker", Question(number=2))
    router.lost("other")
    unknown = router._take(late._replace(id=9, sender="server"))
    assert unknown is not None
    assert unknown.reason == "unknown_sender"
    router.know(["worker"], Home("new", 2, cast("Transport", road)))
    former = router._take(late._replace(id=9))
    assert former is not None
    assert former.reason == "unknown_sender"


async def test_the_answer_to_an_asker_that_has_died_is_dropped_in_its_next_life_too() -> None:
    """Each life numbers its asks anew, so that the answer could reach another ask."""
    router, road = router_and_road()

    async def answered(life: int) -> int:
        asked = Envelope(Question(number=1), 7, "worker", life, "server", reply_to="worker")
        await router.answer("server", asked, Answer(number=1))
        return len(road.sent)

    assert await answered(1) == 1
    router.lost("old", returns=True)
    assert await answered(1) == 1
    router.know(["worker"], Home("old", 2, cast("Transport", road)))
    assert await answered(1) == 1
    assert await answered(2) == 2


async def test_messages_that_wait_for_a_process_end_once_it_will_not_be_back() -> None:
    router, _ = router_and_road()
    router.lost("old", returns=True)
    tasks = await waiting(
        router.send("asker", "worker", Question(number=1)),
        router.ask("asker", "worker", Question(number=2), Answer, step=-1, timeout=None),
    )
    assert router.lost("old") == {"worker"}
    for end in await asyncio.gather(*tasks, return_exceptions=True):
        assert isinstance(end, ActorStopped)
