"""The names by which a process's pages may be called: what a browser says in the header Host.

A page of a stranger can have its own name lead to an address of this machine (DNS rebinding), and
would then read these pages as its own, with the connection of a user who may read. The browser
still says the stranger's name. An address in its place is nobody's name, so whoever calls a page by
its address is admitted, as Prometheus does by the list at `/sd`.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import cached_property
from ipaddress import ip_address
from pathlib import Path

ANY = "*"
MOST_BYTES = 1 << 20  # of a file of the system
LOCAL = "localhost"


class Hosts:
    """This machine's addresses and own names, and these `names`; with ANY among them, whatever is
    said."""

    def __init__(
        self, names: Iterable[str] = (), own: Callable[[], Iterable[str]] | None = None
    ) -> None:
        self._names = frozenset(map(_plain, names))
        self._find = own or own_names

    def admits(self, header: str) -> bool:
        """May a page be called so? `header`: of the request, "" if it has none: every browser says
        one."""
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
        """Found when it is asked for first, in the thread that serves: files are read."""
        return frozenset(map(_plain, self._find()))


def own_names(etc: Path = Path("/etc")) -> Iterator[str]:
    """The host name of this machine, the names beside it in `hosts`, and itself in the domains of
    `resolv.conf`. No name server is asked: it may be slow, or the stranger's."""
    name = socket.gethostname().lower()
    yield name
    for words in _lines(etc / "hosts"):
        if name in map(str.lower, words[1:]):
            yield from words[1:]
    for words in _lines(etc / "resolv.conf"):
        if words[0] in ("search", "domain"):
            yield from (f"{name}.{domain}" for domain in words[1:] if "." not in name)


def _lines(path: Path) -> Iterator[list[str]]:
    """The words of each line, without comments; nothing of a file that is not there."""
    with suppress(OSError), path.open("rb") as file:
        for line in file.read(MOST_BYTES).decode("utf-8", "replace").splitlines():
            if words := line.partition("#")[0].split():
                yield words


def _plain(name: str) -> str:
    return name.strip().lower().strip("[]").removesuffix(".")


def _has_port(header: str) -> bool:
    """An address of IPv6 has colons, too, but stands in brackets before a port."""
    host, colon, port = header.rpartition(":")
    return bool(colon) and port.strip().isdecimal() and (":" not in host or host.endswith("]"))


def _is_address(name: str) -> bool:
    with suppress(ValueError):
        return bool(ip_address(name))
    return False
