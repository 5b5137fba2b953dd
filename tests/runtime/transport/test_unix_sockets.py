"""Sockets between processes of one host: messages of any shape, and peers that die, lie, come back
or do not read.
"""

from __future__ import annotations

import asyncio
import resource
import socket
import struct
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.errors import LaunchError, MessageError
from runtime.messages.message import Envelope
from runtime.transport import Limits, Release, socket_files, unix_listener
from runtime.transport.incoming import BUFFER, MAX_FRAMES
from runtime.transport.ports import BATCH, COPY_BELOW, Frames
from runtime.transport.socket_files import reachable
from runtime.transport.sockets import SocketTransport
from runtime.transport.stream import Stream
from runtime.transport.unix import UnixPorts

LARGEST = 8 << 20
LIMITS = Limits(message_bytes=LARGEST)
SIZES = st.one_of(
    st.integers(0, 300),
    st.integers(COPY_BELOW - 2, COPY_BELOW + 2),
    st.integers(BUFFER - 2, BUFFER + 2),
    st.just(1 << 20),
)
MESSAGES = st.lists(st.lists(SIZES, min_size=1, max_size=4), min_size=1, max_size=8)


class Here:
    """A listener; it records the messages and refusals."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "here"
        self.came: asyncio.Queue[tuple[bytes, Frames]] = asyncio.Queue()
        self.refused: asyncio.Queue[tuple[str, str]] = asyncio.Queue()
        self.ports = UnixPorts(LIMITS)
        self.listener = self.ports.listen(
            f"unix://{self.path}",
            "bulk",
            lambda identity, frames: self.came.put_nowait((identity, frames)),
            lambda who, why: self.refused.put_nowait((who, why)),
        )

    def stranger(self, sent: bytes = b"") -> socket.socket:
        """A raw connection that may send any bytes."""
        stranger = socket.socket(socket.AF_UNIX)
        stranger.connect(str(self.path))
        stranger.sendall(sent)
        return stranger


@pytest_asyncio.fixture
async def here(tmp_path: Path) -> AsyncIterator[Here]:
    """A listener."""
    made = Here(tmp_path)
    yield made
    made.listener.close()
    await made.ports.close()


def said(*frames: bytes) -> bytes:
    """A message as it travels."""
    return struct.pack(f"<I{len(frames)}Q", len(frames), *map(len, frames)) + b"".join(frames)


def filled(number: int, size: int) -> bytes:
    return bytes([number % 251]) * size


@settings(max_examples=25, deadline=None)
@given(shapes=MESSAGES, room=st.sampled_from([4096, 0]))
def test_messages_of_any_number_and_size_of_frames_arrive_as_they_were_sent(
    shapes: list[list[int]], room: int
) -> None:
    async def exchange() -> None:
        ends = socket.socketpair()
        a, b = (Stream(end, LARGEST) for end in ends)
        if room:  # the system accepts little at once, so most messages leave in pieces
            ends[0].setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, room)
        came: asyncio.Queue[list[bytes]] = asyncio.Queue()
        b.on_message = lambda frames: came.put_nowait([bytes(frame) for frame in frames])
        sent = [
            [filled(number + place, size) for place, size in enumerate(sizes)]
            for number, sizes in enumerate(shapes)
        ]
        for frames in sent:
            a.send([memoryview(frame) for frame in frames])
        async with asyncio.timeout(30):
            assert [await came.get() for _ in sent] == sent
        a.close(flush=False)
        b.close(flush=False)

    asyncio.run(exchange())


async def test_messages_that_came_in_pieces_are_put_together(here: Here) -> None:
    stranger = here.stranger()
    for byte in said(b"me") + said(b"one", b"", b"two"):
        stranger.send(bytes([byte]))
        await asyncio.sleep(0)
    assert await here.came.get() == (b"me", [b"one", b"", b"two"])
    stranger.close()


async def test_a_socket_in_a_folder_with_a_long_path_is_reached_and_replaced(
    tmp_path: Path,
) -> None:
    deep = tmp_path / ("a" * 120) / ("b" * 120)
    deep.mkdir(parents=True)
    with socket.socket(socket.AF_UNIX) as dead, reachable(str(deep / "here")) as path:
        dead.bind(path)  # a killed process leaves such a file
    long = Here(deep)
    port = long.ports.connect(
        "peer", long.listener.address, "bulk", b"me", lambda frames: None, lambda: None
    )
    port.send([b"one"])
    assert await long.came.get() == (b"me", [b"one"])
    assert sorted(path.name for path in deep.iterdir()) == ["here"]
    with pytest.raises(OSError, match="in use"):
        Here(deep)
    long.listener.close()
    await long.ports.close()
    assert list(deep.iterdir()) == []


def test_a_long_path_without_proc_is_refused_with_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket_files, "FOLDERS", str(tmp_path / "no proc"))
    with (
        pytest.raises(OSError, match=r"more than 107 bytes.* set TMPDIR to a folder with"),
        reachable(str(tmp_path / ("a" * 120))),
    ):
        pass


async def test_messages_that_end_anywhere_in_a_read_buffer_arrive_whole(here: Here) -> None:
    port = here.ports.connect(
        "peer", here.listener.address, "bulk", b"me", lambda frames: None, lambda: None
    )
    sent = [filled(number, 40_000 + number) for number in range(100)]
    for frame in sent:
        port.send([frame])
    for frame in sent:
        assert await here.came.get() == (b"me", [frame])


@pytest.mark.parametrize(
    "nonsense",
    [
        struct.pack("<I", 0),
        struct.pack("<I", MAX_FRAMES + 1),
        struct.pack("<IQ", 1, LARGEST + 1),
        struct.pack("<IQQ", 2, 5, 1 << 63),
        b"\xff" * 100,
    ],
    ids=[
        "no frames",
        "too many frames",
        "a frame too large",
        "a frame beyond all memory",
        "garbage",
    ],
)
async def test_bytes_that_are_not_a_message_are_reported_once_and_end_only_their_connection(
    here: Here, nonsense: bytes
) -> None:
    good = here.stranger(said(b"good"))
    bad = here.stranger(said(b"bad") + nonsense)
    assert await here.came.get() == (b"bad", [])
    assert bad.recv(1) == b""
    good.sendall(said(b"still here"))
    assert await here.came.get() == (b"good", [b"still here"])
    assert here.came.empty()
    good.close()
    bad.close()


@pytest.mark.parametrize(
    "first",
    [
        said(b""),
        said(b"x" * 256),
        said(b"a", b"b"),
        struct.pack("<IQ", 1, 64 << 10),
        struct.pack("<I", 1000),
    ],
    ids=["empty", "long", "two frames", "64 KB announced", "1000 frames announced"],
)
async def test_a_stranger_that_does_not_identify_itself_is_refused(
    here: Here, first: bytes
) -> None:
    stranger = here.stranger(first)
    assert await here.refused.get() == ("a stranger", "it did not send its identity")
    assert stranger.recv(1) == b""
    stranger.close()


async def test_a_silent_connection_is_dropped(here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unix_listener, "STRANGER_SECONDS", 0.01)
    stranger = here.stranger()
    assert await here.refused.get() == ("a stranger", "it did not send its identity within 0 s")
    assert stranger.recv(1) == b""
    stranger.close()


async def test_many_silent_connections_take_a_bounded_number_of_descriptors_and_keep_no_peer_out(
    here: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unix_listener, "STRANGER_SECONDS", 0.5)
    before = len(list(Path("/proc/self/fd").iterdir()))  # noqa: ASYNC240
    strangers = [here.stranger() for _ in range(3 * unix_listener.MOST_STRANGERS)]
    good = here.stranger(said(b"good") + said(b"1"))
    most = 0
    while here.came.empty():  # accepting raises no event here
        most = max(most, len(list(Path("/proc/self/fd").iterdir())))  # noqa: ASYNC240
        await asyncio.sleep(0)
    assert await here.came.get() == (b"good", [b"1"])
    # our own ends are in this process too
    assert most - before - len(strangers) - 1 <= unix_listener.MOST_STRANGERS + 2
    for stranger in (*strangers, good):
        stranger.close()


async def test_a_process_without_a_free_descriptor_reports_it_and_accepts_again_when_it_has_one(
    here: Here,
) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    good = here.stranger(said(b"good") + said(b"1"))
    resource.setrlimit(resource.RLIMIT_NOFILE, (1, hard))
    try:
        who, why = await here.refused.get()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert (who, "Too many open files" in why) == ("a stranger", True)
    assert await here.came.get() == (b"good", [b"1"])
    good.close()


async def test_a_connection_that_claims_to_be_a_connected_peer_is_refused_and_the_peer_goes_on(
    here: Here,
) -> None:
    peer = here.stranger(said(b"peer") + said(b"1"))
    assert await here.came.get() == (b"peer", [b"1"])
    liar = here.stranger(said(b"peer") + said(b"2"))
    assert await here.refused.get() == (
        "peer",
        ("a second connection claims to be this peer, which is connected"),
    )
    assert liar.recv(1) == b""
    peer.sendall(said(b"3"))
    assert await here.came.get() == (b"peer", [b"3"])
    assert here.listener.answer(b"peer", [b"hello"])
    assert peer.recv(100) == said(b"hello")
    liar.close()
    peer.close()


async def test_a_peer_that_left_may_come_back(here: Here) -> None:
    for number in (b"1", b"2"):
        peer = here.stranger(said(b"peer") + said(number))
        assert await here.came.get() == (b"peer", [number])
        peer.close()
        async with asyncio.timeout(60):
            # the peer's leaving raises no event here
            while here.listener.answer(b"peer", [b"?"]):  # noqa: ASYNC110
                await asyncio.sleep(0)


async def test_an_answer_to_a_peer_that_left_is_refused(here: Here) -> None:
    stranger = here.stranger(said(b"peer") + said(b"1"))
    await here.came.get()
    stranger.close()
    async with asyncio.timeout(60):
        # the peer's leaving raises no event here
        while here.listener.answer(b"peer", [b"?"]):  # noqa: ASYNC110
            await asyncio.sleep(0)


async def test_a_port_reports_once_that_its_peer_has_gone_and_drops_later_messages(
    tmp_path: Path,
) -> None:
    here = Here(tmp_path)
    lost = 0
    gone = asyncio.Event()

    def on_lost() -> None:
        nonlocal lost
        lost += 1
        gone.set()

    port = here.ports.connect(
        "peer", here.listener.address, "bulk", b"me", lambda frames: None, on_lost
    )
    port.send([b"1"])
    assert await here.came.get() == (b"me", [b"1"])
    here.listener.close()
    for _ in range(10):
        port.send([b"x" * 100, bytes(COPY_BELOW)])
    await gone.wait()
    port.send([b"2"])
    port.send([bytes(COPY_BELOW)])
    await here.ports.close()
    assert lost == 1


async def test_a_connection_to_an_address_without_a_listener_breaks(tmp_path: Path) -> None:
    ports = UnixPorts(LIMITS)
    gone = asyncio.Event()
    port = ports.connect(
        "peer", f"unix://{tmp_path}/nobody", "control", b"me", lambda frames: None, gone.set
    )
    port.send([b"1"])
    await gone.wait()
    port.close(flush=True)
    await ports.close()


async def test_the_file_of_a_dead_process_is_replaced_and_that_of_a_living_one_is_not(
    tmp_path: Path,
) -> None:
    dead = socket.socket(socket.AF_UNIX)
    dead.bind(str(tmp_path / "here"))
    dead.close()
    here = Here(tmp_path)
    with pytest.raises(
        LaunchError, match=(f"process 'worker' cannot listen on unix://{tmp_path}/here: .*in use")
    ):
        await road("worker", f"unix://{tmp_path}/here").open()
    stranger = here.stranger(said(b"me") + said(b"1"))
    assert await here.came.get() == (b"me", [b"1"])
    stranger.close()
    here.listener.close()
    (tmp_path / "here").write_text("somebody's notes")
    with pytest.raises(LaunchError, match="in use"):
        await road("worker", f"unix://{tmp_path}/here").open()
    assert (tmp_path / "here").read_text() == "somebody's notes"


async def test_a_peer_that_does_not_read_holds_up_neither_the_loop_nor_other_peers(
    here: Here,
) -> None:
    ends = socket.socketpair()
    deaf = Stream(ends[0], LARGEST)
    for _ in range(20):
        deaf.send([bytes(LARGEST)])
    port = here.ports.connect(
        "peer", here.listener.address, "bulk", b"me", lambda frames: None, lambda: None
    )
    port.send([b"1"])
    assert await here.came.get() == (b"me", [b"1"])
    deaf.close(flush=False)
    ends[1].close()


async def test_closing_sends_pending_messages_first(here: Here) -> None:
    ports = UnixPorts(LIMITS)
    port = ports.connect(
        "peer", here.listener.address, "bulk", b"me", lambda frames: None, lambda: None
    )
    for number in range(4):
        port.send([filled(number, LARGEST)])
    port.close(flush=True)
    await ports.close()
    for number in range(4):
        assert await here.came.get() == (b"me", [filled(number, LARGEST)])


async def test_messages_that_arrive_before_their_sender_leaves_are_all_delivered(
    here: Here,
) -> None:
    stranger = here.stranger(
        said(b"me") + b"".join(said(str(number).encode()) for number in range(3 * BATCH))
    )
    stranger.close()
    assert [await here.came.get() for _ in range(3 * BATCH)] == [
        (b"me", [str(number).encode()]) for number in range(3 * BATCH)
    ]


def road(name: str, address: str, rejected: list[MessageError] | None = None) -> SocketTransport:
    """A transport that listens at one address only."""

    def deliver(envelope: Envelope, size: int, release: Release) -> None:
        release()

    def reject(peer: str, error: MessageError) -> None:
        assert rejected is not None
        rejected.append(error)

    where = {"control": (address,), "bulk": (f"{address}.bulk",)}
    return SocketTransport(
        name, deliver, reject, Limits(), incarnation=1, bind=lambda lane: where[lane]
    )


async def test_nonsense_is_rejected_with_its_reason_and_counted(tmp_path: Path) -> None:
    rejected: list[MessageError] = []
    listening = road("worker", f"unix://{tmp_path}/w", rejected)
    ends = await listening.open()
    stranger = socket.socket(socket.AF_UNIX)
    stranger.connect(ends.control[0].removeprefix("unix://"))
    stranger.sendall(said(b"evil/1.5") + said(b"\xc1 not msgpack") + b"\xff" * 64)
    async with asyncio.timeout(60):
        while len(rejected) < 2:  # noqa: ASYNC110  # rejections raise no event here
            await asyncio.sleep(0)
    assert [error.reason for error in rejected] == ["bad_header", "bad_header"]
    stranger.close()
    await listening.close()
    assert list(tmp_path.iterdir()) == []  # noqa: ASYNC240


def test_a_process_that_uses_unix_sockets_only_starts_no_thread_of_zeromq(
    tmp_path: Path,
) -> None:
    def threads() -> int:
        return len(list(Path("/proc/self/task").iterdir()))

    async def more() -> int:
        before = threads()
        listening = road("worker", f"unix://{tmp_path}/w")
        await listening.open()
        found = threads() - before
        await listening.close()
        return found

    assert asyncio.run(more()) == 0


@pytest.mark.parametrize("size", [99, 100, 101])
def test_a_small_frame_may_be_too_large_too(size: int) -> None:
    async def exchange() -> None:
        ours, theirs = socket.socketpair()
        stream = Stream(theirs, 100)
        came: asyncio.Queue[Frames] = asyncio.Queue()
        stream.on_message = came.put_nowait
        ours.sendall(said(filled(3, size)))
        assert await came.get() == ([filled(3, size)] if size <= 100 else [])
        stream.close(flush=False)
        ours.close()

    asyncio.run(exchange())
