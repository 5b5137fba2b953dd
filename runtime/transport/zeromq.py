"""Sockets between hosts: ZeroMQ. The only file that imports zmq; every socket option is set here.

A listener is a ROUTER, a port is a DEALER. `zmtp` is what they need around them: a watch by the
event loop, and a door that lets in few strangers.

A link over TCP outlives a cut: TCP sends again after 0.2, 0.6, 1.4, 3.0 ... s. Once the connection
itself is gone, messages may be lost, so ZeroMQ must not make it anew: the link is lost, and its
process says so.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import zmq
from zmq.utils import z85

from runtime.errors import LaunchError
from runtime.memory import freed
from runtime.messages.message import Lane
from runtime.transport.frame_parts import CURVE, IPC, PARTS_FROM, TCP, Assembly, parted, sizes_at
from runtime.transport.interface import Limits
from runtime.transport.keys import NO_KEYS, USER, Keys, pretends
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
from runtime.transport.zmtp import strangers
from runtime.transport.zmtp.door import SEND_BUFFER, Door
from runtime.transport.zmtp.watched import Watched

_NO_WAIT = int(zmq.DONTWAIT)
_READABLE = int(zmq.POLLIN)
_SEND_MORE = _NO_WAIT | int(zmq.SNDMORE)

_Options = dict[zmq.SocketOption, int | bytes]
_OPTIONS: _Options = {
    zmq.LINGER: 0,  # a stop never waits for a dead peer; close() flushes first
    zmq.SNDHWM: 0,  # byte credits bound the queue; a message count would bound nothing
    zmq.RECONNECT_IVL: -1,  # never: see above
    zmq.HANDSHAKE_IVL: int(strangers.SECONDS * 1000),
    # An idle connection that somebody between forgot is noticed after 30 + 6 x 5 s. Not sooner: the
    # probes of an idle bulk lane may all fall into cuts that come one after another, which the
    # control lane outlives.
    zmq.TCP_KEEPALIVE: 1,
    zmq.TCP_KEEPALIVE_IDLE: 30,
    zmq.TCP_KEEPALIVE_INTVL: 5,
    zmq.TCP_KEEPALIVE_CNT: 6,
    zmq.SNDBUF: SEND_BUFFER,
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
_AT_DOOR = {  # events of a listener's connections
    zmq.Event.ACCEPTED: Door.accepted,
    zmq.Event.ACCEPT_FAILED: Door.not_accepted,
    zmq.Event.HANDSHAKE_SUCCEEDED: Door.proven,
    zmq.Event.DISCONNECTED: Door.left,
}
# the event, and a number: the connection's descriptor, or an error of the system
_EVENT = struct.Struct("=HI")
_ZAP = "inproc://zeromq.zap.01"  # where ZeroMQ asks who may connect (RFC 27)
# of a process: 6 for each peer, with those that watch them; ZeroMQ's own limit is 1023
_SOCKETS = 1 << 14
_SEAL = 64  # bytes: an encrypted frame is 33 longer than what is in it


def can_encrypt() -> bool:
    """Was this ZeroMQ built with what encrypts links (libsodium)? Its wheels are."""
    return bool(zmq.has("curve"))


def key_pair() -> tuple[bytes, bytes]:
    """A new public key and its private one, see `Keys`. Only where `can_encrypt()`."""
    public, private = map(z85.decode, zmq.curve_keypair())
    return public, private


class _Socket(Watched):
    """A zmq socket watched by the event loop: calls `on_message(frames)` for each multipart message
    that is `credible`, as its first frame shows."""

    def __init__(
        self,
        socket: zmq.Socket[bytes],
        on_message: Callable[[list[Any]], None],
        credible: Callable[[zmq.Frame], bool] | None = None,
    ) -> None:
        self.socket = socket
        self._on_message = on_message
        self._credible = credible
        # asking for an attribute of that name takes three times as long
        self._option = socket.getsockopt
        super().__init__(socket.FD, BATCH, TURN_BYTES)

    def send(self, frames: list[Any]) -> None:
        """Hand a message to zmq. Large frames are not copied: they must not change any more."""
        last = len(frames) - 1
        try:
            for place, frame in enumerate(frames):
                self.socket.send(
                    frame, _SEND_MORE if place < last else _NO_WAIT, len(frame) < COPY_BELOW
                )
        finally:
            # sending, also in vain, may swallow the edge of the socket's descriptor
            self.look_later()

    def close(self) -> None:
        super().close()
        self.socket.close()

    def _has_messages(self) -> bool:
        return bool(int(self._option(zmq.EVENTS)) & _READABLE)

    def _take(self) -> int:
        receive = self.socket.recv
        try:
            first = frame = receive(_NO_WAIT, False)
        except zmq.Again:
            return -1
        frames = [frame.bytes if len(frame) < COPY_BELOW else frame.buffer]
        while frame.more:
            frame = receive(0, False)
            frames.append(frame.bytes if len(frame) < COPY_BELOW else frame.buffer)
        if self._credible is None or self._credible(first):
            self._on_message(frames)
        return len(frame)  # of the last: the only large one, or one of few


class _Monitor:
    """Calls `on_event(event, number)` for these events of a socket; to be made before it binds or
    connects."""

    def __init__(
        self, socket: zmq.Socket[bytes], events: int, on_event: Callable[[int, int], None]
    ) -> None:
        self._watched = socket
        self._socket = _Socket(
            socket.get_monitor_socket(events), lambda frames: on_event(*_EVENT.unpack(frames[0]))
        )

    def close(self) -> None:
        self._watched.disable_monitor()
        self._socket.close()


class ZmqPort(Port):
    """A DEALER."""

    def __init__(
        self, dealer: zmq.Socket[bytes], address: str, on_answer: OnAnswer, on_lost: OnLost
    ) -> None:
        self._on_lost: OnLost | None = on_lost
        self._whole, self._part = sizes_at(address)
        self._monitor = _Monitor(dealer, int(_LOST), self._lost)
        dealer.connect(address.replace(CURVE, TCP))
        self._socket = _Socket(dealer, on_answer)

    def _lost(self, event: int, number: int) -> None:
        """One broken connection can be several events."""
        on_lost = self._on_lost
        self._on_lost = None
        if on_lost is not None:
            on_lost()

    def send(self, frames: Frames) -> None:
        """See Port.send."""
        # queues have no limit: its connection is lost, as `on_lost` tells
        with suppress(zmq.Again):
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
        self,
        router: zmq.Socket[bytes],
        address: str,
        message_bytes: int,
        on_message: OnMessage,
        on_refused: OnRefused,
    ) -> None:
        self._on_message = on_message
        self._on_refused = on_refused
        self._assembly = Assembly(message_bytes)
        self._door: Door | None = None
        # an answer to a peer that left is an error, not a silent drop
        router.setsockopt(zmq.ROUTER_MANDATORY, 1)
        self._monitor = _Monitor(router, int(_NO_HANDSHAKE) | sum(_AT_DOOR), self._happened)
        encrypted = address.startswith(CURVE)
        try:
            self._bind(router, address.replace(CURVE, TCP))
        except (zmq.ZMQError, OSError):
            self._monitor.close()
            raise
        self.address = str(router.get_string(zmq.LAST_ENDPOINT)).replace(
            TCP, CURVE if encrypted else TCP
        )
        self._socket = _Socket(router, self._arrived, self._is_its_own if encrypted else None)

    def _bind(self, router: zmq.Socket[bytes], address: str) -> None:
        """Listen there. On TCP the listening socket is ours, and strangers come in one by one."""

        def take(descriptor: int) -> None:
            router.setsockopt(zmq.USE_FD, descriptor)
            router.bind(address)

        if address.startswith(TCP):
            self._door = Door(address.removeprefix(TCP), take, self._on_refused)
        else:
            router.bind(address)

    def _happened(self, event: int, number: int) -> None:
        """What the monitor says of a connection."""
        if event & _NO_HANDSHAKE:
            self._on_refused("a stranger", f"it sent no handshake of ZeroMQ's to {self.address}")
        elif self._door is not None:
            _AT_DOOR[zmq.Event(event)](self._door, number)

    def _is_its_own(self, identity: zmq.Frame) -> bool:
        """Whose key a message was sealed with is who it may say it is from."""
        owner = str(identity.get("User-Id"))
        if why := pretends(owner, identity.bytes):
            self._on_refused(owner, why)
        return not why

    def _arrived(self, frames: Frames) -> None:
        identity = frames.pop(0)
        whole = self._assembly.take(identity, frames)
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
        """See Assembly.forget."""
        self._assembly.forget(identity)

    def close(self) -> None:
        """See Listener.close."""
        if self._door is not None:
            self._door.close()
        self._monitor.close()
        self._socket.close()
        if self.address.startswith(IPC):  # libzmq leaves files whose names it did not make
            Path(self.address.removeprefix(IPC)).unlink(missing_ok=True)


class _Gate(_Socket):
    """Answers ZeroMQ's question whether a stranger on TCP may connect: if it knows the secret, or
    has a peer's key."""

    def __init__(self, socket: zmq.Socket[bytes], keys: Keys, on_refused: OnRefused) -> None:
        self._keys = keys
        self._on_refused = on_refused
        socket.bind(_ZAP)
        super().__init__(socket, self._asked)

    def _asked(self, request: Frames) -> None:
        answer, *refused = self._keys.answered(request)
        self.send(answer)
        if refused[1]:
            self._on_refused(*refused)


class ZmqPorts(Ports):
    """Any address of ZeroMQ's: tcp://..., ipc://...; and curve://..., which is TCP with links that
    are encrypted. A port gives up after `dial_seconds` without an answer: it may wait behind
    strangers."""

    def __init__(
        self, limits: Limits, keys: Keys = NO_KEYS, dial_seconds: float = strangers.DIAL_SECONDS
    ) -> None:
        super().__init__(limits, keys)
        self._dial_seconds = dial_seconds
        freed.keep()
        self._context: zmq.Context[Any] = zmq.Context()
        self._context.set(zmq.MAX_SOCKETS, _SOCKETS)
        # Of all sockets, those of monitors too: ZeroMQ's thread waits while their queue is full,
        # and no link carries anything. It fills, 170 bytes each, while the loop is blocked and
        # strangers connect and leave.
        self._context.setsockopt(zmq.RCVHWM, 0)
        self._gate: _Gate | None = None

    def listen(
        self, address: str, lane: Lane, on_message: OnMessage, on_refused: OnRefused
    ) -> ZmqListener:
        """See Ports.listen. A file's directory says who may connect; TCP lets in who has the keys
        for it."""
        guard: _Options = {zmq.ZAP_DOMAIN: USER} if self._guarded(address) else {}
        if address.startswith(CURVE):
            guard |= {zmq.CURVE_SERVER: 1, zmq.CURVE_SECRETKEY: self.keys.private}
        elif guard:
            guard |= {zmq.PLAIN_SERVER: 1}
        # of a frame, also of a stranger's
        most = min(self.limits.message_bytes, sizes_at(address)[0]) + _SEAL
        with self._made(zmq.ROUTER, lane, guard | {zmq.MAXMSGSIZE: most}) as router:
            if guard and self._gate is None:
                self._gate = _Gate(self._context.socket(zmq.REP), self.keys, on_refused)
            return ZmqListener(router, address, self.limits.message_bytes, on_message, on_refused)

    def connect(
        self,
        peer: str,
        address: str,
        lane: Lane,
        identity: bytes,
        on_answer: OnAnswer,
        on_lost: OnLost,
    ) -> Port:
        """See Ports.connect."""
        keys = self.keys
        key = self.keys.peers.get(peer)
        guard: _Options = {
            zmq.ROUTING_ID: identity,
            zmq.HANDSHAKE_IVL: int(self._dial_seconds * 1000),
        }
        if address.startswith(CURVE):
            if not key:
                raise LaunchError(
                    f"links to '{peer}' are encrypted, and this process has no key for them"
                )
            guard |= {
                zmq.CURVE_SERVERKEY: key,
                zmq.CURVE_PUBLICKEY: keys.public,
                zmq.CURVE_SECRETKEY: keys.private,
            }
        elif self._guarded(address):
            guard |= {zmq.PLAIN_USERNAME: USER, zmq.PLAIN_PASSWORD: keys.secret.encode()}
        with self._made(zmq.DEALER, lane, guard) as dealer:
            return ZmqPort(dealer, address, on_answer, on_lost)

    def _guarded(self, address: str) -> bool:
        return address.startswith(CURVE) or (bool(self.keys.secret) and address.startswith(TCP))

    async def close(self) -> None:
        """See Ports.close."""
        if self._gate is not None:
            self._gate.close()
        # term() returns when the last queued message has left or its linger is over
        await asyncio.get_running_loop().run_in_executor(None, self._context.term)

    @contextmanager
    def _made(self, kind: int, lane: Lane, guard: _Options) -> Iterator[zmq.Socket[bytes]]:
        """A socket, which is closed if what is done with it fails. OSError if the system refuses
        something."""
        socket: zmq.Socket[bytes] | None = None
        try:
            socket = self._context.socket(kind)
            for option, value in self._options(lane, guard).items():
                socket.setsockopt(option, value)
            yield socket
        except (zmq.ZMQError, OSError) as error:
            if socket is not None:
                socket.close()
            raise (
                error if isinstance(error, OSError) else OSError(error.errno, str(error))
            ) from None

    def _options(self, lane: Lane, guard: _Options) -> _Options:
        # more travels in parts
        options = _OPTIONS | {zmq.MAXMSGSIZE: min(self.limits.message_bytes, PARTS_FROM)}
        if lane == "control":
            # Not on the bulk lane: a peer that is busy with one large message on a slow road
            # answers nothing until it has the whole of it, and its link would be given up while all
            # is well.
            silence = int(self.limits.link_seconds * 1000)
            options |= {
                zmq.HEARTBEAT_IVL: HEARTBEAT,
                zmq.HEARTBEAT_TIMEOUT: silence,
                zmq.HEARTBEAT_TTL: silence,
            }
        return options | guard
