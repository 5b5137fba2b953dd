"""Who may read a process's pages: connections over loopback are made by users of this machine, and Linux says by which.

A TCP socket carries no credentials, but the kernel lists the owner of every socket of the machine, and the other end of
a loopback connection is one of them. Other systems do not tell, and everybody is admitted there.
"""

from __future__ import annotations

import os
import pwd
import socket
import struct
from collections.abc import Iterable
from pathlib import Path

Address = tuple[str, int]  # of one end of a connection
TABLES = {socket.AF_INET: Path("/proc/self/net/tcp"), socket.AF_INET6: Path("/proc/self/net/tcp6")}
EVERYBODY = "*"
_LOCAL, _REMOTE, _USER = 1, 2, 7  # columns of the table


class Readers:
    """This process's user, root, and the users of these `names`; with EVERYBODY among them, whoever connects."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._names = frozenset(names)

    def admits(self, family: socket.AddressFamily, theirs: Address, ours: Address) -> bool:
        """May who made this connection read? Who is on another machine, or cannot be found, may not."""
        if EVERYBODY in self._names or not TABLES[socket.AF_INET].exists():
            return True
        user = user_of(family, theirs, ours)
        return user is not None and (user in (0, os.getuid()) or _name(user) in self._names)


def user_of(family: socket.AddressFamily, theirs: Address, ours: Address) -> int | None:
    """The user that holds the other end of a connection of this machine; None where nobody is found."""
    wanted = _listed(family, theirs), _listed(family, ours)
    try:
        rows = TABLES[family].read_text().splitlines()[1:]
    except (KeyError, OSError):
        return None
    for row in map(str.split, rows):
        if (row[_LOCAL], row[_REMOTE]) == wanted:
            return int(row[_USER])
    return None


def _listed(family: socket.AddressFamily, address: Address) -> str:
    """As the kernel's table writes it: words of four bytes in this machine's order, and the port."""
    raw = socket.inet_pton(family, address[0])
    words = struct.unpack(f"={len(raw) // 4}I", raw)
    return "".join(f"{word:08X}" for word in words) + f":{address[1]:04X}"


def _name(user: int) -> str:
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return str(user)
