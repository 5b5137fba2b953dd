"""A transport over one connection that one end dials and both ends use. It reaches processes to
which no other process can connect.

The connection is always encrypted, and each end proves its identity by its key. Messages and
credits of both directions share the connection. The first frame gives the kind of the others:

    MESSAGE  an envelope
    GRANT    bytes that may be sent again
    LEAVES   the sender leaves; nothing more comes

All processes of one `user` dial with the same key. Each also has a process name, and may send only
under that name.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection
from functools import partial

from runtime.errors import ActorStopped, LaunchError, MessageError
from runtime.messages import wire
from runtime.messages.credits import CreditGate, cost_of
from runtime.messages.grants import GrantBook
from runtime.messages.message import Envelope, Lane
from runtime.reasons import reason
from runtime.transport.interface import Deliver, Endpoints, Limits, Reject, Transport
from runtime.transport.keys import Keys
from runtime.transport.ports import Frames, Port
from runtime.transport.zeromq import ZmqListener, ZmqPorts

SCHEME = "curve://"
# until a user's command gives up; before that it may wait behind strangers (see `zmtp.strangers`)
OPERATOR_SECONDS = 20.0
_MESSAGE = b"message"
_GRANT = b"grant"
_LEAVES = b"leaves"
_NUMBER = struct.Struct("!Q")
# the lane on which ZeroMQ itself notices that the other end is gone
_LANE: Lane = "control"


class _Account:
    """The credits between the two ends: those left for sending, and those owed to the other end.
    `put(frames)` returns False if the other end is gone."""

    def __init__(self, limits: Limits, put: Callable[[Frames], bool]) -> None:
        self.gate = CreditGate(limits.credit_bytes)
        self._book = GrantBook(limits.credit_bytes)
        self._limits = limits
        self.put = put

    async def send(self, envelope: Envelope) -> bool:
        """Wait for credits, then send an envelope. Returns False if the other end is gone.

        Raises MessageError if the envelope is too large, and ActorStopped once the account is
        closed.
        """
        frames = wire.encode(envelope)
        size = wire.size_of(frames)
        if size > self._limits.message_bytes:
            raise MessageError(
                "too_large",
                (f"{envelope!r} has {size} bytes, at most {self._limits.message_bytes}"),
            )
        await self.gate.acquire(cost_of(size))
        return self.put([_MESSAGE, *frames])

    def granted(self, frames: Frames) -> None:
        """Take credits back from a GRANT of the other end."""
        if len(frames) == 1 and len(frames[0]) == _NUMBER.size:
            self.gate.grant(_NUMBER.unpack(frames[0])[0])

    def take(
        self, frames: Frames, peer: str, deliver: Deliver, reject: Reject, *, only: bool
    ) -> None:
        """Deliver a message of the other end. With `only`, reject messages whose sender is not
        `peer`."""
        size = wire.size_of(frames)
        try:
            envelope = wire.decode(frames)
        except MessageError as error:
            self._release(size)
            reject(peer, error)
            return
        if only and envelope.sender != peer:
            self._release(size)
            reject(peer, MessageError("refused", f"it claims to be {envelope.sender}"))
            return
        deliver(envelope, size, partial(self._release, size))

    def _release(self, size: int) -> None:
        due = self._book.release(cost_of(size))
        if due:
            self.put([_GRANT, _NUMBER.pack(due)])


class Answering(Transport):
    """The end that is dialed.

    A process is connected from its first message on. `on_link_lost(process)` is called when it has
    left or could not be answered. `keys` are this end's key pair, and the public key of each user
    that may dial.
    """

    def __init__(
        self,
        process: str,
        deliver: Deliver,
        reject: Reject,
        limits: Limits,
        *,
        address: str,
        keys: Keys,
        on_link_lost: Callable[[str], None],
    ) -> None:
        super().__init__(process, deliver, reject, limits)
        self._address = address
        self._keys = keys
        self.on_link_lost = on_link_lost
        self._ports: ZmqPorts | None = None
        self._listener: ZmqListener | None = None
        self._there: dict[str, tuple[bytes, _Account]] = {}

    def __repr__(self) -> str:
        return f"<road to {len(self._there)} that dialed {self._address}>"

    @property
    def peers(self) -> Collection[str]:
        """The processes that have dialed and have not left."""
        return self._there.keys()

    async def open(self) -> Endpoints:
        """Listen at the address. Raises LaunchError if it is taken."""
        self._ports = ZmqPorts(self.limits, self._keys)
        try:
            self._listener = self._ports.listen(
                SCHEME + self._address, _LANE, self._arrived, self._refused
            )
        except OSError as error:
            await self.close()
            raise LaunchError(
                f"process '{self.process}' cannot listen on {self._address}: {reason(error)}"
            ) from None
        return Endpoints((self._listener.address,), (self._listener.address,))

    def connect(self, peer: str, endpoints: Endpoints) -> None:
        """Check that the peer has dialed. Raises LaunchError if it has not: this end cannot
        connect."""
        if peer not in self._there:
            raise LaunchError(
                f"process '{self.process}' cannot reach '{peer}', which has not dialed"
            )

    def disconnect(self, peer: str, why: str) -> None:
        found = self._there.pop(peer, None)
        if found is not None and self._listener is not None:
            identity, account = found
            account.gate.close(why)
            account.put([_LEAVES])
            self._listener.forget(identity)

    async def send(self, peer: str, envelope: Envelope) -> None:
        if peer not in self._there:
            raise ActorStopped(f"{self.process} has no link to {peer}")
        if not await self._there[peer][1].send(envelope):
            self._left(peer)
            raise ActorStopped(f"{peer} is gone")

    def _arrived(self, identity: bytes, frames: Frames) -> None:
        # the process follows the user, who owns the key
        peer = identity.decode(errors="replace").partition("/")[2]
        kind, *said = frames or [b""]
        if kind == _LEAVES:
            self._left(peer)
            return
        if kind == _GRANT:
            if peer in self._there:
                self._there[peer][1].granted(said)
            return
        if peer not in self._there:
            self._there[peer] = identity, _Account(self.limits, partial(self._put, identity))
        self._there[peer][1].take(said, peer, self.deliver, self.reject, only=True)

    def _put(self, identity: bytes, frames: Frames) -> bool:
        return self._listener is not None and self._listener.answer(identity, frames)

    def _left(self, peer: str) -> None:
        if peer in self._there:
            self.disconnect(peer, f"{peer} is gone")
            self.on_link_lost(peer)

    def _refused(self, who: str, why: str) -> None:
        self.reject(who, MessageError("refused", why))

    async def close(self) -> None:
        for peer in list(self._there):
            self.disconnect(peer, f"{self.process} is stopping")
        if self._listener is not None:
            self._listener.close()
            self._listener = None
        if self._ports is not None:
            await self._ports.close()
            self._ports = None

    def queued_bytes(self) -> dict[str, int]:
        return {peer: account.gate.outstanding for peer, (_, account) in self._there.items()}


class Dialing(Transport):
    """The end that dials, as a process of a `user` with the user's keys.

    `on_link_lost()` is called once, when the connection breaks or the other end closes it, also
    when the other end refuses the key.
    """

    def __init__(
        self,
        process: str,
        deliver: Deliver,
        reject: Reject,
        limits: Limits,
        *,
        user: str,
        keys: Keys,
        on_link_lost: Callable[[], None],
    ) -> None:
        super().__init__(process, deliver, reject, limits)
        self._user = user
        self._keys = keys
        self.on_link_lost = on_link_lost
        self._ports: ZmqPorts | None = None
        self._peer = ""
        self._port: Port = _NOWHERE
        self._account = _Account(limits, self._put)

    def __repr__(self) -> str:
        return f"<road that {self.process} dialed to {self._peer or 'nobody yet'}>"

    async def open(self) -> Endpoints:
        """Open the transport. It listens nowhere."""
        self._ports = ZmqPorts(self.limits, self._keys, OPERATOR_SECONDS)
        return Endpoints()

    def connect(self, peer: str, endpoints: Endpoints) -> None:
        """Dial the one peer. Raises LaunchError if the transport is not open or was used
        already."""
        if self._ports is None or self._port is not _NOWHERE:
            raise LaunchError(
                f"process '{self.process}' cannot dial '{peer}': the transport is not open, or has "
                "dialed already"
            )
        identity = f"{self._user}/{self.process}".encode()
        address = endpoints.reached_at(_LANE, near=False)
        self._peer = peer
        self._port = self._ports.connect(peer, address, _LANE, identity, self._arrived, self._lost)

    def disconnect(self, peer: str, why: str) -> None:
        """Fail senders that wait for credits; see Transport.disconnect."""
        self._account.gate.close(why)

    async def send(self, peer: str, envelope: Envelope) -> None:
        if peer != self._peer:
            raise ActorStopped(f"{self.process} has no link to {peer}")
        await self._account.send(envelope)

    def _arrived(self, frames: Frames) -> None:
        kind, *said = frames or [b""]
        if kind == _LEAVES:
            self._lost()
        elif kind == _GRANT:
            self._account.granted(said)
        else:
            self._account.take(said, self._peer, self.deliver, self.reject, only=False)

    def _put(self, frames: Frames) -> bool:
        self._port.send(frames)
        return True

    def _lost(self) -> None:
        on_link_lost = self.on_link_lost
        self.on_link_lost = lambda: None
        self.disconnect(self._peer, f"the connection to {self._peer} is gone")
        on_link_lost()

    async def close(self) -> None:
        self.on_link_lost = lambda: None
        self._account.gate.close(f"{self.process} is stopping")
        self._put([_LEAVES])
        self._port.close(flush=True)
        self._port = _NOWHERE
        if self._ports is not None:
            await self._ports.close()
            self._ports = None

    def queued_bytes(self) -> dict[str, int]:
        return {self._peer: self._account.gate.outstanding} if self._peer else {}


class _Nowhere(Port):
    """A port that leads nowhere, used before the peer is dialed."""

    def send(self, frames: Frames) -> None:
        """Drop the message."""

    def close(self, *, flush: bool) -> None:
        """Do nothing."""


_NOWHERE = _Nowhere()
