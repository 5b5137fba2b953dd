"""Addresses of machines: which of them mean this one, and by which this one is reached from another."""

from __future__ import annotations

import socket
from ipaddress import ip_address

_ANY_PORT = 9  # nothing is sent to it


def is_loopback(address: str) -> bool:
    """Does it mean the machine that asks?"""
    try:
        return address == "localhost" or ip_address(address).is_loopback
    except ValueError:
        return False


def is_far(address: str, namespace: str | None) -> bool:
    """Is a machine that is there another host than this one? Namespaces stand for hosts."""
    return namespace is not None or not is_loopback(address)


def towards(address: str) -> str:
    """The address of this machine on its way to another one. OSError if there is no way, or no such name."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((address, _ANY_PORT))  # chooses the way; no packet leaves
        found: str = probe.getsockname()[0]
    return found
