"""Who may read a process's pages: connections over loopback are made by users of this machine, and
Linux says by which.

A TCP socket carries no credentials, but the kernel knows the owner of every socket of the machine,
and the other end of a loopback connection is one of them. It is asked for that one socket
(sock_diag(7), 9 us). Where it does not answer, its table of all sockets is read: whoever opens and
closes many makes that long. Other systems do not tell, and everybody is admitted there.
"""

from __future__ import annotations

import os
import pwd
import socket
import struct
from collections.abc import Iterable
from contextlib import closing
from functools import cache
from pathlib import Path

Address = tuple[str, int]  # of one end of a connection
TABLES = {socket.AF_INET: Path("/proc/self/net/tcp"), socket.AF_INET6: Path("/proc/self/net/tcp6")}
EVERYBODY = "*"
_USER = 7  # columns of the table
_INODE = 9
_SOCK_DIAG = 4  # NETLINK_SOCK_DIAG, SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST
_BY_FAMILY = 20
_REQUEST = 1
_HEADER = struct.Struct("=IHHII")  # nlmsghdr
_ANY = 0xFFFFFFFF  # state, cookie
# in the answer: after inet_diag_msg's states, socket, expiry and queues
_USER_AT = _HEADER.size + 4 + 48 + 12


class Readers:
    """This process's user, root, and the users of these `names`; with EVERYBODY among them, whoever
    connects. For one thread, which closes it."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._names = frozenset(names)
        self._owners = Owners()

    def admits(self, family: socket.AddressFamily, theirs: Address, ours: Address) -> bool:
        """May who made this connection read? Who is on another machine, or cannot be found, may
        not."""
        if EVERYBODY in self._names or not TABLES[socket.AF_INET].exists():
            return True
        user = self._owners.user_of(family, theirs, ours)
        return user is not None and (user in (0, os.getuid()) or _name(user) in self._names)

    def close(self) -> None:
        """Ask nobody any more."""
        self._owners.close()


class Owners:
    """Who holds the sockets of this machine; nobody those that were closed, whatever user the
    kernel names for them. It keeps one to the kernel: making one costs more than to ask it."""

    def __init__(self) -> None:
        self._kernel: socket.socket | None = None
        self._questions = 0

    def user_of(self, family: socket.AddressFamily, theirs: Address, ours: Address) -> int | None:
        """The user that holds the other end of a connection of this machine; None where nobody is
        found."""
        found = self._asked(family, theirs, ours)
        return found if found is not None or _answers() else _in_table(family, theirs, ours)

    def close(self) -> None:
        """The next question opens it again."""
        if self._kernel is not None:
            self._kernel.close()
            self._kernel = None

    def _asked(self, family: socket.AddressFamily, local: Address, remote: Address) -> int | None:
        """The kernel's answer for this one socket (inet_diag_req_v2), which is there when it has
        been asked; None where it has none."""
        ends = struct.pack("!HH", local[1], remote[1])
        ends += b"".join(
            socket.inet_pton(family, host).ljust(16, b"\0") for host, _ in (local, remote)
        )
        body = (
            struct.pack("=BBBBI", family, socket.IPPROTO_TCP, 0, 0, _ANY)
            + ends
            + struct.pack("=III", 0, _ANY, _ANY)
        )
        self._questions = (self._questions + 1) & _ANY
        try:
            if self._kernel is None:
                self._kernel = socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, _SOCK_DIAG)
            head = _HEADER.pack(_HEADER.size + len(body), _BY_FAMILY, _REQUEST, self._questions, 0)
            self._kernel.send(head + body)
            answer = self._kernel.recv(4096, socket.MSG_DONTWAIT)
        except OSError:
            self.close()
            return None
        _, kind, _, question, _ = _HEADER.unpack_from(answer)
        if question != self._questions:  # an answer that came too late; others may come after it
            self.close()
            return None
        if kind != _BY_FAMILY:  # there is no such socket, or nobody who answers
            return None
        user, inode = struct.unpack_from("=II", answer, _USER_AT)
        return int(user) if inode else None


@cache
def _answers() -> bool:
    """Does the kernel answer at all? It is asked for a connection of our own."""
    with (
        socket.create_server(("127.0.0.1", 0)) as door,
        socket.create_connection(door.getsockname()) as own,
        closing(Owners()) as owners,
    ):
        return owners._asked(socket.AF_INET, own.getsockname(), door.getsockname()) is not None


def _in_table(family: socket.AddressFamily, local: Address, remote: Address) -> int | None:
    """The same from the table of all sockets."""
    wanted = f" {_listed(family, local)} {_listed(family, remote)} "
    try:
        text = TABLES[family].read_text()
    except (KeyError, OSError):
        return None
    at = text.find(wanted)
    if at < 0:
        return None
    row = text[text.rindex("\n", 0, at) :].split(maxsplit=_INODE + 1)
    return int(row[_USER]) if row[_INODE] != "0" else None


def _listed(family: socket.AddressFamily, address: Address) -> str:
    """As the kernel's table writes it: words of four bytes in this machine's order, and the
    port."""
    raw = socket.inet_pton(family, address[0])
    words = struct.unpack(f"={len(raw) // 4}I", raw)
    return "".join(f"{word:08X}" for word in words) + f":{address[1]:04X}"


def _name(user: int) -> str:
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return str(user)
