"""TCP connections of another process, and a way to reset one, as a router does that has lost its
table. Linux only; needs root, or the owner of that process."""

from __future__ import annotations

import ctypes
import os
import socket
import struct
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ESTABLISHED = "01"  # in /proc/net/tcp
PIDFD_GETFD = 438  # the system call, on every architecture; Python has no name for it
AF_UNSPEC = 0
SEEN_SECONDS = 2.0  # for a reset to arrive
End = tuple[str, int]  # address, port


@dataclass(frozen=True)
class Connection:
    """An established connection of a process: its descriptor there, and both ends."""

    pid: int
    descriptor: int
    here: End
    there: End


def connections(pid: int) -> list[Connection]:
    """All established connections of a process."""
    rows = {inode: (here, there) for here, there, inode in _established(pid)}
    found = []
    for link in Path(f"/proc/{pid}/fd").iterdir():
        try:
            kind, _, inode = str(link.readlink()).partition(":")
        except FileNotFoundError:  # closed meanwhile
            continue
        if kind == "socket" and (ends := rows.get(inode.strip("[]"))) is not None:
            found.append(Connection(pid, int(link.name), *ends))
    return sorted(found, key=lambda one: (one.here, one.there))


def reset(connection: Connection) -> None:
    """Make the kernel forget the connection. It sends a RST to the other end, and both processes
    find the connection broken. Raises OSError if the connection is gone already."""
    libc = ctypes.CDLL(None, use_errno=True)
    process = os.pidfd_open(connection.pid)
    try:
        copy = _done(libc.syscall(PIDFD_GETFD, process, connection.descriptor, 0))
    finally:
        os.close(process)
    with socket.socket(fileno=copy) as same:
        if same.getpeername() != connection.there:
            raise OSError("its descriptor is another connection's by now")
        nowhere = struct.pack("H14x", AF_UNSPEC)
        _done(libc.connect(same.fileno(), nowhere, len(nowhere)))


def was_reset(peer: int, connection: Connection, before: int) -> bool:
    """Whether the process at the other end has lost the connection by a RST. `before`: the number
    of resets that its namespace had counted until then."""
    deadline = time.monotonic() + SEEN_SECONDS
    while time.monotonic() < deadline:
        ends = [(here, there) for here, there, _ in _established(peer)]
        if (connection.there, connection.here) not in ends and resets(peer) > before:
            return True
        time.sleep(0.01)
    return False


def resets(pid: int) -> int:
    """The number of established connections that a RST has ended in this process's network."""
    names, values = (
        line.split()
        for line in Path(f"/proc/{pid}/net/snmp").read_text().splitlines()
        if line.startswith("Tcp:")
    )
    return int(values[names.index("EstabResets")])


def _established(pid: int) -> Iterator[tuple[End, End, str]]:
    """Both ends of each connection in the network of a process, and the number of its socket."""
    for line in Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]:
        _, here, there, state, *rest = line.split()
        if state == ESTABLISHED:
            yield _end(here), _end(there), rest[5]


def _end(text: str) -> End:
    address, _, port = text.partition(":")
    return socket.inet_ntoa(struct.pack("=I", int(address, 16))), int(port, 16)


def _done(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result
