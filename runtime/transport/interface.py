"""What every transport promises, whatever road it takes. One contract-test suite runs over all of
them.

A transport belongs to one process and moves envelopes between it and its peer processes: in order
per sender, receiver and lane; at most once; bounded by byte credits; malformed input is rejected
and counted, never fatal; nothing is dropped uncounted. Should a road break the first two (contract
tests make it), the node behind it rejects what comes twice or too late: actors are promised both
whatever happens.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from runtime.defaults import CREDIT_BYTES, LIVENESS, MESSAGE_BYTES
from runtime.errors import MessageError
from runtime.messages.message import Envelope, Lane

FILES = ("unix://", "ipc://")  # addresses that are files
Release = Callable[[], None]
# (envelope, bytes, call once when its memory is no longer read)
Deliver = Callable[[Envelope, int, Release], None]
Reject = Callable[[str, MessageError], None]  # (claimed peer, why)


@dataclass(frozen=True, slots=True)
class Endpoints:
    """Where a process listens: its addresses per lane, the nearest first; where its shared memory
    is, if it has some; and on which `host`, see `host.identity`."""

    control: tuple[str, ...] = ()
    bulk: tuple[str, ...] = ()
    arena: str = ""
    host: str = ""

    def reached_at(self, lane: Lane, near: bool) -> str:
        """The address for a peer of this host (`near`) or of another one; "" if there is none. A
        file is tried on another host only where nothing else is offered: file systems can be
        shared."""
        addresses: tuple[str, ...] = getattr(self, lane)
        far = [address for address in addresses if not address.startswith(FILES)]
        return next(iter(addresses if near else far or addresses), "")

    def nearest(self) -> Endpoints:
        """The first address of each lane only."""
        return replace(self, control=self.control[:1], bulk=self.bulk[:1])

    @staticmethod
    def of(fields: Mapping[str, Any]) -> Endpoints:
        """From its fields, as JSON gives them."""
        return Endpoints(
            tuple(fields["control"]), tuple(fields["bulk"]), fields["arena"], fields["host"]
        )


@dataclass(frozen=True, slots=True)
class Limits:
    """What may be under way. `credit_bytes` per peer on the bulk lane; `message_bytes` for one
    frame; `link_seconds` without a sign of life of the peer's host, and the link to it counts as
    lost."""

    credit_bytes: int = CREDIT_BYTES
    message_bytes: int = MESSAGE_BYTES
    control_credit_bytes: int = 1 << 20
    link_seconds: float = LIVENESS.link_seconds

    def credit_of(self, lane: str) -> int:
        """The window of one lane, in bytes."""
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
        """Start listening. LaunchError if the address is taken."""

    @abstractmethod
    def connect(self, peer: str, endpoints: Endpoints) -> None:
        """Make `peer` reachable. Connecting again replaces the former link (a new incarnation)."""

    @abstractmethod
    def disconnect(self, peer: str, why: str) -> None:
        """Let go of the links to `peer`: who waits for its credits, or sends later, gets
        ActorStopped."""

    @abstractmethod
    async def send(self, peer: str, envelope: Envelope) -> None:
        """Hand an envelope to the road to `peer`; waits for byte credits, not for delivery.

        Arrays are referenced, not copied: the sender must not write to them again. ActorStopped if
        there is no link to the peer, MessageError if the message cannot travel.
        """

    @abstractmethod
    async def close(self) -> None:
        """Send what is queued (for at most a second), then stop; waiting senders get
        ActorStopped."""

    @abstractmethod
    def queued_bytes(self) -> dict[str, int]:
        """Bytes under way per peer: sent and not yet granted back."""
