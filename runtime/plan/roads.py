"""The roads between the processes of a run: which machines are other hosts, and which kinds of
links they need."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from runtime.machine.addresses import is_loopback
from runtime.memory.mapping import available
from runtime.plan.topology import Placement

if TYPE_CHECKING:
    from runtime.config.sections import ClusterConfig, Machine  # importing it loads pydantic

Transport = Literal["ipc", "tcp", "both"]
OPEN = (  # shown at each start
    "links.encryption is 'none': any computer on the network between the machines can read all "
    "messages of the run, "
    "and can take part in it"
)


@dataclass(frozen=True)
class Roads:
    """The kinds of links in a run. `far` are the machines that are other hosts and run processes.

    `transport` is Unix sockets, TCP, or both: Unix sockets within each host and TCP between hosts.
    `encrypted` is True if links between hosts are encrypted.
    """

    far: tuple[Machine, ...]
    transport: Transport
    encrypted: bool
    shared_memory: bool

    @property
    def scheme(self) -> str:
        """The scheme of the addresses that other hosts reach."""
        return "curve" if self.encrypted else "tcp"

    @property
    def doubts(self) -> str:
        """A warning for the user about the links, or "" if there is no danger."""
        return OPEN if self.far and not self.encrypted else ""


def roads_of(placement: Placement, config: ClusterConfig) -> Roads:
    """Return the roads that follow from [links] and from the machines that are used.

    A namespace counts as a host. If TCP was asked for and there are namespaces, no memory is
    shared, so that all messages can be observed on the network.
    """
    links = config.links
    used = {spec.machine for spec in placement.processes}
    far = tuple(machine for machine in config.machine if machine.name in used and is_far(machine))
    auto: Transport = "both" if far else "ipc"
    transport: Transport = auto if links.transport == "auto" else links.transport
    wired = transport == "tcp" and any(machine.namespace for machine in far)
    encrypted = bool(far) and links.encryption == "curve"
    return Roads(far, transport, encrypted, links.shared_memory and available() and not wired)


def is_far(machine: Machine) -> bool:
    """Whether the machine is another host than this one. A namespace counts as a host."""
    return machine.namespace is not None or not is_loopback(machine.address)
