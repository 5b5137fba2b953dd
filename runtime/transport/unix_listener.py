"""The listening end of Unix sockets.

The first message of a connection is the identity of the process that connected: 255 bytes at most,
within 5 s. Bytes that are not a message end the connection. A process that claims the identity of a
connected peer is refused.
"""

from __future__ import annotations

import asyncio
import socket
from functools import partial
from pathlib import Path

from runtime.reasons import reason
from runtime.transport.ports import Frames, Listener, OnMessage, OnRefused
from runtime.transport.socket_files import reachable
from runtime.transport.stream import Stream

SCHEME = "unix://"
BACKLOG = 4096  # connections that wait to be accepted; the system's own limit
MAX_IDENTITY = 255  # bytes, as in ZeroMQ
STRANGER_SECONDS = 5.0  # time to send the identity
# Connections without an identity yet. More of them wait to be accepted, where they take no
# descriptor of this process.
MOST_STRANGERS = 128


class UnixListener(Listener):
    """Accepts connections of peers. The first message of each connection is the peer's identity."""

    def __init__(
        self, path: str, message_bytes: int, on_message: OnMessage, on_refused: OnRefused
    ) -> None:
        self.address = SCHEME + path
        self._path = Path(path)
        self._message_bytes = message_bytes
        self._on_message = on_message
        self._on_refused = on_refused
        self._peers: dict[bytes, Stream] = {}
        # connections that have not sent their identity, and the timers that end their time
        self._strangers: dict[Stream, asyncio.TimerHandle] = {}
        self._socket = _bound(self._path)
        self._loop = asyncio.get_running_loop()
        self._accepting = self._open = True
        self._loop.add_reader(self._socket, self._accept)

    def answer(self, identity: bytes, frames: Frames) -> bool:
        stream = self._peers.get(identity)
        if stream is not None:
            stream.send(frames)
        return stream is not None

    def close(self) -> None:
        self._open = False
        self._loop.remove_reader(self._socket)
        self._socket.close()
        self._path.unlink(missing_ok=True)
        for stream in (*self._peers.values(), *self._strangers):
            stream.close(flush=False)
        for until in self._strangers.values():
            until.cancel()

    def _accept(self) -> None:
        try:
            connected, _ = self._socket.accept()
        except BlockingIOError:  # the peer has left again
            return
        except OSError as error:  # this process has no descriptor left
            self._on_refused("a stranger", f"it cannot be accepted: {reason(error)}")
            self._pause()
            self._loop.call_later(1.0, self._resume)
            return
        stream = Stream(connected, MAX_IDENTITY)
        stream.allow(MAX_IDENTITY, frames=1)
        stream.on_message = partial(self._meet, stream)
        stream.on_end = partial(self._forget, stream)
        why = f"it did not send its identity within {STRANGER_SECONDS:.0f} s"
        self._strangers[stream] = self._loop.call_later(
            STRANGER_SECONDS, self._refuse, stream, "a stranger", why
        )
        if len(self._strangers) == MOST_STRANGERS:
            self._pause()

    def _meet(self, stream: Stream, frames: Frames) -> None:
        """Take the first message of a connection, the identity."""
        identity = bytes(frames[0]) if len(frames) == 1 else b""
        if not identity:
            self._refuse(stream, "a stranger", "it did not send its identity")
        elif identity in self._peers:
            who = identity.decode(errors="replace")
            self._refuse(
                stream, who, ("a second connection claims to be this peer, which is connected")
            )
        else:
            self._forget(stream)
            self._peers[identity] = stream
            stream.allow(self._message_bytes)
            stream.on_message = partial(self._on_message, identity)
            stream.on_end = partial(self._peers.pop, identity)

    def _refuse(self, stream: Stream, who: str, why: str) -> None:
        self._forget(stream)
        stream.close(flush=False)
        self._on_refused(who, why)

    def _forget(self, stream: Stream) -> None:
        """Remove a connection from the strangers."""
        self._strangers.pop(stream).cancel()
        self._resume()

    def _pause(self) -> None:
        self._accepting = False
        self._loop.remove_reader(self._socket)

    def _resume(self) -> None:
        if self._open and not self._accepting and len(self._strangers) < MOST_STRANGERS:
            self._accepting = True
            self._loop.add_reader(self._socket, self._accept)


def _bound(path: Path) -> socket.socket:
    """Return a socket that listens at `path`.

    A file that a dead process left is replaced. Raises OSError if another process listens there.
    """
    listening = socket.socket(socket.AF_UNIX)
    try:
        if path.is_socket() and not _answers(path):
            path.unlink(missing_ok=True)
        with reachable(str(path)) as name:
            listening.bind(name)
        listening.listen(BACKLOG)
        listening.setblocking(False)
    except OSError:
        listening.close()
        raise
    return listening


def _answers(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as trial, reachable(str(path)) as name:
        return trial.connect_ex(name) == 0
