"""One contract for every road between processes: the promises of `runtime.transport.interface`,
also with delayed messages.

`test_transports_under_faults` has the promises that hold on roads that lose, duplicate or reorder
messages.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import pytest_asyncio
import zmq
from roads import LIMITS, ROADS, Load, Note, Roads

from runtime.errors import ActorStopped, LaunchError, MessageError
from runtime.messages.message import Array, Envelope
from runtime.transport import Release, Transport
from runtime.transport.sockets import SocketTransport
from tests.helpers.faults import Shares


@dataclass
class Member:
    """A transport and the messages that it delivered."""

    transport: Transport
    array: Callable[[Array], Array]  # a copy of an array, as this process makes arrays for sending
    arrived: asyncio.Queue[tuple[Envelope, int, Release]] = field(default_factory=asyncio.Queue)
    rejected: list[tuple[str, MessageError]] = field(default_factory=list)

    async def next(self) -> Envelope:
        """Wait for the next envelope and return its credits at once."""
        envelope, _, release = await self.arrived.get()
        release()
        return envelope


def _case(case: tuple[str, float]) -> str:
    return f"{case[0]}{', delays' if case[1] else ''}"


def _member(
    make: Callable[..., Transport], name: str, array: Callable[[Array], Array] = np.copy
) -> Member:
    box: list[Member] = []
    transport = make(
        name,
        lambda envelope, size, release: box[0].arrived.put_nowait((envelope, size, release)),
        lambda peer, error: box[0].rejected.append((peer, error)),
    )
    box.append(Member(transport, array))
    return box[0]


@pytest_asyncio.fixture(params=[(road, share) for road in ROADS for share in (0.0, 0.3)], ids=_case)
async def pair(
    request: pytest.FixtureRequest, tmp_path: Path
) -> AsyncIterator[tuple[Member, Member]]:
    """Two linked processes `a` and `b`; a share of the messages is delayed."""
    kind, share = request.param
    roads = Roads(kind, tmp_path, Shares(delay=share))
    a, b = (_member(roads.make, name, partial(roads.array, name)) for name in "ab")
    ends = {"a": await a.transport.open(), "b": await b.transport.open()}
    a.transport.connect("b", ends["b"])
    b.transport.connect("a", ends["a"])
    yield a, b
    await a.transport.close()
    await b.transport.close()
    roads.close()


def note(number: int, text: str = "") -> Envelope:
    return Envelope(Note(number=number, text=text), number + 1, "x", 1, "y")


def load(number: int, *blobs: Array) -> Envelope:
    return Envelope(Load(number=number, blobs=blobs), number + 1, "x", 1, "y", step=number)


async def test_an_envelope_arrives_as_it_was_sent(pair: tuple[Member, Member]) -> None:
    a, b = pair
    large = a.array(np.arange(30_000, dtype=np.float32).reshape(100, 300))
    blobs = (
        np.arange(12, dtype=np.int64).reshape(3, 4),
        np.zeros((0, 5), np.int64),
        np.float64(3.5).reshape(()),
        large,
    )
    await a.transport.send("b", load(7, *blobs))
    got = await b.next()
    assert (got.id, got.sender, got.incarnation, got.receiver, got.step) == (8, "x", 1, "y", 7)
    assert isinstance(got.message, Load)
    for sent, found in zip(blobs, got.message.blobs, strict=True):
        assert found.dtype == sent.dtype
        assert found.shape == sent.shape
        np.testing.assert_array_equal(found, sent)


async def test_received_arrays_are_read_only(pair: tuple[Member, Member]) -> None:
    a, b = pair
    await a.transport.send("b", load(0, a.array(np.ones(100_000, np.float32))))
    got = await b.next()
    assert isinstance(got.message, Load)
    with pytest.raises(ValueError, match="read-only"):
        got.message.blobs[0][0] = 2


async def test_arrays_that_are_not_contiguous_arrive_right(pair: tuple[Member, Member]) -> None:
    a, b = pair
    x = a.array(np.arange(60_000, dtype=np.float64)).reshape(30, 40, 50).transpose(2, 0, 1)[::2]
    await a.transport.send("b", load(0, x, x[:2, :2], x[::-1]))
    got = await b.next()
    assert isinstance(got.message, Load)
    for sent, found in zip((x, x[:2, :2], x[::-1]), got.message.blobs, strict=True):
        np.testing.assert_array_equal(found, sent)


async def test_each_lane_keeps_its_order(pair: tuple[Member, Member]) -> None:
    a, b = pair

    async def talk() -> None:
        for number in range(300):
            await a.transport.send("b", note(number))
            await a.transport.send("b", load(number, np.full(10, number)))

    talking = asyncio.create_task(talk())
    got = [await b.next() for _ in range(600)]
    await talking
    for kind in (Note, Load):
        numbers = [
            e.message.number
            for e in got
            if isinstance(e.message, Note | Load) and type(e.message) is kind
        ]
        assert numbers == list(range(300))


async def test_both_directions_work_at_once(pair: tuple[Member, Member]) -> None:
    a, b = pair
    for number in range(50):
        await a.transport.send("b", note(number))
        await b.transport.send("a", note(number))
    for member in pair:
        assert [(await member.next()).id for _ in range(50)] == list(range(1, 51))


async def test_a_receiver_that_does_not_release_stops_its_sender_at_the_credit_window(
    pair: tuple[Member, Member],
) -> None:
    a, b = pair
    x = a.array(np.zeros(100_000, np.uint8))
    sent = 0

    async def flood() -> None:
        nonlocal sent
        for number in range(100):
            await a.transport.send("b", load(number, x))
            sent += 1

    flooding = asyncio.create_task(flood())
    held = [await b.arrived.get() for _ in range(10)]
    done, _ = await asyncio.wait([flooding], timeout=0.2)
    assert not done
    assert sent * x.nbytes <= LIMITS.credit_bytes * 9 // 8
    assert a.transport.queued_bytes()["b"] <= LIMITS.credit_bytes * 9 // 8
    for _, _, release in held:
        release()
    for _ in range(90):
        await b.next()
    await flooding
    assert sent == 100


async def test_a_message_larger_than_the_window_passes_alone(pair: tuple[Member, Member]) -> None:
    a, b = pair
    x = a.array(np.arange(LIMITS.credit_bytes, dtype=np.uint8))
    for number in range(3):
        await a.transport.send("b", load(number, x, x))
        got = await b.next()
        assert isinstance(got.message, Load)
        np.testing.assert_array_equal(got.message.blobs[1], x)


async def test_a_message_over_the_limit_is_refused_before_it_leaves(
    pair: tuple[Member, Member],
) -> None:
    a, _ = pair
    with pytest.raises(MessageError, match="too_large"):
        await a.transport.send("b", load(0, np.zeros(LIMITS.message_bytes + 1, np.uint8)))


async def test_sending_to_an_unlinked_process_is_an_error_and_does_not_hang(
    pair: tuple[Member, Member],
) -> None:
    with pytest.raises(ActorStopped, match="no link to c"):
        await pair[0].transport.send("c", note(0))


async def test_closing_wakes_a_sender_that_waits_for_credits(pair: tuple[Member, Member]) -> None:
    a, _ = pair
    x = a.array(np.zeros(LIMITS.credit_bytes, np.uint8))

    async def flood() -> None:
        for number in range(5):
            await a.transport.send("b", load(number, x))

    flooding = asyncio.create_task(flood())
    await asyncio.wait([flooding], timeout=0.05)
    await a.transport.close()
    with pytest.raises(ActorStopped, match="stopping"):
        await flooding


async def test_cancelling_a_waiting_sender_loses_no_credit(pair: tuple[Member, Member]) -> None:
    a, b = pair
    x = a.array(np.zeros(LIMITS.credit_bytes, np.uint8))
    await a.transport.send("b", load(0, x))
    waiting = asyncio.create_task(a.transport.send("b", load(1, x)))
    await asyncio.wait([waiting], timeout=0.02)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    await b.next()
    await a.transport.send("b", load(2, x))
    assert (await b.next()).id == 3


async def test_malformed_frames_are_rejected_and_the_road_stays_open(tmp_path: Path) -> None:
    b = _member(
        lambda *arguments: SocketTransport(
            *arguments, LIMITS, incarnation=1, bind=lambda lane: (f"ipc://{tmp_path}/{lane}",)
        ),
        "b",
    )
    ends = await b.transport.open()
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    stranger = context.socket(zmq.DEALER)
    stranger.setsockopt(zmq.ROUTING_ID, b"stranger")
    stranger.connect(ends.control[0])
    hostile = [
        [b""],
        [b"\xff" * 10],
        [b"\x91" * 60_000],
        [b"\xdd\xff\xff\xff\xff"],
        [b"x" * 100_000],
        [b""] * 50,
    ]
    hostile += [[b"\xc1"], [b"\xc1" * 50]]  # 0xc1 is the one byte that msgpack never uses
    for frames in hostile:
        stranger.send_multipart(frames)
    a = _member(
        lambda *arguments: SocketTransport(
            *arguments, LIMITS, incarnation=1, bind=lambda lane: ("tcp://127.0.0.1:*",)
        ),
        "a",
    )
    await a.transport.open()
    a.transport.connect("b", ends)
    await a.transport.send("b", note(1))
    assert (await b.next()).id == 2
    async with asyncio.timeout(60):
        while len(b.rejected) < len(hostile):  # noqa: ASYNC110  # rejections raise no event
            await asyncio.sleep(0)
    assert {peer for peer, _ in b.rejected} == {"stranger"}
    assert {error.reason for _, error in b.rejected} == {"bad_header"}
    context.destroy(linger=0)
    await a.transport.close()
    await b.transport.close()


async def test_a_closed_road_leaves_no_socket_file(
    pair: tuple[Member, Member], tmp_path: Path
) -> None:
    for member in pair:
        await member.transport.close()
    assert list(tmp_path.iterdir()) == []  # noqa: ASYNC240


async def test_an_address_in_use_is_named(tmp_path: Path) -> None:
    def make(*arguments: object) -> Transport:
        bind = f"tcp://127.0.0.1:{port}"
        return SocketTransport(*arguments, LIMITS, incarnation=1, bind=lambda lane: (bind,))  # type: ignore[arg-type]

    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    holder = context.socket(zmq.ROUTER)
    port = holder.bind_to_random_port("tcp://127.0.0.1")
    member = _member(make, "worker")
    with pytest.raises(
        LaunchError, match=(f"process 'worker' cannot listen on tcp://127.0.0.1:{port}.*in use")
    ):
        await member.transport.open()
    await member.transport.close()
    context.destroy(linger=0)
