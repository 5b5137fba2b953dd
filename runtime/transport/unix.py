"""Sockets between the processes of one host: Unix stream sockets, written and read on the event loop itself.

ZeroMQ hands each message to a thread of its own at both ends: three threads are woken one after the other. Here the
sender's own call wakes the receiver's loop: an array of 64 KB is with its reader in 150 us instead of 280.

The first message of a connection is the identity of who connected. What is no message ends the connection.
"""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress
from functools import partial
from pathlib import Path
from weakref import WeakSet

from runtime.messages.message import Lane
from runtime.transport.ports import CLOSE_SECONDS, Frames, Listener, OnAnswer, OnLost, OnMessage, Port, Ports
from runtime.transport.stream import Stream

SCHEME = "unix://"
BACKLOG = 4096  # connections that wait to be accepted: the system's own limit
MAX_IDENTITY = 255  # bytes, as in ZeroMQ


class UnixListener(Listener):
    """Where peers connect; the first that each says is its identity."""

    def __init__(self, path: str, message_bytes: int, on_message: OnMessage) -> None:
        self.address = SCHEME + path
        self._path, self._message_bytes, self._on_message = Path(path), message_bytes, on_message
        self._peers: dict[bytes, Stream] = {}
        self._strangers: set[Stream] = set()  # that have not said who they are
        self._socket = _bound(self._path)
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._socket, self._accept)

    def answer(self, identity: bytes, frames: Frames) -> bool:
        """See Listener.answer."""
        stream = self._peers.get(identity)
        if stream is not None:
            stream.send(frames)
        return stream is not None

    def close(self) -> None:
        """See Listener.close."""
        self._loop.remove_reader(self._socket)
        self._socket.close()
        self._path.unlink(missing_ok=True)
        for stream in (*self._peers.values(), *self._strangers):
            stream.close(flush=False)

    def _accept(self) -> None:
        with suppress(BlockingIOError):  # it left again
            connected, _ = self._socket.accept()
            stream = Stream(connected, self._message_bytes)
            stream.on_message, stream.on_end = partial(self._meet, stream), partial(self._strangers.discard, stream)
            self._strangers.add(stream)

    def _meet(self, stream: Stream, frames: Frames) -> None:
        """The first message of a connection."""
        self._strangers.discard(stream)
        identity = bytes(frames[0]) if len(frames) == 1 else b""
        if not 0 < len(identity) <= MAX_IDENTITY:
            stream.close(flush=False)
            self._on_message(b"stranger", [])
            return
        former = self._peers.pop(identity, None)
        if former is not None:  # it connected anew
            former.close(flush=False)
        self._peers[identity] = stream
        stream.on_message, stream.on_end = partial(self._on_message, identity), partial(self._peers.pop, identity)


def _bound(path: Path) -> socket.socket:
    """A socket that listens there. A file that a dead process left is replaced; OSError if somebody listens there."""
    listening = socket.socket(socket.AF_UNIX)
    try:
        if path.is_socket() and not _answers(path):
            path.unlink(missing_ok=True)
        listening.bind(str(path))
        listening.listen(BACKLOG)
        listening.setblocking(False)
    except OSError:
        listening.close()
        raise
    return listening


def _answers(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as trial:
        return trial.connect_ex(str(path)) == 0


class UnixPorts(Ports):
    """Sockets that are files: addresses are unix://<path>, where the file's directory says who may connect."""

    def __init__(self, message_bytes: int) -> None:
        super().__init__(message_bytes)
        self._streams: WeakSet[Stream] = WeakSet()  # what is still to leave keeps its stream

    def listen(self, address: str, lane: Lane, on_message: OnMessage) -> Listener:
        """See Ports.listen."""
        return UnixListener(address.removeprefix(SCHEME), self.message_bytes, on_message)

    def connect(self, address: str, lane: Lane, identity: bytes, on_answer: OnAnswer, on_lost: OnLost | None) -> Port:
        """See Ports.connect."""
        connected = socket.socket(socket.AF_UNIX)
        try:
            connected.connect(address.removeprefix(SCHEME))  # does not wait: the backlog has room for everybody
        except OSError:  # the peer is gone already: be one whose connection breaks
            connected.close()
            connected, other = socket.socketpair()
            other.close()
        stream = Stream(connected, self.message_bytes)
        stream.on_message = on_answer
        stream.on_end = on_lost or stream.on_end
        stream.send([identity])
        self._streams.add(stream)
        return stream

    async def close(self) -> None:
        """See Ports.close."""
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS):
                for stream in list(self._streams):
                    await stream.flushed()
        for stream in list(self._streams):
            stream.close(flush=False)
