"""The road between processes: envelopes over sockets, arrays in shared memory where both ends share it.

A process listens once per lane and has a port to each peer and lane. Messages flow out of the port; credit grants, and
word of arrays that are not seen any more, come back on the same port, so no other link is needed to bound memory.
What never lives here: how a socket is read and written (`unix` on one host, `zeromq` between hosts).
"""

from __future__ import annotations

import asyncio
import itertools
import os
import struct
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from runtime.errors import ActorStopped, LaunchError, MessageError
from runtime.memory.arena import Arena, Array, Window
from runtime.messages import wire
from runtime.messages.credits import CreditGate, GrantBook, cost_of
from runtime.messages.message import Envelope, Lane
from runtime.messages.pending import Pending
from runtime.transport import ahead, host, unix
from runtime.transport.base import Announced, Deliver, Endpoints, Limits, Reject, Transport
from runtime.transport.ports import Frames, Listener, OnLost, Port, Ports
from runtime.transport.shared import SharedMemory, Travels
from runtime.transport.unix import UnixPorts
from runtime.transport.zeromq import ZmqPorts

_GRANT = struct.Struct("!Q")
_LANES: tuple[Lane, Lane] = ("control", "bulk")
FILES = (unix.SCHEME, "ipc://")  # addresses that are files


class _Link:
    """To one peer on one lane: a port and its credits."""

    def __init__(self, limit: int, connect: Callable[[Callable[[Frames], None]], Port]) -> None:
        self.gate = CreditGate(limit)
        self.on_returned: Callable[[list[int]], None] = lambda offsets: None
        self.port = connect(self._granted)

    def say(self, word: Frames) -> None:
        """Send what takes no credits. ActorStopped once closed."""
        self.gate.admit(0)
        self.port.send(word)

    def close(self, why: str, *, flush: bool = False) -> None:
        self.gate.close(why)
        self.port.close(flush=flush)

    def _granted(self, frames: list[Any]) -> None:
        if len(frames) == 1 and frames[0] and not len(frames[0]) % _GRANT.size:
            (granted,), *offsets = _GRANT.iter_unpack(frames[0])
            self.on_returned([offset for (offset,) in offsets])  # first: who gets credits may need the memory
            self.gate.grant(granted)


class _Source:
    """From one peer on one lane: what it is owed, and which messages it sent ahead (by number)."""

    def __init__(self, peer: str, pid: int, book: GrantBook, grant: Callable[[int], None]) -> None:
        self.peer, self.pid = peer, pid
        self.pending: dict[int, Pending] = {}
        self._book, self._grant = book, grant

    def release(self, size: int) -> None:
        """A message of `size` bytes is done with; the peer hears of it when it is worth a message."""
        due = self._book.release(cost_of(size))
        if due:
            self._grant(due)


class _Ahead(Announced):
    """A message that was sent ahead."""

    def __init__(self, link: _Link, number: int) -> None:
        self._link, self._number = link, number

    def complete(self) -> None:
        """See Announced."""
        self._link.say([ahead.word(ahead.COMPLETE, self._number)])

    def withdraw(self) -> None:
        """See Announced."""
        with suppress(ActorStopped):
            self._link.say([ahead.word(ahead.WITHDRAWN, self._number)])


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


def nearest(addresses: tuple[str, ...], near: bool) -> str:
    """The address at which a peer is reached; "" if there is none. A file is tried on another host only where nothing
    else is offered: file systems can be shared."""
    if near:
        return next(iter(addresses), "")
    return next((address for address in addresses if not address.startswith(FILES)), "") or nearest(addresses, True)


class SocketTransport(Transport):
    """Transport over sockets: Unix ones to addresses that begin with unix://, ZeroMQ's to all others.

    `bind(lane)` gives the addresses to listen on ("unix:///...", "tcp://127.0.0.1:*", ...), the nearest first: a peer
    of this host is reached at its first one, a peer of another host at the first that is no file.
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
        bind: Callable[[Lane], tuple[str, ...]],
        on_link_lost: Callable[[str], None] | None = None,
        arena: Arena | None = None,
    ) -> None:
        super().__init__(process, deliver, reject, limits)
        self._identity = f"{process}/{incarnation}.{os.getpid()}".encode()
        self._bind = bind
        self._on_link_lost = on_link_lost
        self._ports: dict[type[Ports], Ports] = {}
        self._listeners: dict[Lane, list[Listener]] = {lane: [] for lane in _LANES}
        self._host = host.identity()
        self._links: dict[tuple[str, Lane], _Link] = {}
        self._sources: dict[tuple[Lane, bytes], _Source] = {}
        self._identities: dict[str, bytes] = {}  # of the peers whose arrays are read in place
        self._shared = SharedMemory(process, arena, self._return, self._forget) if arena is not None else None
        self._numbers = itertools.count(1)  # of announcements to others
        self._lookout = ahead.Lookout()

    async def open(self) -> Endpoints:
        """Listen on both lanes. LaunchError names the address that is taken."""
        for lane in _LANES:
            for address in self._bind(lane):
                try:
                    listener = self._kind(address).listen(address, lane, partial(self._arrived, lane))
                except OSError as error:
                    raise LaunchError(f"process '{self.process}' cannot listen on {address}: {error}") from None
                self._listeners[lane].append(listener)
        control, bulk = (tuple(listener.address for listener in self._listeners[lane]) for lane in _LANES)
        return Endpoints(control, bulk, self._shared.arena.address if self._shared else "", self._host)

    def connect(self, peer: str, endpoints: Endpoints) -> None:
        """See Transport.connect."""
        watcher, near = self._on_link_lost, endpoints.host == self._host
        addresses = {lane: nearest(getattr(endpoints, lane), near) for lane in _LANES}
        if not all(addresses.values()):
            raise LaunchError(f"process '{self.process}' cannot reach '{peer}', which listens nowhere")
        for lane in _LANES:
            former = self._links.pop((peer, lane), None)
            if former is not None:
                former.close(f"{peer} was started anew")
            on_lost = partial(watcher, peer) if watcher is not None and lane == "control" else None
            connect = partial(self._connect, addresses[lane], lane, on_lost)
            self._links[peer, lane] = _Link(self.limits.credit_of(lane), connect)
        if self._shared is not None and endpoints.arena and near:
            self._shared.connect(peer, endpoints.arena)
            self._links[peer, "bulk"].on_returned = partial(self._shared.returned, peer)

    def disconnect(self, peer: str) -> None:
        """Let go of a peer that is gone; who waits for its credits gets ActorStopped."""
        for lane in _LANES:
            link = self._links.pop((peer, lane), None)
            if link is not None:
                link.close(f"{peer} is gone")

    def _connect(self, address: str, lane: Lane, on_lost: OnLost | None, on_answer: Callable[[Frames], None]) -> Port:
        return self._kind(address).connect(address, lane, self._identity, on_answer, on_lost)

    def _kind(self, address: str) -> Ports:
        """The sockets that reach this address; made when they are needed: ZeroMQ's come with threads."""
        kind = UnixPorts if address.startswith(unix.SCHEME) else ZmqPorts
        if kind not in self._ports:
            self._ports[kind] = kind(self.limits.message_bytes)
        return self._ports[kind]

    async def send(self, peer: str, envelope: Envelope) -> None:
        """See Transport.send."""
        link = self._link(peer, envelope)
        if self._shared is None or not envelope.message.array_fields:
            await self._send(link, envelope, wire.encode(envelope), 0)
            return
        loan = self._shared.loan(peer)
        try:
            await self._send(link, envelope, wire.encode(envelope, loan), loan.size)
        except BaseException:
            loan.revoke()
            raise

    async def announce(self, peer: str, envelope: Envelope) -> Announced | None:
        """See Transport.announce. What goes ahead are messages whose arrays all stay in shared memory."""
        link = self._link(peer, envelope)
        if self._shared is not None and envelope.message.array_fields:
            loan = self._shared.loan(peer)
            try:
                frames = wire.encode(envelope, loan.whole)
                number = next(self._numbers)
                await self._send(link, envelope, frames, loan.size, ahead.word(ahead.ANNOUNCED, number))
            except BaseException as error:
                loan.revoke()
                if isinstance(error, Travels):
                    return None
                raise
            return _Ahead(link, number)
        return None

    def _link(self, peer: str, envelope: Envelope) -> _Link:
        link = self._links.get((peer, envelope.message.lane))
        if link is None:
            raise ActorStopped(f"{self.process} has no link to {peer}")
        return link

    async def _send(
        self, link: _Link, envelope: Envelope, frames: list[wire.Frame], in_place: int, *word: wire.Frame
    ) -> None:
        """With a `word` before it, which takes no credits."""
        size = wire.size_of(frames) + in_place
        if max(map(len, frames)) > self.limits.message_bytes:
            raise MessageError("too_large", f"{envelope!r} has {size} bytes, at most {self.limits.message_bytes}")
        cost = cost_of(size)
        if not link.gate.admit(cost):
            await link.gate.acquire(cost)
        link.port.send([*word, *frames])

    def _arrived(self, lane: Lane, identity: bytes, frames: Frames) -> None:
        source = self._sources.get((lane, identity)) or self._source(lane, identity)
        if ahead.is_word(frames):
            self._told(lane, identity, source, frames)
        else:
            self._deliver(lane, identity, source, frames)

    def _told(self, lane: Lane, identity: bytes, source: _Source, frames: Frames) -> None:
        """Word of a message that was sent ahead."""
        word = ahead.read(frames)
        if word is None:
            self._refuse(identity, MessageError("bad_header", f"{bytes(frames[0][:40])!r}, {len(frames)} frames"))
        elif (word.what == ahead.ANNOUNCED) == (word.number in source.pending):
            self._refuse(identity, MessageError("late", f"{word}: announced before, or not (any more)"))
        elif word.what == ahead.ANNOUNCED:
            pending = Pending()
            if self._deliver(lane, identity, source, frames[1:], pending):
                source.pending[word.number] = pending
                self._lookout.announced()
        else:
            self._lookout.settled()
            source.pending.pop(word.number).settle(complete=word.what == ahead.COMPLETE)

    def _deliver(
        self, lane: Lane, identity: bytes, source: _Source, frames: Frames, pending: Pending | None = None
    ) -> bool:
        """Hand over a message; False for what is none, which is rejected."""
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
            self._refuse(identity, error)
            return False
        if borrow is not None and borrow.window is not None:
            self._identities[source.peer] = identity
            size += borrow.size
        if pending is not None:
            envelope = envelope._replace(pending=pending)
        self.deliver(envelope, size, partial(source.release, size))
        return True

    def _refuse(self, identity: bytes, error: MessageError) -> None:
        self.reject(repr(identity)[2:-1], error)

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

    def _forget(self, peer: str, pid: int) -> None:
        """A peer's process has ended: what it sent ahead will never be complete."""
        for source in self._sources.values():
            while (source.peer, source.pid) == (peer, pid) and source.pending:
                self._lookout.settled()
                source.pending.popitem()[1].settle(complete=False)

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
        listeners, word = self._listeners[lane], [b"".join(map(_GRANT.pack, numbers))]
        return not listeners or any(listener.answer(identity, word) for listener in listeners)

    async def close(self) -> None:
        """See Transport.close."""
        for link in self._links.values():
            link.close(f"{self.process} is stopping", flush=True)
        for listeners in self._listeners.values():
            for listener in listeners:
                listener.close()
            listeners.clear()
        self._links.clear()
        if self._shared is not None:
            self._shared.close()
        for ports in self._ports.values():
            await ports.close()
        self._ports.clear()

    def queued_bytes(self) -> dict[str, int]:
        """See Transport.queued_bytes."""
        queued: dict[str, int] = {}
        for (peer, _), link in self._links.items():
            queued[peer] = queued.get(peer, 0) + link.gate.outstanding
        return queued
