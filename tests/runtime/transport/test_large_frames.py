"""Frames so large that they travel over ZeroMQ in parts: they arrive complete, and false claims
about them are rejected.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import zmq

from runtime.errors import MessageError
from runtime.messages.message import Array, Envelope, Message, message
from runtime.transport import Limits, Release
from runtime.transport.frame_parts import MAX_NUMBER, PART, PARTS_FROM, PLACE, FrameParts
from runtime.transport.sockets import SocketTransport

Arrived = asyncio.Queue[tuple[str, Message]]
GOOD = [b"", PLACE.pack(1, 8, 0), b"abcd"]


@message
class Cargo(Message):
    number: int
    blobs: tuple[Array, ...]


def road(
    name: str, arrived: Arrived, reject: Callable[[str, MessageError], None]
) -> SocketTransport:
    """A transport that records the messages that arrive."""

    def deliver(envelope: Envelope, size: int, release: Release) -> None:
        arrived.put_nowait((envelope.sender, envelope.message))
        release()

    return SocketTransport(
        name, deliver, reject, Limits(), incarnation=1, bind=lambda lane: ("tcp://127.0.0.1:*",)
    )


def refuse(peer: str, error: MessageError) -> None:
    raise error


@pytest.mark.slow
async def test_arrays_larger_than_a_part_arrive_as_they_were_sent_also_from_two_senders_at_once() -> (
    None
):
    arrived: Arrived = asyncio.Queue()
    roads = {name: road(name, arrived, refuse) for name in "abc"}
    ends = {name: await road.open() for name, road in roads.items()}
    sizes = (5, PARTS_FROM + 1, 0, PARTS_FROM, PARTS_FROM + PART)
    sent = {
        name: tuple(np.random.default_rng(seed).integers(0, 255, size, np.uint8) for size in sizes)
        for seed, name in enumerate("ab")
    }

    async def send(name: str) -> None:
        roads[name].connect("c", ends["c"])
        for number in range(2):
            await roads[name].send(
                "c", Envelope(Cargo(number=number, blobs=sent[name]), number + 1, name, 1, "y")
            )

    async with asyncio.TaskGroup() as group:
        for name in sent:
            group.create_task(send(name))
    numbers: dict[str, list[int]] = {"a": [], "b": []}
    for _ in range(4):
        sender, cargo = await arrived.get()
        assert isinstance(cargo, Cargo)
        numbers[sender].append(cargo.number)
        for found, expected in zip(cargo.blobs, sent[sender], strict=True):
            np.testing.assert_array_equal(found, expected)
    assert numbers == {"a": [0, 1], "b": [0, 1]}
    for each in roads.values():
        await each.close()


def test_a_message_with_an_incomplete_large_frame_is_not_delivered() -> None:
    parts = FrameParts(1 << 20)
    assert parts.take(GOOD) is None
    assert parts.take([b"head", b""]) == []
    assert parts.take([b"head", b""]) == [b"head", b""]


def test_a_peer_that_begins_many_large_frames_gets_memory_for_one_of_them() -> None:
    parts = FrameParts(1 << 30)
    taken = [parts.take([b"", PLACE.pack(number, 1 << 30, 0), b"abcd"]) for number in range(6)]
    assert taken == [None, []] * 3


def test_as_many_large_frames_as_a_message_may_have_arrive() -> None:
    parts = FrameParts(1 << 20)
    numbers = range(2, MAX_NUMBER + 1)
    assert {parts.take([b"", PLACE.pack(number, 4, 0), b"abcd"]) is None for number in numbers} == {
        True
    }
    whole = parts.take([b"word", b"head", *[b""] * len(numbers)])
    assert whole is not None and set(map(bytes, whole[2:])) == {b"abcd"}


@pytest.mark.parametrize(
    "lie",
    [
        [[b"", PLACE.pack(1, 8, 4), b"abcd"]],
        [GOOD, GOOD],
        [GOOD, [b"", PLACE.pack(1, 8, 4), b"abcde"]],
        [GOOD, [b"", PLACE.pack(1, 9, 5), b"abcd"]],
        [GOOD, [b"", PLACE.pack(1, 100, 4), b"abcd" * 24]],
        [[b"", PLACE.pack(1, Limits().message_bytes + 1, 0), b"abcd"]],
        [[b"", PLACE.pack(1, 1 << 63, 0), b"abcd"]],
        [[b"", PLACE.pack(1, 8, 0), b""]],
        [GOOD, [b"head", b""]],
        [[b"", PLACE.pack(7, 4, 0), b"abcd"], [b"head", b""]],
        [GOOD, [b"", PLACE.pack(2, 8, 0), b"abcd"]],
        [[b"", PLACE.pack(MAX_NUMBER + 1, 4, 0), b"abcd"]],
    ],
    ids=[
        "no beginning", "twice", "too much", "a gap", "grown", "over the limit", "over all memory", "nothing",
        "unfinished", "no such frame", "two at once", "of no message",
    ],
)  # fmt: skip
async def test_parts_that_do_not_fit_together_are_rejected_and_later_messages_arrive(
    lie: list[list[bytes]],
) -> None:
    rejected: list[tuple[str, str]] = []
    arrived: Arrived = asyncio.Queue()
    here = road("here", arrived, lambda peer, error: rejected.append((peer, error.reason)))
    ends = await here.open()
    context: zmq.Context[Any] = zmq.Context()
    liar = context.socket(zmq.DEALER)
    liar.setsockopt(zmq.ROUTING_ID, b"liar/1.5")
    liar.connect(ends.bulk[0])
    for frames in lie:
        liar.send_multipart(frames)
    honest = road("honest", arrived, refuse)
    await honest.open()
    honest.connect("here", ends)
    await honest.send("here", Envelope(Cargo(number=3, blobs=(np.arange(4),)), 1, "honest", 1, "y"))
    async with asyncio.timeout(60):
        assert (await arrived.get())[0] == "honest"
        while not rejected:  # noqa: ASYNC110  # rejections raise no event
            await asyncio.sleep(0)
    assert set(rejected) == {("liar/1.5", "bad_header")}
    context.destroy(linger=0)
    await here.close()
    await honest.close()
