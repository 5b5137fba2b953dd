"""The transport between processes: envelopes over sockets, and arrays in shared memory if both ends
share memory.

A process has one listener per lane and address, and a port to each peer and lane. Messages leave
through the port. Credits, and the offsets of arrays that the peer has dropped, come back on the
same port.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial

from runtime.errors import ActorStopped, LaunchError, MessageError
from runtime.memory.arena import Arena
from runtime.memory.device_arena import DeviceArena
from runtime.messages import wire
from runtime.messages.arrays import Frame
from runtime.messages.credits import cost_of
from runtime.messages.message import Envelope, Lane
from runtime.reasons import reason
from runtime.transport import host_identity
from runtime.transport.interface import Deliver, Endpoints, Limits, Reject, Transport
from runtime.transport.keys import NO_KEYS, Keys
from runtime.transport.links import PeerLink, Sources
from runtime.transport.ports import Frames, Listener, Port, Ports
from runtime.transport.shared_arena import SharedMemory
from runtime.transport.unix import UnixPorts
from runtime.transport.zeromq import ZmqPorts

# by the scheme of the address
KINDS: dict[str, type[Ports]] = {
    "unix": UnixPorts,
    "ipc": ZmqPorts,
    "tcp": ZmqPorts,
    "curve": ZmqPorts,
}
_LANES: tuple[Lane, Lane] = ("control", "bulk")


class SocketTransport(Transport):
    """A transport over sockets. The scheme of an address chooses the kind of sockets (KINDS).
    `bind(lane)` returns the addresses to listen on ("unix:///...", "tcp://127.0.0.1:*", ...),
    nearest first. A peer on this host connects to the first address. A peer on another host
    connects to the first that is not a file. `on_link_lost(peer)` is called once when a connection
    to a peer breaks: messages under way may be lost, and no more arrive. Arrays in `arena` stay
    there for peers that have an arena too, and only their offsets travel; so do arrays in `device`
    for peers that have opened it."""

    def __init__(
        self,
        process: str,
        deliver: Deliver,
        reject: Reject,
        limits: Limits,
        *,
        incarnation: int,
        bind: Callable[[Lane], tuple[str, ...]],
        keys: Keys = NO_KEYS,
        on_link_lost: Callable[[str], None] = lambda peer: None,
        arena: Arena | None = None,
        device: DeviceArena | None = None,
    ) -> None:
        super().__init__(process, deliver, reject, limits)
        self.on_link_lost = on_link_lost
        self._identity = f"{process}/{incarnation}.{os.getpid()}".encode()
        self._bind = bind
        self._keys = keys
        self._ports: dict[type[Ports], Ports] = {}
        self._listeners: dict[Lane, list[Listener]] = {lane: [] for lane in _LANES}
        self._host = host_identity.identity()
        self._links: dict[tuple[str, Lane], PeerLink] = {}
        self._sources = Sources(limits.credit_of, self._answer)
        self.shared: SharedMemory | None = None
        if arena is not None:
            self.shared = SharedMemory(process, arena, self._sources.give_back, device)
            self._sources.take_due = self.shared.take_due

    async def open(self) -> Endpoints:
        """Listen on both lanes. Raises LaunchError with the address if it is taken."""
        for lane in _LANES:
            for address in self._bind(lane):
                try:
                    kind = self._kind(address)
                    listener = kind.listen(
                        address, lane, partial(self._arrived, lane), self._refused
                    )
                except OSError as error:
                    raise LaunchError(
                        f"process '{self.process}' cannot listen on {address}: {reason(error)}"
                    ) from None
                self._listeners[lane].append(listener)
        control, bulk = (
            tuple(listener.address for listener in self._listeners[lane]) for lane in _LANES
        )
        return Endpoints(
            control, bulk, self.shared.arena.address if self.shared else "", self._host
        )

    def connect(self, peer: str, endpoints: Endpoints) -> None:
        near = endpoints.host == self._host
        addresses = {lane: endpoints.reached_at(lane, near) for lane in _LANES}
        if not all(addresses.values()):
            raise LaunchError(
                f"process '{self.process}' cannot reach '{peer}', which listens nowhere"
            )
        self._let_go(peer, f"{peer} was restarted")
        for lane in _LANES:
            connect = partial(self._connect, peer, lane, addresses[lane])
            try:
                self._links[peer, lane] = PeerLink(self.limits.credit_of(lane), connect)
            except OSError as error:
                raise LaunchError(
                    f"process '{self.process}' cannot connect to '{peer}': {reason(error)}"
                ) from None
        if self.shared is not None and endpoints.arena and near:
            self.shared.connect(peer, endpoints.arena)
            self._links[peer, "bulk"].on_returned = partial(self.shared.returned, peer)

    def disconnect(self, peer: str, why: str) -> None:
        self._let_go(peer, why)
        self._sources.forget(peer)

    def _let_go(self, peer: str, why: str) -> None:
        """Close the ports to a peer. Its next life may have sent already, and keeps its credits."""
        for lane in _LANES:
            link = self._links.pop((peer, lane), None)
            if link is not None:
                link.close(why)

    def _connect(
        self, peer: str, lane: Lane, address: str, on_answer: Callable[[Frames], None]
    ) -> Port:
        """Make a port to a peer. If both of its ports break, as at its death, report one loss."""
        lost = partial(self._lost, peer, lane)
        return self._kind(address).connect(peer, address, lane, self._identity, on_answer, lost)

    def _lost(self, peer: str, lane: Lane) -> None:
        links = [self._links[peer, each] for each in _LANES if (peer, each) in self._links]
        told = any(link.lost for link in links)
        self._links[peer, lane].lost = True
        if not told:
            self.on_link_lost(peer)

    def _refused(self, who: str, why: str) -> None:
        self.reject(who, MessageError("refused", why))

    def _kind(self, address: str) -> Ports:
        """Return the sockets for an address. Made at first use, since ZeroMQ starts threads."""
        kind = KINDS[address.partition("://")[0]]
        if kind not in self._ports:
            self._ports[kind] = kind(self.limits, self._keys)
        return self._ports[kind]

    async def send(self, peer: str, envelope: Envelope) -> None:
        link = self._link(peer, envelope)
        if self.shared is None or not envelope.message.array_fields:
            await self._send(link, envelope, wire.encode(envelope), 0)
            return
        loan = self.shared.loan(peer)
        try:
            await self._send(link, envelope, wire.encode(envelope, loan), loan.size)
        except BaseException:
            loan.revoke()
            raise

    def _link(self, peer: str, envelope: Envelope) -> PeerLink:
        link = self._links.get((peer, envelope.message.lane))
        if link is None:
            raise ActorStopped(f"{self.process} has no link to {peer}")
        return link

    async def _send(
        self, link: PeerLink, envelope: Envelope, frames: list[Frame], in_place: int
    ) -> None:
        size = wire.size_of(frames) + in_place
        if size > self.limits.message_bytes and max(map(len, frames)) > self.limits.message_bytes:
            raise MessageError(
                "too_large", (f"{envelope!r} has {size} bytes, at most {self.limits.message_bytes}")
            )
        cost = cost_of(size)
        if not link.gate.admit(cost):
            await link.gate.acquire(cost)
        link.port.send(frames)

    def _arrived(self, lane: Lane, identity: bytes, frames: Frames) -> None:
        source = self._sources[lane, identity]
        borrow = (
            self.shared.borrow(source.peer, source.pid)
            if self.shared is not None and lane == "bulk"
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
            self._sources.read_in_place[source.peer] = identity
            size += borrow.size
        self.deliver(envelope, size, partial(source.release, size))

    def _answer(self, lane: Lane, identity: bytes, frames: Frames) -> bool:
        """Send frames back to a peer on its own connection. Return False if it is not connected."""
        listeners = self._listeners[lane]
        return not listeners or any(listener.answer(identity, frames) for listener in listeners)

    async def close(self) -> None:
        for link in self._links.values():
            link.close(f"{self.process} is stopping", flush=True)
        for listeners in self._listeners.values():
            for listener in listeners:
                listener.close()
            listeners.clear()
        self._links.clear()
        if self.shared is not None:
            self.shared.close()
        for ports in self._ports.values():
            await ports.close()
        self._ports.clear()

    def queued_bytes(self) -> dict[str, int]:
        queued: dict[str, int] = {}
        for (peer, _), link in self._links.items():
            queued[peer] = queued.get(peer, 0) + link.gate.outstanding
        return queued
