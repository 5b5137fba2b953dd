"""The names by which a process's pages may be called, as browsers send them in the header Host.

A hostile web page can point its own name at an address of this machine (DNS rebinding). The browser
would then let it read these pages as its own, over the connection of a permitted user. The header
Host still holds the hostile name. An address in place of a name cannot be forged in this way, so
callers that use an address are admitted. Prometheus does so with the list at `/sd`.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import cached_property
from ipaddress import ip_address
from pathlib import Path

ANY = "*"
MOST_BYTES = 1 << 20  # read of a system file
LOCAL = "localhost"


class Hosts:
    """The addresses and names of this machine, and the additional `names`. With ANY among them,
    every name is admitted."""

    def __init__(
        self, names: Iterable[str] = (), own: Callable[[], Iterable[str]] | None = None
    ) -> None:
        self._names = frozenset(map(_plain, names))
        self._find = own or own_names

    def admits(self, header: str) -> bool:
        """Return whether a page may be called by this name. `header` is the request's Host, "" if
        it has none; every browser sends one."""
        name = _plain(header[: header.rfind(":")] if _has_port(header) else header)
        return (
            not name
            or ANY in self._names
            or name in (LOCAL, *self._names)
            or _is_address(name)
            or name in self._own
        )

    @cached_property
    def _own(self) -> frozenset[str]:
        """The machine's names, found at first use, in the serving thread, since files are read."""
        return frozenset(map(_plain, self._find()))


def own_names(etc: Path = Path("/etc")) -> Iterator[str]:
    """The host name of this machine, its other names in `hosts`, and the host name in each domain
    of `resolv.conf`. No name server is asked: it may be slow, or under the attacker's control."""
    name = socket.gethostname().lower()
    yield name
    for words in _lines(etc / "hosts"):
        if name in map(str.lower, words[1:]):
            yield from words[1:]
    for words in _lines(etc / "resolv.conf"):
        if words[0] in ("search", "domain"):
            yield from (f"{name}.{domain}" for domain in words[1:] if "." not in name)


def _lines(path: Path) -> Iterator[list[str]]:
    """The words of each line, without comments. Empty if the file cannot be read."""
    with suppress(OSError), path.open("rb") as file:
        for line in file.read(MOST_BYTES).decode("utf-8", "replace").splitlines():
            if words := line.partition("#")[0].split():
                yield words


def _plain(name: str) -> str:
    return name.strip().lower().strip("[]").removesuffix(".")


def _has_port(header: str) -> bool:
    """Return whether the header ends in a port. IPv6 addresses also have colons, but stand in
    brackets before a port."""
    host, colon, port = header.rpartition(":")
    return bool(colon) and port.strip().isdecimal() and (":" not in host or host.endswith("]"))


def _is_address(name: str) -> bool:
    with suppress(ValueError):
        return bool(ip_address(name))
    return False
