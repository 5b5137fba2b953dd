"""Sockets between hosts: ZeroMQ. The only file that imports zmq. Every socket option is set here.

A listener is a ROUTER, a port is a DEALER. Around them, `zmtp` makes the event loop watch the
sockets and limits the connections that have not proven their identity yet.

A link over TCP survives a short interruption: TCP sends again after 0.2, 0.6, 1.4, 3.0 ... s. When
the connection itself breaks, messages may be lost. So ZeroMQ must not reconnect: the link is lost,
and the process reports it.
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
    zmq.RECONNECT_IVL: -1,  # never reconnect: see above
    zmq.HANDSHAKE_IVL: int(strangers.SECONDS * 1000),
    # An idle connection that a device in between has forgotten is noticed after 30 + 6 x 5 s. A
    # shorter time would be wrong: all probes of an idle bulk lane may fall into interruptions that
    # the control lane survives.
    zmq.TCP_KEEPALIVE: 1,
    zmq.TCP_KEEPALIVE_IDLE: 30,
    zmq.TCP_KEEPALIVE_INTVL: 5,
    zmq.TCP_KEEPALIVE_CNT: 6,
    zmq.SNDBUF: SEND_BUFFER,
}
HEARTBEAT = 500  # ms between ZeroMQ's own heartbeats
_LOST = (  # events of a port whose connection broke or could not be made
    zmq.Event.DISCONNECTED  # also after missing heartbeats
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
# the event, and a number: the connection's descriptor or the system's error number
_EVENT = struct.Struct("=HI")
# the address at which ZeroMQ asks whether a peer may connect (RFC 27)
_ZAP = "inproc://zeromq.zap.01"
# sockets of a process: 6 for each peer, with their monitors; ZeroMQ's default is 1023
_SOCKETS = 1 << 14
_SEAL = 64  # bytes; an encrypted frame is 33 bytes longer than its content


def can_encrypt() -> bool:
    """Return whether this ZeroMQ can encrypt links (was built with libsodium). Its wheels can."""
    return bool(zmq.has("curve"))


def key_pair() -> tuple[bytes, bytes]:
    """Return a new public key and its private key, see `Keys`. Needs `can_encrypt()`."""
    public, private = map(z85.decode, zmq.curve_keypair())
    return public, private


class _Socket(Watched):
    """A zmq socket that the event loop watches.

    Calls `on_message(frames)` for each multipart message. `credible`, if given, judges each message
    by its first frame; other messages are dropped.
    """

    def __init__(
        self,
        socket: zmq.Socket[bytes],
        on_message: Callable[[list[Any]], None],
        credible: Callable[[zmq.Frame], bool] | None = None,
    ) -> None:
        self.socket = socket
        self._on_message = on_message
        self._credible = credible
        # reading the option as an attribute (socket.EVENTS) takes three times as long
        self._option = socket.getsockopt
        super().__init__(socket.FD, BATCH, TURN_BYTES)

    def send(self, frames: list[Any]) -> None:
        """Give a message to zmq. Large frames are not copied: they must not change any more."""
        last = len(frames) - 1
        try:
            for place, frame in enumerate(frames):
                self.socket.send(
                    frame, _SEND_MORE if place < last else _NO_WAIT, len(frame) < COPY_BELOW
                )
        finally:
            # sending, even a failed send, may swallow the edge of the socket's descriptor
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
        return len(frame)  # the last frame: the only large one, or one of few


class _Monitor:
    """Calls `on_event(event, number)` for these events of a socket. Make it before the socket binds
    or connects."""

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
    """A port that is a DEALER."""

    def __init__(
        self, dealer: zmq.Socket[bytes], address: str, on_answer: OnAnswer, on_lost: OnLost
    ) -> None:
        self._on_lost: OnLost | None = on_lost
        self._whole, self._part = sizes_at(address)
        self._monitor = _Monitor(dealer, int(_LOST), self._lost)
        dealer.connect(address.replace(CURVE, TCP))
        self._socket = _Socket(dealer, on_answer)

    def _lost(self, event: int, number: int) -> None:
        """Report the loss once, since one broken connection can cause several events."""
        on_lost = self._on_lost
        self._on_lost = None
        if on_lost is not None:
            on_lost()

    def send(self, frames: Frames) -> None:
        # queues have no limit, so Again means a lost connection, which `on_lost` reports
        with suppress(zmq.Again):
            if max(map(len, frames)) <= self._whole:
                self._socket.send(frames)
            else:
                for some in parted(frames, self._whole, self._part):
                    self._socket.send(some)

    def close(self, *, flush: bool) -> None:
        self._monitor.close()
        if flush:
            self._socket.socket.setsockopt(zmq.LINGER, int(CLOSE_SECONDS * 1000))
        self._socket.close()


class ZmqListener(Listener):
    """A listener that is a ROUTER. Two peers cannot have the same identity: a ROUTER receives only
    from the first (RFC 28)."""

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
        # makes an answer to a peer that has left an error, instead of dropping it silently
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
        """Listen at `address`. On TCP the listening socket is made here, and a `Door` lets
        connections in one by one."""

        def take(descriptor: int) -> None:
            router.setsockopt(zmq.USE_FD, descriptor)
            router.bind(address)

        if address.startswith(TCP):
            self._door = Door(address.removeprefix(TCP), take, self._on_refused)
        else:
            router.bind(address)

    def _happened(self, event: int, number: int) -> None:
        """Handle an event of a connection, as the monitor reports it."""
        if event & _NO_HANDSHAKE:
            self._on_refused("a stranger", f"it sent no ZeroMQ handshake to {self.address}")
        elif self._door is not None:
            _AT_DOOR[zmq.Event(event)](self._door, number)

    def _is_its_own(self, identity: zmq.Frame) -> bool:
        """Return whether a message's identity belongs to the owner of the key that encrypted the
        message."""
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
        try:
            self._socket.send([identity, *frames])
        except zmq.ZMQError:
            return False
        return True

    def forget(self, identity: bytes) -> None:
        """Drop the unfinished message of a peer that has left."""
        self._assembly.forget(identity)

    def close(self) -> None:
        if self._door is not None:
            self._door.close()
        self._monitor.close()
        self._socket.close()
        # libzmq does not remove files whose names it did not choose
        if self.address.startswith(IPC):
            Path(self.address.removeprefix(IPC)).unlink(missing_ok=True)


class _Gate(_Socket):
    """Answers ZeroMQ's question whether a peer may connect over TCP. A peer may if it knows the
    run's secret or has the key of a known peer."""

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
    """ZeroMQ sockets for the addresses tcp://..., ipc://... and curve://..., which is TCP with
    encrypted links.

    A port gives up after `dial_seconds` without an answer. It may have to wait while the listener
    deals with peers that have not proven their identity.
    """

    def __init__(
        self, limits: Limits, keys: Keys = NO_KEYS, dial_seconds: float = strangers.DIAL_SECONDS
    ) -> None:
        super().__init__(limits, keys)
        self._dial_seconds = dial_seconds
        freed.keep()
        self._context: zmq.Context[Any] = zmq.Context()
        self._context.set(zmq.MAX_SOCKETS, _SOCKETS)
        # For all sockets, also those of monitors. While the queue of a monitor is full, ZeroMQ's
        # thread waits, and no link carries anything. That queue gets 170 bytes for each connection
        # that comes and leaves while the loop is blocked.
        self._context.setsockopt(zmq.RCVHWM, 0)
        self._gate: _Gate | None = None

    def listen(
        self, address: str, lane: Lane, on_message: OnMessage, on_refused: OnRefused
    ) -> ZmqListener:
        """Listen at `address`; see Ports.listen.

        On ipc, the mode of the file's folder decides which users may connect. On TCP, only peers
        with the secret or a key may.
        """
        guard: _Options = {zmq.ZAP_DOMAIN: USER} if self._guarded(address) else {}
        if address.startswith(CURVE):
            guard |= {zmq.CURVE_SERVER: 1, zmq.CURVE_SECRETKEY: self.keys.private}
        elif guard:
            guard |= {zmq.PLAIN_SERVER: 1}
        # the most bytes of a frame, also of a peer that has not proven its identity
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
        """Connect to a peer; see Ports.connect. Raises LaunchError if the link is encrypted and
        the process has no key for the peer."""
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
        """Close all sockets; see Ports.close."""
        if self._gate is not None:
            self._gate.close()
        # term() returns when the last queued message has left or its linger time is over
        await asyncio.get_running_loop().run_in_executor(None, self._context.term)

    @contextmanager
    def _made(self, kind: int, lane: Lane, guard: _Options) -> Iterator[zmq.Socket[bytes]]:
        """Make a socket, and close it if its use in the `with` block fails. Raises OSError if the
        system or ZeroMQ refuses something."""
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
        # larger frames travel in parts
        options = _OPTIONS | {zmq.MAXMSGSIZE: min(self.limits.message_bytes, PARTS_FROM)}
        if lane == "control":
            # Not on the bulk lane: a peer that receives one large message over a slow connection
            # answers nothing until it has the whole message. Its link would be given up although it
            # works.
            silence = int(self.limits.link_seconds * 1000)
            options |= {
                zmq.HEARTBEAT_IVL: HEARTBEAT,
                zmq.HEARTBEAT_TIMEOUT: silence,
                zmq.HEARTBEAT_TTL: silence,
            }
        return options | guard
