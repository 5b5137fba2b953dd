"""The road between processes: ZeroMQ. The only file that imports zmq; every socket option is set here.

A process binds one ROUTER per lane and connects one DEALER per peer and lane. Messages flow DEALER -> ROUTER;
credit grants flow back on the same pair, so no other link is needed to bound memory. Sockets are read from the
event loop's own file-descriptor watch, at most BATCH messages a turn, so that a busy socket never starves the
loop (60 000 ready messages on a zmq.asyncio socket left a 5 ms timer no turn for 0.7 s). A wake-up reads one
message, which its actor then handles before anybody asks whether there are more.
"""

from __future__ import annotations

import asyncio
import os
import struct
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import zmq
from zmq.utils.monitor import parse_monitor_message

from runtime import wire
from runtime.arena import Arena, Array, Window
from runtime.credits import CreditGate, GrantBook, cost_of
from runtime.errors import ActorStopped, LaunchError, MessageError
from runtime.messages import Envelope, Lane
from runtime.transport.base import Deliver, Endpoints, Limits, Reject, Transport
from runtime.transport.shared import SharedMemory

BATCH = 64  # messages read per turn of the loop: 8 ms at most between turns, at full throughput
COPY_BELOW = 64 << 10  # bytes; below this a copy is cheaper than zmq's bookkeeping for shared memory, on both sides
CLOSE_SECONDS = 1.0  # how long a clean stop waits for queued messages to leave
_GRANT = struct.Struct("!Q")
_NO_WAIT = int(zmq.DONTWAIT)
_READABLE = int(zmq.POLLIN)
_SEND_MORE = _NO_WAIT | int(zmq.SNDMORE)
_LANES: tuple[Lane, Lane] = ("control", "bulk")

_OPTIONS: dict[zmq.SocketOption, int] = {
    zmq.LINGER: 0,  # a stop never waits for a dead peer; close() flushes first
    zmq.SNDHWM: 0,  # byte credits bound the queue; a message count would bound nothing
    zmq.RCVHWM: 0,
    zmq.RECONNECT_IVL: 100,
    zmq.RECONNECT_IVL_MAX: 5000,
    zmq.HANDSHAKE_IVL: 5000,  # a half-open handshake is dropped after 5 s (default 30 s)
    zmq.TCP_KEEPALIVE: 1,
}
# Of the control lane only: a peer that is busy with one large message on a slow road answers no heartbeat until it has
# the whole of it. Its connection would be given up, and the message be lost, while all is well.
_HEARTBEATS: dict[zmq.SocketOption, int] = {
    zmq.HEARTBEAT_IVL: 500,  # ms; a stopped peer process is noticed after 1.5 s
    zmq.HEARTBEAT_TIMEOUT: 1500,
    zmq.HEARTBEAT_TTL: 1500,
}


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
            for _ in range(most):
                if self._closed:
                    return
                frame = receive(_NO_WAIT, False)
                frames = [frame.bytes if len(frame) < COPY_BELOW else frame.buffer]
                while frame.more:
                    frame = receive(0, False)
                    frames.append(frame.bytes if len(frame) < COPY_BELOW else frame.buffer)
                self._on_message(frames)
        except zmq.Again:
            return
        self._look_later()


class _Link:
    """To one peer on one lane: a DEALER and its credits."""

    def __init__(self, context: zmq.Context[Any], identity: bytes, endpoint: str, limits: Limits, lane: Lane) -> None:
        self.gate = CreditGate(limits.credit_of(lane))
        dealer = _make_socket(context, zmq.DEALER, limits, lane)
        dealer.setsockopt(zmq.ROUTING_ID, identity)
        dealer.connect(endpoint)
        self.port = _Socket(dealer, self._granted)
        self.on_returned: Callable[[list[int]], None] = lambda offsets: None
        self.monitor: _Socket | None = None

    def watch(self, on_lost: Callable[[], None]) -> None:
        """Call `on_lost` when the connection breaks (also when the peer misses ZMTP heartbeats)."""

        def event(frames: list[Any]) -> None:
            parsed = parse_monitor_message([bytes(frame) for frame in frames])
            if parsed["event"] == zmq.Event.DISCONNECTED:
                on_lost()

        monitor = self.port.socket.get_monitor_socket(zmq.Event.DISCONNECTED)
        self.monitor = _Socket(monitor, event)

    def close(self, why: str) -> None:
        self.gate.close(why)
        if self.monitor is not None:
            self.port.socket.disable_monitor()
            self.monitor.close()
        self.port.close()

    def _granted(self, frames: list[Any]) -> None:
        if len(frames) == 1 and frames[0] and not len(frames[0]) % _GRANT.size:
            (granted,), *offsets = _GRANT.iter_unpack(frames[0])
            self.on_returned([offset for (offset,) in offsets])  # first: who gets credits may need the memory
            self.gate.grant(granted)


class _Source:
    """From one peer on one lane: what it is owed."""

    def __init__(self, peer: str, pid: int, book: GrantBook, grant: Callable[[int], None]) -> None:
        self.peer, self.pid = peer, pid
        self._book, self._grant = book, grant

    def release(self, size: int) -> None:
        """A message of `size` bytes is done with; the peer hears of it when it is worth a message."""
        due = self._book.release(cost_of(size))
        if due:
            self._grant(due)


class _Borrow:
    """What one message takes of its sender's memory."""

    def __init__(self, window: Window | None) -> None:
        self.window = window
        self.size = 0

    def __call__(self, offset: int, size: int) -> Array:
        if self.window is None:
            raise MessageError("bad_shape", f"{size} bytes at {offset} of shared memory that is not mapped here")
        self.size += size
        return self.window.bytes_at(offset, size)


class ZmqTransport(Transport):
    """Transport over ZeroMQ sockets.

    `bind(lane)` gives the address to listen on ("ipc://...", "tcp://127.0.0.1:*", ...).
    `on_link_lost(peer)`, if given, is called when the connection to a peer breaks. With an `arena`, arrays that lie in
    it stay there for peers who have one too: only their place travels.
    """

    def __init__(
        self,
        process: str,
        deliver: Deliver,
        reject: Reject,
        limits: Limits,
        *,
        incarnation: int,
        bind: Callable[[Lane], str],
        on_link_lost: Callable[[str], None] | None = None,
        arena: Arena | None = None,
    ) -> None:
        super().__init__(process, deliver, reject, limits)
        self._identity = f"{process}/{incarnation}.{os.getpid()}".encode()
        self._bind = bind
        self._on_link_lost = on_link_lost
        self._context: zmq.Context[Any] = zmq.Context()
        self._routers: dict[Lane, _Socket] = {}
        self._links: dict[tuple[str, Lane], _Link] = {}
        self._sources: dict[tuple[Lane, bytes], _Source] = {}
        self._identities: dict[str, bytes] = {}  # of the peers whose arrays are read in place
        self._shared = SharedMemory(process, arena, self._return) if arena is not None else None

    async def open(self) -> Endpoints:
        """Bind both lanes. LaunchError names the address that is taken."""
        bound = {lane: self._bind_lane(lane) for lane in _LANES}
        return Endpoints(bound["control"], bound["bulk"], self._shared.arena.address if self._shared else "")

    def _bind_lane(self, lane: Lane) -> str:
        router = _make_socket(self._context, zmq.ROUTER, self.limits, lane)
        router.setsockopt(zmq.ROUTER_MANDATORY, 1)  # a grant to a peer that left is an error, not a silent drop
        address = self._bind(lane)
        try:
            router.bind(address)
        except zmq.ZMQError as error:
            router.close()
            raise LaunchError(f"process '{self.process}' cannot listen on {address}: {error}") from None
        self._routers[lane] = _Socket(router, lambda frames: self._arrived(lane, frames))
        return str(router.get_string(zmq.LAST_ENDPOINT))

    def connect(self, peer: str, endpoints: Endpoints) -> None:
        """See Transport.connect."""
        for lane in _LANES:
            former = self._links.pop((peer, lane), None)
            if former is not None:
                former.close(f"{peer} was started anew")
            link = _Link(self._context, self._identity, getattr(endpoints, lane), self.limits, lane)
            self._links[peer, lane] = link
            if self._on_link_lost is not None and lane == "control":
                link.watch(lambda lost=self._on_link_lost: lost(peer))  # type: ignore[misc]
        if self._shared is not None and endpoints.arena:
            self._shared.connect(peer, endpoints.arena)
            self._links[peer, "bulk"].on_returned = lambda offsets, shared=self._shared: shared.returned(peer, offsets)  # type: ignore[misc]

    async def send(self, peer: str, envelope: Envelope) -> None:
        """See Transport.send."""
        link = self._links.get((peer, envelope.message.lane))
        if link is None:
            raise ActorStopped(f"{self.process} has no link to {peer}")
        if self._shared is None or not envelope.message.array_fields:
            await self._dispatch(link, envelope, wire.encode(envelope), 0)
            return
        loan = self._shared.loan(peer)
        try:
            await self._dispatch(link, envelope, wire.encode(envelope, loan), loan.size)
        except BaseException:
            loan.revoke()
            raise

    async def _dispatch(self, link: _Link, envelope: Envelope, frames: list[wire.Frame], in_place: int) -> None:
        size = wire.size_of(frames) + in_place
        if max(map(len, frames)) > self.limits.message_bytes:
            raise MessageError("too_large", f"{envelope!r} has {size} bytes, at most {self.limits.message_bytes}")
        cost = cost_of(size)
        if not link.gate.admit(cost):
            await link.gate.acquire(cost)
        link.port.send(frames)

    def _arrived(self, lane: Lane, frames: list[Any]) -> None:
        identity = frames.pop(0)
        source = self._sources.get((lane, identity)) or self._source(lane, identity)
        borrow = (
            _Borrow(self._shared.window(source.peer, source.pid))
            if self._shared is not None and lane == "bulk"
            else None
        )
        size = wire.size_of(frames)
        try:
            envelope = wire.decode(frames, borrow) if borrow is not None else wire.decode(frames)
        except MessageError as error:
            source.release(size + (borrow.size if borrow is not None else 0))
            self.reject(repr(identity)[2:-1], error)
            return
        if borrow is not None and borrow.window is not None:
            self._identities[source.peer] = identity
            size += borrow.size
        self.deliver(envelope, size, partial(source.release, size))

    def _source(self, lane: Lane, identity: bytes) -> _Source:
        def grant(due: int) -> None:
            # the last views may have gone a moment ago: what they held goes back with the credits, not after them
            if lane == "bulk" and self._identities.get(peer) == identity:
                asyncio.get_running_loop().call_soon(self._grant, lane, identity, due, peer)
            else:
                self._grant(lane, identity, due, "")

        peer, _, life = identity.decode(errors="replace").rpartition("/")
        pid = life.rpartition(".")[2]
        book = GrantBook(self.limits.credit_of(lane))
        source = _Source(peer, int(pid) if pid.isdecimal() else 0, book, grant)
        self._sources[lane, identity] = source
        return source

    def _grant(self, lane: Lane, identity: bytes, due: int, peer: str) -> None:
        """Give back credits, and to a `peer` what is not seen any more of its arrays."""
        returns = self._shared.take_due(peer) if self._shared is not None and peer else []
        if not self._answer(lane, identity, [due, *returns]):
            self._sources.pop((lane, identity), None)  # the peer left: nobody waits for this grant

    def _return(self, peer: str) -> None:
        """Some arrays of a peer's are not seen here any more."""
        due = self._shared.take_due(peer) if self._shared is not None else []
        if due and peer in self._identities:
            self._answer("bulk", self._identities[peer], [0, *due])

    def _answer(self, lane: Lane, identity: bytes, numbers: list[int]) -> bool:
        """Send credits, then offsets of returned arrays, back the way messages came; False if nobody is there."""
        router = self._routers.get(lane)
        if router is None:
            return True
        try:
            router.send([identity, b"".join(map(_GRANT.pack, numbers))])
        except zmq.ZMQError:
            return False
        return True

    async def close(self) -> None:
        """See Transport.close. Removes the socket files of ipc addresses."""
        for link in self._links.values():
            link.port.socket.setsockopt(zmq.LINGER, int(CLOSE_SECONDS * 1000))
            link.close(f"{self.process} is stopping")
        bound = [router.socket.get_string(zmq.LAST_ENDPOINT) for router in self._routers.values()]
        for router in self._routers.values():
            router.close()
        self._links.clear()
        self._routers.clear()
        if self._shared is not None:
            self._shared.close()
        # term() returns when the last queued message has left or its linger is over: at most CLOSE_SECONDS
        await asyncio.get_running_loop().run_in_executor(None, self._context.term)
        for address in bound:
            if address.startswith("ipc://"):  # libzmq removes only those whose names it made up
                Path(address.removeprefix("ipc://")).unlink(missing_ok=True)  # noqa: ASYNC240  # a moment

    def queued_bytes(self) -> dict[str, int]:
        """See Transport.queued_bytes."""
        queued: dict[str, int] = {}
        for (peer, _), link in self._links.items():
            queued[peer] = queued.get(peer, 0) + link.gate.outstanding
        return queued


def _make_socket(context: zmq.Context[Any], kind: int, limits: Limits, lane: Lane) -> zmq.Socket[bytes]:
    socket: zmq.Socket[bytes] = context.socket(kind)
    for option, value in (_OPTIONS | (_HEARTBEATS if lane == "control" else {})).items():
        socket.setsockopt(option, value)
    socket.setsockopt(zmq.MAXMSGSIZE, limits.message_bytes)
    return socket
