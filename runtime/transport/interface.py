"""The promises of every transport. One suite of contract tests runs over all transports.

A transport belongs to one process and moves envelopes between it and its peers. It promises:

- Order per sender, receiver and lane.
- At most one delivery of each message.
- Bytes under way are bounded by byte credits.
- Malformed input is rejected and counted, and is never fatal.
- No message is dropped without being counted.

If a transport breaks the first two promises (contract tests make it do so), the node behind it
rejects messages that come twice or too late. So actors can rely on both in every case.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from runtime.defaults import CREDIT_BYTES, LIVENESS, MESSAGE_BYTES
from runtime.errors import MessageError
from runtime.messages.message import Envelope, Lane

FILES = ("unix://", "ipc://")  # the schemes of addresses that are files
Release = Callable[[], None]
# (envelope, bytes, function to call once its memory is no longer read)
Deliver = Callable[[Envelope, int, Release], None]
Reject = Callable[[str, MessageError], None]  # (claimed peer, reason)


@dataclass(frozen=True, slots=True)
class Endpoints:
    """The places where a process can be reached: its addresses per lane, nearest first; the address
    of its shared memory, if it has some; and its `host`, see `host_identity`."""

    control: tuple[str, ...] = ()
    bulk: tuple[str, ...] = ()
    arena: str = ""
    host: str = ""

    def reached_at(self, lane: Lane, near: bool) -> str:
        """Return the address for a peer on this host (`near`) or on another one, "" if there is
        none.

        A file is used from another host only if there is no other address: file systems can be
        shared.
        """
        addresses: tuple[str, ...] = getattr(self, lane)
        far = [address for address in addresses if not address.startswith(FILES)]
        return next(iter(addresses if near else far or addresses), "")

    def nearest(self) -> Endpoints:
        """Return these endpoints with only the first address of each lane."""
        return replace(self, control=self.control[:1], bulk=self.bulk[:1])

    @staticmethod
    def of(fields: Mapping[str, Any]) -> Endpoints:
        """Return endpoints from their fields, as JSON has them."""
        return Endpoints(
            tuple(fields["control"]), tuple(fields["bulk"]), fields["arena"], fields["host"]
        )


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of a transport.

    - `credit_bytes`: bytes under way to one peer on the bulk lane.
    - `message_bytes`: bytes of one frame.
    - `control_credit_bytes`: bytes under way to one peer on the control lane.
    - `link_seconds`: time without a sign of life of a peer's host after which its link counts as
      lost.
    """

    credit_bytes: int = CREDIT_BYTES
    message_bytes: int = MESSAGE_BYTES
    control_credit_bytes: int = 1 << 20
    link_seconds: float = LIVENESS.link_seconds

    def credit_of(self, lane: str) -> int:
        """Return the credits of one lane, in bytes."""
        return self.credit_bytes if lane == "bulk" else self.control_credit_bytes


class Transport(ABC):
    """Moves envelopes between one process and its peers."""

    def __init__(self, process: str, deliver: Deliver, reject: Reject, limits: Limits) -> None:
        self.process = process
        self.deliver = deliver
        self.reject = reject
        self.limits = limits

    @abstractmethod
    async def open(self) -> Endpoints:
        """Start listening. Raises LaunchError if the address is taken."""

    @abstractmethod
    def connect(self, peer: str, endpoints: Endpoints) -> None:
        """Make `peer` reachable. Connecting again replaces the former link (a new incarnation)."""

    @abstractmethod
    def disconnect(self, peer: str, why: str) -> None:
        """Drop the links to `peer`. Senders that wait for its credits, and later senders, get
        ActorStopped."""

    @abstractmethod
    async def send(self, peer: str, envelope: Envelope) -> None:
        """Send an envelope to `peer`. Waits for byte credits, not for delivery.

        Arrays are referenced, not copied: the sender must not write to them again. Raises
        ActorStopped without a link to the peer, and MessageError if the message cannot travel.
        """

    @abstractmethod
    async def close(self) -> None:
        """Send what is queued (for at most a second), then stop. Waiting senders get
        ActorStopped."""

    @abstractmethod
    def queued_bytes(self) -> dict[str, int]:
        """Return the bytes under way per peer: sent and not yet granted back."""
