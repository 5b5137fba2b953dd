"""Sockets between hosts: ZeroMQ. The only file that imports zmq; every socket option is set here.

A listener is a ROUTER, a port is a DEALER. Sockets are read from the event loop's own file-descriptor watch, at most
BATCH messages a turn, so that a busy socket never starves the loop (60 000 ready messages on a zmq.asyncio socket left
a 5 ms timer no turn for 0.7 s). A wake-up reads one message, which its actor then handles before anybody asks whether
there are more.

A link over TCP outlives a cut: TCP sends again after 0.2, 0.6, 1.4, 3.0 ... s. Once the connection itself is gone,
messages may be lost, so ZeroMQ must not make it anew: the link is lost, and its process says so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import zmq
from zmq.utils import z85

from runtime.errors import LaunchError
from runtime.memory import freed
from runtime.messages.message import Lane
from runtime.transport.base import Limits
from runtime.transport.keys import NO_KEYS, USER, Keys
from runtime.transport.parts import PART, PARTS_FROM, SEALED_PART, FrameParts, parted
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
    OnRefused,
    Port,
    Ports,
)

_NO_WAIT = int(zmq.DONTWAIT)
_READABLE = int(zmq.POLLIN)
_SEND_MORE = _NO_WAIT | int(zmq.SNDMORE)

_Options = dict[zmq.SocketOption, int | bytes]
_OPTIONS: _Options = {
    zmq.LINGER: 0,  # a stop never waits for a dead peer; close() flushes first
    zmq.SNDHWM: 0,  # byte credits bound the queue; a message count would bound nothing
    zmq.RECONNECT_IVL: -1,  # never: see above
    zmq.HANDSHAKE_IVL: 5000,  # who has not said who it is after 5 s is dropped (default 30 s)
    # An idle connection that somebody between forgot is noticed after 30 + 6 x 5 s. Not sooner: the probes of an idle
    # bulk lane may all fall into cuts that come one after another, which the control lane outlives.
    zmq.TCP_KEEPALIVE: 1,
    zmq.TCP_KEEPALIVE_IDLE: 30,
    zmq.TCP_KEEPALIVE_INTVL: 5,
    zmq.TCP_KEEPALIVE_CNT: 6,
    # The system would let 4 MB wait, which leave the caches before they are sent: 1 MB arrays are 1.3 times as fast so.
    # A link of 10 Gbit/s is still full at round trips up to 0.4 ms.
    zmq.SNDBUF: 512 << 10,
}
HEARTBEAT = 500  # ms between ZeroMQ's own signs of life
_LOST = (  # events of a port whose connection broke, or could not be made
    zmq.Event.DISCONNECTED  # also when the peer gives no sign of life
    | zmq.Event.CLOSED
    | zmq.Event.HANDSHAKE_FAILED_NO_DETAIL
    | zmq.Event.HANDSHAKE_FAILED_PROTOCOL
    | zmq.Event.HANDSHAKE_FAILED_AUTH
)
_NO_HANDSHAKE = zmq.Event.HANDSHAKE_FAILED_NO_DETAIL | zmq.Event.HANDSHAKE_FAILED_PROTOCOL
_ZAP = "inproc://zeromq.zap.01"  # where ZeroMQ asks who may connect (RFC 27)
_CURVE, _TCP = "curve://", "tcp://"  # ZeroMQ's own addresses do not say that a link is encrypted
_SOCKETS = 1 << 14  # of a process: 6 for each peer, with those that watch them; ZeroMQ's own limit is 1023
_SEALED = SEALED_PART + 64  # bytes: an encrypted frame is 33 longer than what is in it


def can_encrypt() -> bool:
    """Was this ZeroMQ built with what encrypts links (libsodium)? Its wheels are."""
    return bool(zmq.has("curve"))


def key_pair() -> tuple[bytes, bytes]:
    """A new public key and its private one, see `Keys`. Only where `can_encrypt()`."""
    public, private = map(z85.decode, zmq.curve_keypair())
    return public, private


class _Socket:
    """A zmq socket watched by the event loop: calls `on_message(frames)` for each multipart message that is `credible`,
    as its first frame shows."""

    def __init__(
        self,
        socket: zmq.Socket[bytes],
        on_message: Callable[[list[Any]], None],
        credible: Callable[[zmq.Frame], bool] | None = None,
    ) -> None:
        self.socket = socket
        self._on_message, self._credible = on_message, credible
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
                first = frame = receive(_NO_WAIT, False)
                frames = [frame.bytes if len(frame) < COPY_BELOW else frame.buffer]
                while frame.more:
                    frame = receive(0, False)
                    frames.append(frame.bytes if len(frame) < COPY_BELOW else frame.buffer)
                size += len(frame)  # of the last: the only large one, or one of few
                if self._credible is None or self._credible(first):
                    self._on_message(frames)
        except zmq.Again:
            return
        self._look_later()


class _Monitor:
    """Calls `on_event()` when one of these events happens to a socket; to be made before it binds or connects."""

    def __init__(self, socket: zmq.Socket[bytes], events: int, on_event: Callable[[], None]) -> None:
        self._watched = socket
        self._socket = _Socket(socket.get_monitor_socket(events), lambda frames: on_event())

    def close(self) -> None:
        self._watched.disable_monitor()
        self._socket.close()


class ZmqPort(Port):
    """A DEALER."""

    def __init__(self, dealer: zmq.Socket[bytes], address: str, on_answer: OnAnswer, on_lost: OnLost) -> None:
        self._on_lost: OnLost | None = on_lost
        self._whole, self._part = (SEALED_PART, SEALED_PART) if address.startswith(_CURVE) else (PARTS_FROM, PART)
        self._monitor = _Monitor(dealer, int(_LOST), self._lost)
        dealer.connect(address.replace(_CURVE, _TCP))
        self._socket = _Socket(dealer, on_answer)

    def _lost(self) -> None:
        """One broken connection can be several events."""
        on_lost, self._on_lost = self._on_lost, None
        if on_lost is not None:
            on_lost()

    def send(self, frames: Frames) -> None:
        """See Port.send."""
        with suppress(zmq.Again):  # queues have no limit: its connection is lost, as `on_lost` tells
            if max(map(len, frames)) <= self._whole:
                self._socket.send(frames)
            else:
                for some in parted(frames, self._whole, self._part):
                    self._socket.send(some)

    def close(self, *, flush: bool) -> None:
        """See Port.close."""
        self._monitor.close()
        if flush:
            self._socket.socket.setsockopt(zmq.LINGER, int(CLOSE_SECONDS * 1000))
        self._socket.close()


class ZmqListener(Listener):
    """A ROUTER. Two peers of one identity cannot be: it hears the first alone (RFC 28)."""

    def __init__(
        self, router: zmq.Socket[bytes], address: str, message_bytes: int, on_message: OnMessage, on_refused: OnRefused
    ) -> None:
        self._message_bytes, self._on_message, self._on_refused = message_bytes, on_message, on_refused
        self._parts: dict[bytes, FrameParts] = {}
        router.setsockopt(zmq.ROUTER_MANDATORY, 1)  # an answer to a peer that left is an error, not a silent drop
        refused = partial(on_refused, "a stranger", f"it sent no handshake of ZeroMQ's to {address}")
        self._monitor = _Monitor(router, int(_NO_HANDSHAKE), refused)
        encrypted = address.startswith(_CURVE)
        try:
            router.bind(address.replace(_CURVE, _TCP))
        except zmq.ZMQError as error:
            self._monitor.close()
            router.close()
            raise OSError(str(error)) from None
        bound = str(router.get_string(zmq.LAST_ENDPOINT))
        self.address = bound.replace(_TCP, _CURVE) if encrypted else bound
        self._socket = _Socket(router, self._arrived, self._is_its_own if encrypted else None)

    def _is_its_own(self, identity: zmq.Frame) -> bool:
        """Whose key a message was sealed with is who it may say it is from."""
        owner = identity.get("User-Id")
        if identity.bytes.startswith(f"{owner}/".encode()):
            return True
        claimed = identity.bytes.decode(errors="replace")
        self._on_refused(str(owner), f"it claims to be {claimed}, and its key is that of {owner}")
        return False

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

    def forget(self, identity: bytes) -> None:
        """A peer has left for good: nothing more of it is to be put together."""
        self._parts.pop(identity, None)

    def close(self) -> None:
        """See Listener.close."""
        self._monitor.close()
        self._socket.close()


class _Gate:
    """Answers ZeroMQ's question whether a stranger on TCP may connect: if it knows the secret, or has a peer's key."""

    def __init__(self, socket: zmq.Socket[bytes], keys: Keys, on_refused: OnRefused) -> None:
        self._keys, self._on_refused = keys, on_refused
        socket.bind(_ZAP)
        self._socket = _Socket(socket, self._asked)

    def _asked(self, request: Frames) -> None:
        version, number, _, address, _, mechanism, *credentials = (bytes(frame) for frame in request)
        who, why = self._keys.admitted(mechanism, credentials)
        self._socket.send([version, number, b"200" if who else b"400", b"", who, b""])
        if not who:
            self._on_refused(f"a stranger at {address.decode(errors='replace')}", why)

    def close(self) -> None:
        self._socket.close()


class ZmqPorts(Ports):
    """Any address of ZeroMQ's: tcp://..., ipc://...; and curve://..., which is TCP with links that are encrypted."""

    def __init__(self, limits: Limits, keys: Keys = NO_KEYS) -> None:
        super().__init__(limits, keys)
        freed.keep()
        self._context: zmq.Context[Any] = zmq.Context()
        self._context.set(zmq.MAX_SOCKETS, _SOCKETS)
        # Of all sockets, those of monitors too: ZeroMQ's thread waits while their queue is full, and no link carries
        # anything. It fills, 170 bytes each, while the loop is blocked and strangers connect and leave.
        self._context.setsockopt(zmq.RCVHWM, 0)
        self._gate: _Gate | None = None
        self._files: list[Path] = []

    def listen(self, address: str, lane: Lane, on_message: OnMessage, on_refused: OnRefused) -> ZmqListener:
        """See Ports.listen. A file's directory says who may connect; TCP lets in who has the keys for it."""
        guard: _Options = {zmq.ZAP_DOMAIN: USER} if self._guarded(address) else {}
        if address.startswith(_CURVE):
            guard |= {zmq.CURVE_SERVER: 1, zmq.CURVE_SECRETKEY: self.keys.private, zmq.MAXMSGSIZE: _SEALED}
        elif guard:
            guard |= {zmq.PLAIN_SERVER: 1}
        if guard and self._gate is None:
            self._gate = _Gate(self._context.socket(zmq.REP), self.keys, on_refused)
        router = self._make(zmq.ROUTER, lane, guard)
        listener = ZmqListener(router, address, self.limits.message_bytes, on_message, on_refused)
        if listener.address.startswith("ipc://"):
            self._files.append(Path(listener.address.removeprefix("ipc://")))
        return listener

    def connect(
        self, peer: str, address: str, lane: Lane, identity: bytes, on_answer: OnAnswer, on_lost: OnLost
    ) -> Port:
        """See Ports.connect."""
        keys, key = self.keys, self.keys.peers.get(peer)
        guard: _Options = {zmq.ROUTING_ID: identity}
        if address.startswith(_CURVE):
            if not key:
                raise LaunchError(f"links to '{peer}' are encrypted, and this process has no key for them")
            guard |= {zmq.CURVE_SERVERKEY: key, zmq.CURVE_PUBLICKEY: keys.public, zmq.CURVE_SECRETKEY: keys.private}
        elif self._guarded(address):
            guard |= {zmq.PLAIN_USERNAME: USER, zmq.PLAIN_PASSWORD: keys.secret.encode()}
        return ZmqPort(self._make(zmq.DEALER, lane, guard), address, on_answer, on_lost)

    def _guarded(self, address: str) -> bool:
        return address.startswith(_CURVE) or (bool(self.keys.secret) and address.startswith(_TCP))

    async def close(self) -> None:
        """See Ports.close. Removes the files of ipc addresses: libzmq leaves those whose names it did not make."""
        if self._gate is not None:
            self._gate.close()
        # term() returns when the last queued message has left or its linger is over
        await asyncio.get_running_loop().run_in_executor(None, self._context.term)
        for file in self._files:
            file.unlink(missing_ok=True)

    def _make(self, kind: int, lane: Lane, guard: _Options) -> zmq.Socket[bytes]:
        socket: zmq.Socket[bytes] = self._context.socket(kind)
        options = _OPTIONS | {zmq.MAXMSGSIZE: min(self.limits.message_bytes, PARTS_FROM)}  # more travels in parts
        if lane == "control":
            # Not on the bulk lane: a peer that is busy with one large message on a slow road answers nothing until it
            # has the whole of it, and its link would be given up while all is well.
            silence = int(self.limits.link_seconds * 1000)
            options |= {zmq.HEARTBEAT_IVL: HEARTBEAT, zmq.HEARTBEAT_TIMEOUT: silence, zmq.HEARTBEAT_TTL: silence}
        for option, value in (options | guard).items():
            socket.setsockopt(option, value)
        return socket
