"""Which users may read a process's pages; Linux reports the user behind a loopback connection.

A TCP socket carries no credentials. But the kernel knows the owner of every socket of the machine,
and the other end of a loopback connection is one of these sockets. The kernel is asked about that
one socket (sock_diag(7), 9 us). If it does not answer, its table of all sockets is read. That table
grows with every socket that a user opens and closes. Other systems do not report the owner; there
every connection is admitted.
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

Address = tuple[str, int]  # one end of a connection
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
    """The permitted readers: this process's user, root, and the users in `names`. With `EVERYBODY`
    among them, every connection is admitted. Used by one thread, which also closes it."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._names = frozenset(names)
        self._owners = Owners()

    def admits(self, family: socket.AddressFamily, theirs: Address, ours: Address) -> bool:
        """Return whether the user of this connection may read. False for a connection from another
        machine, and if the user cannot be found."""
        if EVERYBODY in self._names or not TABLES[socket.AF_INET].exists():
            return True
        user = self._owners.user_of(family, theirs, ours)
        return user is not None and (user in (0, os.getuid()) or _name(user) in self._names)

    def close(self) -> None:
        """Close the socket to the kernel."""
        self._owners.close()


class Owners:
    """Finds the user that owns a socket of this machine. A closed socket has no owner, whatever
    user the kernel reports. One socket to the kernel stays open, since opening it costs more than a
    question."""

    def __init__(self) -> None:
        self._kernel: socket.socket | None = None
        self._questions = 0

    def user_of(self, family: socket.AddressFamily, theirs: Address, ours: Address) -> int | None:
        """The user that owns the other end of a loopback connection. None if no such socket is
        found."""
        found = self._asked(family, theirs, ours)
        return found if found is not None or _answers() else _in_table(family, theirs, ours)

    def close(self) -> None:
        """Close the socket to the kernel. The next question opens it again."""
        if self._kernel is not None:
            self._kernel.close()
            self._kernel = None

    def _asked(self, family: socket.AddressFamily, local: Address, remote: Address) -> int | None:
        """The kernel's answer about this one socket (inet_diag_req_v2), which is ready as soon as
        the question is sent. None if the kernel does not answer."""
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
        if question != self._questions:  # an answer to an earlier question; more of them may follow
            self.close()
            return None
        if kind != _BY_FAMILY:  # the socket was not found, or an error was returned
            return None
        user, inode = struct.unpack_from("=II", answer, _USER_AT)
        return int(user) if inode else None


@cache
def _answers() -> bool:
    """Return whether the kernel answers such questions. It is asked about a connection made
    here."""
    with (
        socket.create_server(("127.0.0.1", 0)) as door,
        socket.create_connection(door.getsockname()) as own,
        closing(Owners()) as owners,
    ):
        return owners._asked(socket.AF_INET, own.getsockname(), door.getsockname()) is not None


def _in_table(family: socket.AddressFamily, local: Address, remote: Address) -> int | None:
    """The owner of the socket, found in the table of all sockets."""
    wanted = f" {_listed(family, local)} {_listed(family, remote)} "
    try:
        text = TABLES[family].read_text("utf-8")
    except (KeyError, OSError):
        return None
    at = text.find(wanted)
    if at < 0:
        return None
    row = text[text.rindex("\n", 0, at) :].split(maxsplit=_INODE + 1)
    return int(row[_USER]) if row[_INODE] != "0" else None


def _listed(family: socket.AddressFamily, address: Address) -> str:
    """The address as the kernel's table writes it: words of four bytes in this machine's byte
    order, then the port."""
    raw = socket.inet_pton(family, address[0])
    words = struct.unpack(f"={len(raw) // 4}I", raw)
    return "".join(f"{word:08X}" for word in words) + f":{address[1]:04X}"


def _name(user: int) -> str:
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return str(user)
