"""Sockets between processes of one host: Unix stream sockets, read and written by the event loop
itself.

ZeroMQ passes each message through a thread of its own at both ends, so three threads wake one after
the other. Here the sender's own system call wakes the receiver's loop: an array of 64 KB is with
its reader in 150 us instead of 280. `unix_listener` is the listening end.
"""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress
from weakref import WeakSet

from runtime.messages.message import Lane
from runtime.transport.interface import Limits
from runtime.transport.keys import NO_KEYS, Keys
from runtime.transport.ports import (
    CLOSE_SECONDS,
    Listener,
    OnAnswer,
    OnLost,
    OnMessage,
    OnRefused,
    Port,
    Ports,
)
from runtime.transport.socket_files import reachable
from runtime.transport.stream import Stream
from runtime.transport.unix_listener import SCHEME, UnixListener


class UnixPorts(Ports):
    """Sockets that are files: addresses are unix://<path>. The mode of the file's folder decides
    which users may connect."""

    def __init__(self, limits: Limits, keys: Keys = NO_KEYS) -> None:
        super().__init__(limits, keys)
        self._streams: WeakSet[Stream] = WeakSet()  # weak; a stream lives while bytes wait in it

    def listen(
        self, address: str, lane: Lane, on_message: OnMessage, on_refused: OnRefused
    ) -> Listener:
        return UnixListener(
            address.removeprefix(SCHEME), self.limits.message_bytes, on_message, on_refused
        )

    def connect(
        self,
        peer: str,
        address: str,
        lane: Lane,
        identity: bytes,
        on_answer: OnAnswer,
        on_lost: OnLost,
    ) -> Port:
        connected = socket.socket(socket.AF_UNIX)
        try:
            # does not wait: the listen queue has room for all peers
            with reachable(address.removeprefix(SCHEME)) as path:
                connected.connect(path)
        except OSError:  # the peer is gone already: act like a connection that breaks
            connected.close()
            connected, other = socket.socketpair()
            other.close()
        stream = Stream(connected, self.limits.message_bytes)
        stream.on_message = on_answer
        stream.on_end = on_lost
        stream.send([identity])
        self._streams.add(stream)
        return stream

    async def close(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS):
                for stream in list(self._streams):
                    await stream.flushed()
        for stream in list(self._streams):
            stream.close(flush=False)
