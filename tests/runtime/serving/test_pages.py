"""Admission to the pages: the connections that are accepted, at which rate, and for how long. Where
time decides, the test sets the clock.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from runtime.serving import http_server as pages
from runtime.serving.http_server import (
    ANSWERS,
    CONNECTIONS,
    PER_SECOND,
    REQUEST_BYTES,
    WAITING,
    Server,
)
from runtime.serving.readers import Readers
from tests.helpers.support import get

ASK = b"GET /page HTTP/1.1\r\nHost: here\r\n\r\n"
HELLO = b"hello"


def hello(environ, start):
    start("200 OK", [("Content-Type", "text/plain")])
    return [HELLO]


class Door:
    """A server without a thread: the test runs its loop and sets its clock."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        monkeypatch.setattr(Server, "_serve", lambda self: None)
        self.server = Server(hello, "127.0.0.1", 0, Readers())
        self.loop = self.server._loop
        self.loop.time = lambda: self.now
        self.life = self.loop.create_task(self.server._live())
        self.peers = ExitStack()
        self.turn()

    def turn(self, times: int = 10) -> None:
        for _ in range(times):
            self.loop.call_soon(self.loop.stop)
            self.loop.run_forever()

    def later(self, seconds: float) -> None:
        self.now += seconds
        self.turn()

    def come(self, count: int) -> list[socket.socket]:
        """Open so many connections without waiting for their acceptance."""
        peers = [self.peers.enter_context(socket.socket()) for _ in range(count)]
        for peer in peers:
            peer.setblocking(False)
            peer.connect_ex(("127.0.0.1", self.server.port))
        return peers

    def close(self) -> None:
        self.server.close()
        self.turn()
        assert self.life.done()
        self.peers.close()
        for task in list(self.server._open):
            task.cancel()
        self.turn()
        self.loop.close()


@pytest.fixture
def door(monkeypatch: pytest.MonkeyPatch) -> Iterator[Door]:
    made = Door(monkeypatch)
    yield made
    made.close()


@pytest.fixture
def no_reader_is_admitted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Readers, "admits", lambda *_: False)


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server(hello, "127.0.0.1", 0, Readers())
    yield made
    made.close()
    assert not [thread for thread in threading.enumerate() if thread.name == "metrics"]


def connected(server: Server, count: int = 1) -> list[socket.socket]:
    return [socket.create_connection(("127.0.0.1", server.port), timeout=60) for _ in range(count)]


def ask(peer: socket.socket, request: bytes = ASK) -> bytes:
    """Read the answer up to its body; b"" if the server has closed the connection."""
    said = b""
    with suppress(ConnectionError):
        peer.sendall(request)
        while not said.endswith(HELLO) and (more := peer.recv(4096)):
            said += more
    return said


def heard(peer: socket.socket) -> bytes:
    """Read the bytes that have arrived so far."""
    said = b""
    with suppress(BlockingIOError):
        while more := peer.recv(1 << 16):
            said += more
    return said


# -- admission of connections


@pytest.mark.parametrize("may", [True, False])
def test_a_flood_is_accepted_at_a_bounded_rate_whether_admitted_or_not(
    door: Door, monkeypatch: pytest.MonkeyPatch, may: bool
) -> None:
    monkeypatch.setattr(Readers, "admits", lambda *_: may)
    door.come(WAITING)
    door.turn()
    first = CONNECTIONS if may else WAITING  # an admitted reader has a moment to ask
    assert door.server.taken == first
    for _ in range(100):  # two seconds
        door.come(5)
        door.later(0.02)
    assert first + PER_SECOND <= door.server.taken <= WAITING + 2 * PER_SECOND
    assert len(door.server._refused) <= WAITING
    assert len(door.server._open) <= CONNECTIONS


def test_a_connection_after_a_quiet_time_is_accepted_at_once(door: Door) -> None:
    for number in range(1, 4):
        (peer,) = door.come(1)
        door.turn()
        peer.send(ASK)
        door.turn()
        assert door.server.taken == number
        assert heard(peer).endswith(HELLO)
        door.later(1 / PER_SECOND)


@pytest.mark.usefixtures("no_reader_is_admitted")
def test_a_user_that_may_not_read_gets_a_refusal_at_the_next_look_and_is_closed(door: Door) -> None:
    asking, silent = door.come(2)
    door.turn()
    asking.send(ASK)
    door.later(pages.ASKING_SECONDS / 2)
    for peer in (asking, silent):
        with pytest.raises(BlockingIOError):
            peer.recv(1)
    door.later(pages.ASKING_SECONDS)
    assert heard(asking).startswith(b"HTTP/1.1 403 Forbidden\r\n")
    assert (asking.recv(1), silent.recv(1)) == (b"", b"")


def test_a_reader_that_keeps_its_connection_is_answered_while_no_other_is_accepted(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    (reader,) = connected(server)
    with reader:
        assert ask(reader).endswith(HELLO)
        monkeypatch.setattr(pages, "PER_SECOND", 0.001)
        monkeypatch.setattr(Readers, "admits", lambda *_: False)
        with ExitStack() as crowd:
            for peer in connected(server, WAITING):
                crowd.enter_context(peer)
            for _ in range(3):
                assert ask(reader).endswith(HELLO)
        assert ask(reader, ASK.replace(b"Host: here", b"Connection: close")).endswith(HELLO)
        assert reader.recv(1) == b""


def test_without_a_free_descriptor_for_the_kernel_no_connection_is_admitted_and_the_server_goes_on(
    door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    def trouble(*_: object) -> bool:
        raise OSError(24, os.strerror(24))

    with monkeypatch.context() as patch:
        patch.setattr(Readers, "admits", trouble)
        door.come(1)
        door.turn()
    door.later(pages.ASKING_SECONDS)
    (peer,) = door.come(1)
    door.turn()
    peer.send(ASK)
    door.turn()
    assert heard(peer).endswith(HELLO)


# -- with readers


def test_a_further_reader_takes_the_place_of_the_one_that_was_answered_longest_ago(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "PER_SECOND", 1e6)
    with ExitStack() as all_of_them:
        first, second, *others = [
            all_of_them.enter_context(peer) for peer in connected(server, CONNECTIONS)
        ]
        for peer in (first, second, *others, first):
            assert ask(peer).endswith(HELLO)
        (further,) = connected(server)
        all_of_them.enter_context(further)
        assert ask(further).endswith(HELLO)
        assert ask(second) == b""
        for peer in (first, *others):
            assert ask(peer).endswith(HELLO)


def test_each_request_of_a_burst_is_answered_and_none_is_reset(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "PER_SECOND", 1e6)
    with ExitStack() as all_of_them:
        burst = [all_of_them.enter_context(peer) for peer in connected(server, WAITING)]
        for peer in burst:
            peer.sendall(ASK)
        for peer in burst:
            assert ask(peer, b"").endswith(HELLO)


def test_connections_that_ask_for_nothing_replace_each_other_and_no_reader(door: Door) -> None:
    (reader,) = door.come(1)
    door.turn()
    reader.send(ASK)
    door.turn()
    assert heard(reader).endswith(HELLO)
    for _ in range(3):
        door.come(WAITING)
        door.later(WAITING / PER_SECOND + 0.1)
        assert len(door.server._open) <= CONNECTIONS
    reader.send(ASK)
    door.turn()
    assert heard(reader).endswith(HELLO)
    assert door.server.taken > CONNECTIONS + 1


def test_answers_are_given_at_a_bounded_rate(door: Door) -> None:
    (peer,) = door.come(1)
    door.turn()
    peer.send(ASK * (ANSWERS + 5))
    door.turn(200)
    assert heard(peer).count(HELLO) == ANSWERS
    door.later(0.9)
    assert heard(peer) == b""
    door.later(0.2)
    door.turn(200)
    assert heard(peer).count(HELLO) == 5


def test_a_reader_that_is_silent_for_too_long_is_closed(door: Door) -> None:
    (peer,) = door.come(1)
    door.turn()
    peer.send(ASK)
    door.turn()
    assert heard(peer).endswith(HELLO)
    door.later(pages.SILENT_SECONDS - 1)
    with pytest.raises(BlockingIOError):
        peer.recv(1)
    door.later(2)
    assert peer.recv(1) == b""


@pytest.fixture
def sooner(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drop connections after a second, and accept every connection at once."""
    monkeypatch.setattr(pages, "ANSWER_SECONDS", 1.0)
    monkeypatch.setattr(pages, "PER_SECOND", 1e6)


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.mark.usefixtures("sooner")
def test_idle_connections_cost_a_bounded_number_of_descriptors_and_end_by_themselves(
    server: Server,
) -> None:
    # the first reader opens the socket that asks the kernel for owners
    get(f"http://127.0.0.1:{server.port}/page")
    before = descriptors()
    threads = threading.active_count()
    with ExitStack() as stack:
        idle = [stack.enter_context(peer) for peer in connected(server, 3 * WAITING)]
        assert descriptors() - before - len(idle) <= CONNECTIONS + WAITING
        assert threading.active_count() == threads
        for peer in idle:
            with suppress(ConnectionResetError):
                assert peer.recv(1) == b""
        assert get(f"http://127.0.0.1:{server.port}/page") == "hello"


@pytest.mark.usefixtures("sooner")
@pytest.mark.parametrize(
    "said",
    [
        b"x" * 3 * REQUEST_BYTES,
        b"nonsense\r\n\r\n",
        b"\r\n\r\n",
        b"\xff\xfe \x00 \xff\r\n\r\n",
        b"GET / ",
    ],
)
def test_bytes_that_are_not_a_request_close_the_connection_and_cost_nothing(
    server: Server, said: bytes
) -> None:
    (peer,) = connected(server)
    with peer, suppress(ConnectionResetError, BrokenPipeError):
        peer.sendall(said)
        while peer.recv(4096):
            pass
    assert get(f"http://127.0.0.1:{server.port}/page") == "hello"


@pytest.mark.usefixtures("sooner")
def test_a_request_that_trickles_in_is_closed_too(server: Server) -> None:
    (peer,) = connected(server)
    with peer, suppress(ConnectionResetError, BrokenPipeError, TimeoutError):
        peer.settimeout(0.5)
        peer.sendall(b"GET /metrics HTTP/1.1\r\nX: ")
        for _ in range(10):
            peer.sendall(b"y")
            with suppress(TimeoutError):
                if peer.recv(1) == b"":
                    return
        pytest.fail("still open")
