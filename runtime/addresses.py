"""Addresses of machines: which of them mean this one, and by which this one is reached from another."""

from __future__ import annotations

import socket
from contextlib import suppress
from ipaddress import ip_address


def is_loopback(wanted: str) -> bool:
    """Is it for certain an address that only processes of one machine can reach?"""
    try:
        return wanted == "localhost" or ip_address(wanted).is_loopback
    except ValueError:
        return False


def towards(other: str) -> str:
    """This machine's own address on the way to another one; "" if there is no way. Nothing is sent."""
    with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as way:
        way.connect((other, 9))  # any port: for UDP this only looks at the routes
        return str(way.getsockname()[0])
    return ""
