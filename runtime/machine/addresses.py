"""Choosing the address that a machine uses. cluster.toml gives the wish as plain data, and the
machine itself picks.

    wanted                 means
    "auto"                 the address that the machine has on its route to `up`
    "10.0.0.7"             this address
    "10.0.0.0/8"           the machine's first address in this network
    "eth0"                 the address of this interface
    "node7"                the address of this host name, as the machine resolves it

Links and pages use IPv4. An address of IPv6 is refused.
"""

from __future__ import annotations

import array
import re
import socket
import struct
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_interface, ip_network
from typing import NamedTuple

from runtime.errors import LaunchError

AUTO = "auto"
NOT_IPV6 = "it is an address of IPv6, and links and pages use IPv4"
LOOPBACK = "lo"  # the interface of every Linux machine
_NAME = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9._@:-]{0,251}[A-Za-z0-9_])?")
_SIOCGIFCONF = 0x8912  # Linux: all addresses of all interfaces that are up
# a name and a sockaddr, or more
_IFREQ = struct.Struct("16s16x" if struct.calcsize("P") == 4 else "16s24x")


class Interface(NamedTuple):
    """One address of a machine, and the interface that has it."""

    name: str
    address: str


def is_ipv6(text: str) -> bool:
    """Whether the text is an address or a network of IPv6, also in the brackets of a URL."""
    with suppress(ValueError):
        return ip_interface(text.strip("[]")).version == 6
    return False


def mistake(wanted: str) -> str:
    """Return why this text cannot be the address of any machine, or "" if it can."""
    if is_ipv6(wanted):
        return (
            f"{NOT_IPV6}: expected an IPv4 address, a network such as '10.0.0.0/8', an interface "
            "or a host name"
        )
    if "/" in wanted:
        return "" if _network(wanted) else "expected a network such as '10.0.0.0/8'"
    if re.fullmatch(r"[0-9.]+", wanted):
        with suppress(ValueError):
            unspecified = ip_address(wanted).is_unspecified
            return (
                ("others cannot reach it: give a network, such as '10.0.0.0/8', or an interface")
                if unspecified
                else ""
            )
        return "expected an address such as '10.0.0.7'"
    if _NAME.fullmatch(wanted) or ":" in wanted:
        return ""
    return "expected an address, a network such as '10.0.0.0/8', an interface or a host name"


def is_loopback(wanted: str) -> bool:
    """Whether this is certainly an address that only processes of the same machine can reach."""
    network = _network(wanted)
    return wanted in ("localhost", LOOPBACK) or (network is not None and network.is_loopback)


def pick(
    wanted: str,
    interfaces: Sequence[Interface],
    towards_up: str = "",
    look_up: Callable[[str], Sequence[str]] = lambda name: (),
) -> str:
    """Return the address that a machine with these interfaces listens on.

    `towards_up` is its own address on the route to `up`, if that is known. `look_up` returns the
    addresses of a host name. Raises LaunchError, which lists the addresses that the machine has.
    """
    here = [interface.address for interface in interfaces]
    far = [address for address in here if not is_loopback(address)]
    if wanted == AUTO:
        if towards_up or len(far) == 1:
            return towards_up or far[0]
        which = (
            "it has none that others can reach"
            if not far
            else ("which of its addresses others reach is not known")
        )
        raise LaunchError(
            f"address 'auto': {which}; {described(interfaces)}; give an interface or a network"
        )
    network = _network(wanted)
    if network is not None and ("/" not in wanted or network.num_addresses == 1):
        address = str(network.network_address)
        if network.is_loopback or address in here:
            return address
        raise LaunchError(f"address '{wanted}': no interface has it; {described(interfaces)}")
    if network is not None:
        among = here if network.is_loopback else far
        inside = next((address for address in among if ip_address(address) in network), None)
        if inside is None:
            raise LaunchError(
                f"address '{wanted}': no interface is in this network; {described(interfaces)}"
            )
        return inside
    named = next((address for name, address in interfaces if name == wanted), None)
    if named is not None:
        return named
    return _named(wanted, look_up(wanted), here, interfaces)


def _named(
    wanted: str, found: Sequence[str], here: Sequence[str], interfaces: Sequence[Interface]
) -> str:
    """Return the address of a host name. It must be an address of this machine that others can
    reach."""
    mine = [address for address in found if address in here]
    chosen = next(
        (address for address in mine if wanted == "localhost" or not is_loopback(address)), None
    )
    if chosen is not None:
        return chosen
    if not found:
        why = "no interface and no host has this name"
    elif mine:
        why = f"the name stands for {', '.join(mine)}, which only this machine reaches"
    else:
        why = f"the name stands for {', '.join(found)}, which this machine does not have"
    raise LaunchError(f"address '{wanted}': {why}; {described(interfaces)}")


def own(wanted: str, up: str = "") -> str:
    """Call `pick` for this machine. `up` is an address of `up`, if `up` has one that machines
    reach. Raises LaunchError."""
    if wanted not in (AUTO, LOOPBACK) and "/" not in wanted and is_loopback(wanted):
        return "127.0.0.1" if wanted == "localhost" else wanted
    mine = towards(up) if up and wanted == AUTO else ""
    return pick(wanted, interfaces(), mine, _looked_up)


def interfaces() -> list[Interface]:
    """Return the interfaces of this machine, or of this process's network namespace, as the system
    lists them. On systems other than Linux, only the addresses of the host's name are returned."""
    if sys.platform != "linux":
        return [Interface("?", address) for address in _looked_up(socket.gethostname())]
    import fcntl

    room = array.array("B", bytes(_IFREQ.size * 1024))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        asked = struct.pack("iP", len(room), room.buffer_info()[0])
        size, _ = struct.unpack("iP", fcntl.ioctl(any_socket, _SIOCGIFCONF, asked))
    entries = (bytes(room[at : at + _IFREQ.size]) for at in range(0, size, _IFREQ.size))
    return [
        Interface(entry[:16].split(b"\0")[0].decode(), socket.inet_ntoa(entry[20:24]))
        for entry in entries
    ]


def towards(other: str) -> str:
    """Return this machine's own address on the route to `other`. "" if there is no route or no such
    name. No packet is sent."""
    with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as way:
        way.connect((other, 9))  # any port: for UDP, connect only looks up the route
        return str(way.getsockname()[0])
    return ""


def only() -> str:
    """Return the one address of this machine that others can reach; "" if it has several, or
    none."""
    far = {interface.address for interface in interfaces() if not is_loopback(interface.address)}
    return far.pop() if len(far) == 1 else ""


def on_the_way(wanted: str, host: str) -> str:
    """Return this machine's own address on the route to a machine that will listen at `wanted` and
    is connected to as `host`. "" if no route to either is known."""
    network = _network(wanted)
    if network is None or network.num_addresses == 1:
        if wanted != AUTO and (found := towards(wanted.partition("/")[0])):
            return found
        return towards(host)
    with suppress(LaunchError):
        return pick(wanted, interfaces())
    return towards(host)


def _network(wanted: str) -> IPv4Network | IPv6Network | None:
    """Return a network, or an address as a network of one; None for other text."""
    with suppress(ValueError):
        return ip_network(wanted, strict=False)
    return None


def _looked_up(name: str) -> list[str]:
    with suppress(OSError, UnicodeError):
        return list(
            dict.fromkeys(
                str(found[4][0]) for found in socket.getaddrinfo(name, None, socket.AF_INET)
            )
        )
    return []


def described(interfaces: Sequence[Interface]) -> str:
    """List the interfaces in words, for error texts."""
    listed = ", ".join(f"{interface.name} {interface.address}" for interface in interfaces)
    return f"this machine has {listed or 'no address'}"
