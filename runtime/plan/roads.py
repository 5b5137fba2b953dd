"""Which roads the processes of a run take: which of its machines are other hosts, and what that
asks of their links."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from runtime.machine.addresses import is_loopback
from runtime.memory.mapping import available
from runtime.plan.topology import Placement

if TYPE_CHECKING:
    from runtime.config.sections import ClusterConfig, Machine  # pydantic comes with it

Transport = Literal["ipc", "tcp", "both"]
OPEN = (  # told at each start
    "links.encryption is 'none': whoever is on the network between the machines can read all "
    "that processes send, and "
    "take part in the run"
)


@dataclass(frozen=True)
class Roads:
    """`far`: the machines that are other hosts and have processes. `transport`: Unix sockets, TCP,
    or Unix sockets within each host and TCP between them. `encrypted`: what leaves a host is."""

    far: tuple[Machine, ...]
    transport: Transport
    encrypted: bool
    shared_memory: bool

    @property
    def scheme(self) -> str:
        """Of addresses that another host reaches."""
        return "curve" if self.encrypted else "tcp"

    @property
    def doubts(self) -> str:
        """What the user should hear of them; "" if all is well."""
        return OPEN if self.far and not self.encrypted else ""


def roads_of(placement: Placement, config: ClusterConfig) -> Roads:
    """What [links] and the machines that are used make of it. Namespaces stand for hosts; where TCP
    was asked for, nothing is shared with or within them, so that all that is sent can be seen on
    the wire."""
    links = config.links
    used = {spec.machine for spec in placement.processes}
    far = tuple(machine for machine in config.machine if machine.name in used and is_far(machine))
    auto: Transport = "both" if far else "ipc"
    transport: Transport = auto if links.transport == "auto" else links.transport
    wired = transport == "tcp" and any(machine.namespace for machine in far)
    encrypted = bool(far) and links.encryption == "curve"
    return Roads(far, transport, encrypted, links.shared_memory and available() and not wired)


def is_far(machine: Machine) -> bool:
    """Is it another host than this one? Namespaces stand for hosts."""
    return machine.namespace is not None or not is_loopback(machine.address)
