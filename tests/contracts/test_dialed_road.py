"""The road on which one end dials and the other answers: both send, each under its own name only,
and no reader is flooded.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import numpy as np
import pytest
from roads import LIMITS, Load, Note

from runtime.errors import ActorStopped, MessageError
from runtime.messages.message import Envelope
from runtime.transport import Endpoints, Release
from runtime.transport.dialed import Answering, Dialing
from runtime.transport.keys import Keys
from runtime.transport.zeromq import key_pair

UP = key_pair()
USER = key_pair()
THERE = Keys(public=UP[0], private=UP[1], peers={"user": USER[0]})
HERE = Keys(public=USER[0], private=USER[1], peers={"up": UP[0]})


@dataclass
class Heard:
    """The messages, refusals and losses that one end received."""

    came: asyncio.Queue[tuple[Envelope, Release]] = field(default_factory=asyncio.Queue)
    refused: asyncio.Queue[tuple[str, MessageError]] = field(default_factory=asyncio.Queue)
    lost: asyncio.Queue[str] = field(default_factory=asyncio.Queue)

    def deliver(self, envelope: Envelope, size: int, release: Release) -> None:
        self.came.put_nowait((envelope, release))

    def reject(self, who: str, why: MessageError) -> None:
        self.refused.put_nowait((who, why))

    async def next(self) -> Envelope:
        envelope, release = await self.came.get()
        release()
        return envelope


def dialing(name: str) -> tuple[Dialing, Heard]:
    heard = Heard()
    lost = heard.lost.put_nowait
    road = Dialing(
        name,
        heard.deliver,
        heard.reject,
        LIMITS,
        user="user",
        keys=HERE,
        on_link_lost=lambda: lost("up"),
    )
    return road, heard


@asynccontextmanager
async def ends() -> AsyncIterator[tuple[Answering, Heard, Dialing, Heard]]:
    """Both ends, connected; the dialing end is `a`."""
    up = Heard()
    there = Answering(
        "up",
        up.deliver,
        up.reject,
        LIMITS,
        address="127.0.0.1:*",
        keys=THERE,
        on_link_lost=up.lost.put_nowait,
    )
    road, heard = dialing("a")
    try:
        where = await there.open()
        await road.open()
        road.connect("up", where)
        async with asyncio.timeout(60):
            yield there, up, road, heard
    finally:
        await road.close()
        await there.close()


def note(sender: str, number: int = 1) -> Envelope:
    return Envelope(Note(number=number, text=""), number, sender, 1, "x")


async def test_both_ends_speak_and_large_arrays_arrive_as_they_were() -> None:
    async with ends() as (there, up, road, heard):
        blob = np.random.default_rng(1).integers(0, 256, 300_000, np.uint8)
        load = Load(number=1, blobs=(blob, blob[:10]))
        await road.send("up", Envelope(load, 1, "a", 1, "x"))
        assert [part.tobytes() for part in (await up.next()).message.blobs] == [
            blob.tobytes(),
            blob[:10].tobytes(),
        ]  # type: ignore[attr-defined]
        await there.send("a", Envelope(load, 1, "somebody", 1, "x"))
        assert [part.tobytes() for part in (await heard.next()).message.blobs] == [
            blob.tobytes(),
            blob[:10].tobytes(),
        ]  # type: ignore[attr-defined]


async def test_a_dialing_process_sends_under_its_own_name_only() -> None:
    async with ends() as (_, up, road, _heard):
        await road.send("up", note("coordinator"))
        who, why = await up.refused.get()
        assert (who, why.reason) == ("a", "refused") and "it claims to be coordinator" in str(why)
        await road.send("up", note("a"))
        assert (await up.next()).sender == "a" and up.came.empty()


@pytest.mark.parametrize("far", [False, True])
async def test_a_reader_that_does_not_read_stops_its_writer_and_no_other(far: bool) -> None:
    async with ends() as (there, up, road, heard):
        await road.send("up", note("a"))
        await up.next()
        send, to, reader = (there.send, "a", heard) if far else (road.send, "up", up)
        blob = np.zeros(1 << 18, np.uint8)

        async def flood() -> None:
            for number in range(2, 100):
                await send(to, Envelope(Load(number=number, blobs=(blob,)), number, "a", 1, "x"))

        writing = asyncio.create_task(flood())
        for _ in range(4):
            await asyncio.sleep(0)
        other, _its = dialing("b")
        await other.open()
        other.connect("up", road_to(there))
        await other.send("up", note("b"))
        if far:
            assert (await up.next()).sender == "b"
        assert not writing.done()
        for number in range(2, 100):
            assert (await reader.next()).message.number == number or not far  # type: ignore[attr-defined]
            if not far and number == 98:
                break
        await other.close()
        writing.cancel()
        await asyncio.gather(writing, return_exceptions=True)


async def test_each_end_learns_that_the_other_has_left() -> None:
    async with ends() as (there, up, road, heard):
        await road.send("up", note("a"))
        await up.next()
        there.disconnect("a", "go")
        assert await heard.lost.get() == "up"
        with pytest.raises(ActorStopped):
            await road.send("up", note("a", 2))
        with pytest.raises(ActorStopped):
            await there.send("a", note("x"))
    async with ends() as (there, up, road, heard):
        await road.send("up", note("a"))
        await up.next()
        await road.close()
        assert await up.lost.get() == "a" and there.queued_bytes() == {}


async def test_a_process_without_a_valid_key_is_told_that_the_connection_is_lost() -> None:
    async with ends() as (there, up, _, _heard):
        other, its = dialing("c")
        public, private = key_pair()
        other._keys = Keys(public=public, private=private, peers={"up": UP[0]})
        await other.open()
        other.connect("up", road_to(there))
        assert await its.lost.get() == "up"
        who, why = await up.refused.get()
        assert who.startswith("a stranger") and "its key belongs to none of" in str(why)
        await other.close()


def road_to(there: Answering) -> Endpoints:
    """The endpoints at which the answering end listens."""
    assert there._listener is not None
    return Endpoints((there._listener.address,), (there._listener.address,))
