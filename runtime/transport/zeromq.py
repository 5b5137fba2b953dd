"""Sockets between hosts: ZeroMQ. The only file that imports zmq; every socket option is set here.

A listener is a ROUTER, a port is a DEALER. Sockets are read from the event loop's own file-descriptor watch, at most
BATCH messages a turn, so that a busy socket never starves the loop (60 000 ready messages on a zmq.asyncio socket left
a 5 ms timer no turn for 0.7 s). A wake-up reads one message, which its actor then handles before anybody asks whether
there are more.
"""

from __future__ import annotations

import asyncio
import ctypes
from collections.abc import Callable
from pathlib import Path
from typing import Any

import zmq
from zmq.utils.monitor import parse_monitor_message

from runtime.messages.message import Lane
from runtime.transport.parts import PARTS_FROM, FrameParts, parted
from runtime.transport.ports import (
    BATCH,
    CLOSE_SECONDS,
    COPY_BELOW,
    TURN_BYTES,
    Frames,
    Listener,
    OnAnswer,
    OnLost,
    OnMessage,
    Port,
    Ports,
)

_NO_WAIT = int(zmq.DONTWAIT)
_READABLE = int(zmq.POLLIN)
_SEND_MORE = _NO_WAIT | int(zmq.SNDMORE)

_OPTIONS: dict[zmq.SocketOption, int] = {
    zmq.LINGER: 0,  # a stop never waits for a dead peer; close() flushes first
    zmq.SNDHWM: 0,  # byte credits bound the queue; a message count would bound nothing
    zmq.RCVHWM: 0,
    zmq.RECONNECT_IVL: 100,
    zmq.RECONNECT_IVL_MAX: 5000,
    zmq.HANDSHAKE_IVL: 5000,  # a half-open handshake is dropped after 5 s (default 30 s)
    zmq.TCP_KEEPALIVE: 1,
    # The system would let 4 MB wait, which leave the caches before they are sent: 1 MB arrays are 1.3 times as fast so.
    # A link of 10 Gbit/s is still full at round trips up to 0.4 ms.
    zmq.SNDBUF: 512 << 10,
}
# Of the control lane only: a peer that is busy with one large message on a slow road answers no heartbeat until it has
# the whole of it. Its connection would be given up, and the message be lost, while all is well.
_HEARTBEATS: dict[zmq.SocketOption, int] = {
    zmq.HEARTBEAT_IVL: 500,  # ms; a stopped peer process is noticed after 1.5 s
    zmq.HEARTBEAT_TIMEOUT: 1500,
    zmq.HEARTBEAT_TTL: 1500,
}


# Memory that came free after a message is kept for the next one, up to this many bytes. The C library gives it back
# sooner: then every page of a message is made anew, and 1 MB arrays take 1.2 times as long.
KEPT_BYTES = 64 << 20
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # of malloc.h


def _keep_freed_memory() -> None:
    """Tell the C library, if it is glibc."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_TRIM_THRESHOLD, KEPT_BYTES)
        mallopt(_MMAP_THRESHOLD, PARTS_FROM)


class _Socket:
    """A zmq socket watched by the event loop: calls `on_message(frames)` for each multipart message."""

    def __init__(self, socket: zmq.Socket[bytes], on_message: Callable[[list[Any]], None]) -> None:
        self.socket = socket
        self._on_message = on_message
        self._option = socket.getsockopt  # asking for an attribute of that name takes three times as long
        self._loop = asyncio.get_running_loop()
        self._scheduled = False
        self._closed = False
        self._loop.add_reader(socket.FD, self._woken)
        self._look_later()

    def send(self, frames: list[Any]) -> None:
        """Hand a message to zmq. Large frames are not copied: they must not change any more."""
        last = len(frames) - 1
        try:
            for place, frame in enumerate(frames):
                self.socket.send(frame, _SEND_MORE if place < last else _NO_WAIT, len(frame) < COPY_BELOW)
        finally:
            self._look_later()  # sending, also in vain, may swallow the edge of the socket's descriptor

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._loop.remove_reader(self.socket.FD)
            self.socket.close()

    def _woken(self) -> None:
        """The descriptor says that there may be messages."""
        if not self._scheduled:
            self._read(1)

    def _look_later(self) -> None:
        """See in the loop's next turn whether there are messages: once, however many were sent until then."""
        if not self._scheduled and not self._closed:
            self._scheduled = True
            self._loop.call_soon(self._look)

    def _look(self) -> None:
        self._scheduled = False
        if not self._closed and int(self._option(zmq.EVENTS)) & _READABLE:
            self._read(BATCH)

    def _read(self, most: int) -> None:
        receive = self.socket.recv
        try:
            size = 0
            for _ in range(most):
                if self._closed:
                    return
                if size >= TURN_BYTES:
                    break
                frame = receive(_NO_WAIT, False)
                frames = [frame.bytes if len(frame) < COPY_BELOW else frame.buffer]
                while frame.more:
                    frame = receive(0, False)
                    frames.append(frame.bytes if len(frame) < COPY_BELOW else frame.buffer)
                size += len(frame)  # of the last: the only large one, or one of few
                self._on_message(frames)
        except zmq.Again:
            return
        self._look_later()


class ZmqPort(Port):
    """A DEALER."""

    def __init__(self, dealer: zmq.Socket[bytes], on_answer: OnAnswer, on_lost: OnLost | None) -> None:
        self._socket = _Socket(dealer, on_answer)
        self._monitor: _Socket | None = None
        if on_lost is not None:

            def event(frames: Frames) -> None:
                parsed = parse_monitor_message([bytes(frame) for frame in frames])
                if parsed["event"] == zmq.Event.DISCONNECTED:  # also when the peer misses ZMTP heartbeats
                    on_lost()

            self._monitor = _Socket(dealer.get_monitor_socket(zmq.Event.DISCONNECTED), event)

    def send(self, frames: Frames) -> None:
        """See Port.send."""
        if max(map(len, frames)) <= PARTS_FROM:
            self._socket.send(frames)
        else:
            for some in parted(frames):
                self._socket.send(some)

    def close(self, *, flush: bool) -> None:
        """See Port.close."""
        if self._monitor is not None:
            self._socket.socket.disable_monitor()
            self._monitor.close()
        if flush:
            self._socket.socket.setsockopt(zmq.LINGER, int(CLOSE_SECONDS * 1000))
        self._socket.close()


class ZmqListener(Listener):
    """A ROUTER."""

    def __init__(self, router: zmq.Socket[bytes], address: str, message_bytes: int, on_message: OnMessage) -> None:
        self._message_bytes, self._on_message = message_bytes, on_message
        self._parts: dict[bytes, FrameParts] = {}
        router.setsockopt(zmq.ROUTER_MANDATORY, 1)  # an answer to a peer that left is an error, not a silent drop
        try:
            router.bind(address)
        except zmq.ZMQError as error:
            router.close()
            raise OSError(str(error)) from None
        self.address = str(router.get_string(zmq.LAST_ENDPOINT))
        self._socket = _Socket(router, self._arrived)

    def _arrived(self, frames: Frames) -> None:
        identity = frames.pop(0)
        parts = self._parts.get(identity)
        if parts is None:
            parts = self._parts[identity] = FrameParts(self._message_bytes)
        whole = parts.take(frames)
        if whole is not None:
            self._on_message(identity, whole)

    def answer(self, identity: bytes, frames: Frames) -> bool:
        """See Listener.answer."""
        try:
            self._socket.send([identity, *frames])
        except zmq.ZMQError:
            return False
        return True

    def close(self) -> None:
        """See Listener.close."""
        self._socket.close()


class ZmqPorts(Ports):
    """Any address of ZeroMQ's: tcp://..., ipc://..."""

    def __init__(self, message_bytes: int) -> None:
        super().__init__(message_bytes)
        _keep_freed_memory()
        self._context: zmq.Context[Any] = zmq.Context()
        self._files: list[Path] = []

    def listen(self, address: str, lane: Lane, on_message: OnMessage) -> Listener:
        """See Ports.listen."""
        listener = ZmqListener(self._make(zmq.ROUTER, lane), address, self.message_bytes, on_message)
        if listener.address.startswith("ipc://"):
            self._files.append(Path(listener.address.removeprefix("ipc://")))
        return listener

    def connect(self, address: str, lane: Lane, identity: bytes, on_answer: OnAnswer, on_lost: OnLost | None) -> Port:
        """See Ports.connect."""
        dealer = self._make(zmq.DEALER, lane)
        dealer.setsockopt(zmq.ROUTING_ID, identity)
        dealer.connect(address)
        return ZmqPort(dealer, on_answer, on_lost)

    async def close(self) -> None:
        """See Ports.close. Removes the files of ipc addresses: libzmq leaves those whose names it did not make."""
        # term() returns when the last queued message has left or its linger is over
        await asyncio.get_running_loop().run_in_executor(None, self._context.term)
        for file in self._files:
            file.unlink(missing_ok=True)

    def _make(self, kind: int, lane: Lane) -> zmq.Socket[bytes]:
        socket: zmq.Socket[bytes] = self._context.socket(kind)
        for option, value in (_OPTIONS | (_HEARTBEATS if lane == "control" else {})).items():
            socket.setsockopt(option, value)
        socket.setsockopt(zmq.MAXMSGSIZE, self.message_bytes)
        return socket
