"""Messages whose arrays are written after they were announced: what actors may rely on, over every road."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import numpy as np
import pytest
import pytest_asyncio
from roads import LIMITS, ROADS, Nodes, Note, Roads

from runtime.actors.actor import Actor
from runtime.errors import ActorStopped, Refused
from runtime.messages.credits import GRANT_SHARE
from runtime.messages.message import Array, Envelope, Message, message
from runtime.transport.faults import Shares

SIZE = 100_000  # bytes of an array: ten fill the window


@message
class Picture(Message):
    blob: Array


@message
class Album(Message):
    blobs: tuple[Array, ...]


@message
class Copy(Message):
    blob: Array


@message
class Develop(Message):
    fails: bool


class Painter(Actor):
    """Sends pictures that it paints after they were announced."""

    async def on_note(self, said: Note, envelope: Envelope) -> None:
        await self.reply(envelope, said)

    async def paint(self, blob: Array, value: int, dry: asyncio.Event | None = None) -> None:
        if dry is not None:
            await dry.wait()
        blob.fill(value)


class Gallery(Actor):
    """Shows what it got: each picture's colours, each note's number."""

    def __init__(self) -> None:
        self.shown: list[list[int] | int] = []

    async def on_picture(self, said: Picture, envelope: Envelope) -> None:
        self.shown.append(np.unique(said.blob).tolist())
        await self.reply(envelope, Note(number=int(said.blob[0]), text=""))

    async def on_album(self, said: Album, envelope: Envelope) -> None:
        self.shown += [np.unique(blob).tolist() for blob in said.blobs]

    async def on_note(self, said: Note, envelope: Envelope) -> None:
        self.shown.append(said.number)
        await self.reply(envelope, said)

    async def on_develop(self, said: Develop, envelope: Envelope) -> None:
        blob = self.memory(SIZE)
        blob.fill(0)
        await self.reply(envelope, Copy(blob=blob), after=self._develop(blob, said.fails))

    async def _develop(self, blob: Array, fails: bool) -> None:
        await asyncio.sleep(0)
        if fails:
            raise RuntimeError("over-exposed")
        blob.fill(7)


class Linked(Nodes):
    """A painter and a gallery."""

    def __init__(self, roads: Roads) -> None:
        self.painter, self.gallery = Painter(), Gallery()
        super().__init__(roads, self.painter, self.gallery)

    def canvas(self) -> Array:
        """An array whose numbers are not those that are to be seen."""
        blob = self.painter.memory(SIZE)
        blob.fill(0)
        return blob

    async def told(self, blob: Array, value: int, dry: asyncio.Event) -> asyncio.Task[None]:
        """A picture under way that is painted when `dry` is set; it has been announced, if that is possible."""
        task = asyncio.create_task(
            self.painter.tell("gallery", Picture(blob=blob), after=self.painter.paint(blob, value, dry))
        )
        await self.noted(-1)
        return task

    async def noted(self, number: int) -> None:
        """A note there and back."""
        assert (await self.painter.ask("gallery", Note(number=number, text=""), Note)).number == number

    async def seen(self) -> list[list[int] | int]:
        """What the gallery has shown, but for the notes of `told`, when pictures under way have arrived."""
        await self.painter.ask("gallery", Picture(blob=np.full(3, 99, np.uint8)), Note)
        return [one for one in self.gallery.shown if one not in (-1, [99])]

    async def forgotten(self) -> None:
        """Wait until no memory is lent any more."""
        async with asyncio.timeout(20):
            while any(arena.used for arena in self.roads.arenas.values()):  # noqa: ASYNC110  # returns are no event here
                await asyncio.sleep(0)


@pytest_asyncio.fixture(params=ROADS)
async def linked(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Linked]:
    made = Linked(Roads(request.param, tmp_path, Shares()))
    await made.open()
    yield made
    await made.close()


async def test_a_message_is_handled_when_its_arrays_are_complete_with_what_they_hold_then(linked: Linked) -> None:
    dry = asyncio.Event()
    told = await linked.told(linked.canvas(), 5, dry)
    await linked.noted(1)
    assert linked.gallery.shown == [-1, 1]
    dry.set()
    await told
    assert await linked.seen() == [1, [5]]


async def test_an_ask_and_an_answer_may_be_sent_ahead_too(linked: Linked) -> None:
    blob = linked.canvas()
    answer = await linked.painter.ask("gallery", Picture(blob=blob), Note, after=linked.painter.paint(blob, 6))
    assert answer.number == 6
    copy = await linked.painter.ask("gallery", Develop(fails=False), Copy)
    assert np.unique(copy.blob).tolist() == [7]


async def test_what_is_sent_meanwhile_comes_first_and_the_work_may_wait_for_it(linked: Linked) -> None:
    """Nobody waits behind an array that is still being written: neither in the road nor in the inbox."""
    blob, other = linked.canvas(), linked.canvas()

    async def work() -> None:
        await linked.noted(2)  # the gallery handles it while the picture is announced to it
        other.fill(3)
        await linked.painter.ask("gallery", Picture(blob=other), Note)
        blob.fill(4)

    await linked.painter.tell("gallery", Picture(blob=blob), after=work())
    assert await linked.seen() == [2, [3], [4]]


async def test_pictures_announced_together_come_in_the_order_in_which_they_are_complete(linked: Linked) -> None:
    dry = [asyncio.Event() for _ in range(4)]
    told = [await linked.told(linked.canvas(), value, event) for value, event in enumerate(dry)]
    for value in (2, 0, 3, 1):
        dry[value].set()
        await told[value]
    assert await linked.seen() == [[2], [0], [3], [1]]


async def test_work_that_fails_sends_nothing_and_its_error_reaches_the_sender(linked: Linked) -> None:
    async def work() -> None:
        await linked.noted(-1)
        raise ValueError("the brush broke")

    for _ in range(30):  # three windows: a credit that is lost with each ends in a hang
        with pytest.raises(ValueError, match="the brush broke"):
            await linked.painter.tell("gallery", Picture(blob=linked.canvas()), after=work())
    assert await linked.seen() == []
    await linked.forgotten()
    assert linked.road_p.queued_bytes()["q"] < (LIMITS.credit_bytes + LIMITS.control_credit_bytes) // GRANT_SHARE


async def test_an_answer_that_cannot_be_completed_is_a_refusal(linked: Linked) -> None:
    with pytest.raises(Refused, match="over-exposed"):
        await linked.painter.ask("gallery", Develop(fails=True), Copy, timeout=20)


async def test_a_sender_that_is_cancelled_withdraws_its_message(linked: Linked) -> None:
    told = await linked.told(linked.canvas(), 5, asyncio.Event())
    told.cancel()
    await asyncio.wait([told])
    del told  # its error holds the picture
    assert await linked.seen() == []
    await linked.forgotten()


async def test_work_for_somebody_who_is_not_there_is_not_begun(linked: Linked) -> None:
    begun: list[int] = []

    async def work() -> None:
        begun.append(1)

    with pytest.raises(ActorStopped, match="nobody"):
        await linked.painter.tell("nobody", Picture(blob=linked.canvas()), after=work())
    assert begun == []


async def test_a_receiver_that_stops_meanwhile_gives_everything_back(linked: Linked) -> None:
    dry = asyncio.Event()
    told = await linked.told(linked.canvas(), 5, dry)
    await linked.q.stop(["gallery"])
    dry.set()
    await told
    del told
    await linked.forgotten()
    assert linked.gallery.shown == [-1]


async def test_a_message_whose_link_is_gone_when_it_is_complete_is_an_error_at_its_sender(linked: Linked) -> None:
    dry = asyncio.Event()
    told = await linked.told(linked.canvas(), 5, dry)
    await linked.road_p.close()
    dry.set()
    with pytest.raises(ActorStopped):
        await told


async def test_a_message_with_an_array_elsewhere_is_sent_as_a_whole_when_all_are_complete(linked: Linked) -> None:
    async def work(blobs: tuple[Array, ...]) -> None:
        for value, blob in enumerate(blobs, 1):
            await linked.painter.paint(blob, value)

    async def tell() -> None:
        blobs = linked.canvas(), np.zeros(SIZE, np.uint8)
        await linked.painter.tell("gallery", Album(blobs=blobs), after=work(blobs))

    await tell()
    assert await linked.seen() == [[1], [2]]
    await linked.forgotten()


async def test_only_arrays_that_stay_where_they_are_are_announced(linked: Linked) -> None:
    cases = {
        "shared memory": linked.canvas(),
        "too small": linked.painter.memory(100),
        "other": np.ones(SIZE, np.uint8),
    }
    for number, (name, blob) in enumerate(cases.items(), 1):
        envelope = Envelope(Picture(blob=blob), number, "painter", 1, "gallery")
        announced = await linked.road_p.announce("q", envelope)
        assert (announced is not None) == (linked.roads.kind == name)
        if announced is not None:
            announced.withdraw()
