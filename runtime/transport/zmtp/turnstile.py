"""A listening TCP socket from which ZeroMQ accepts one connection each time it is told to.

ZeroMQ has no option for the number of its connections: its I/O thread accepts whatever comes, and
each connection takes 75 KB and a descriptor before anything is known of it. But it takes one
connection each time its epoll set reports the listening socket. Here that socket is made by us
(ZMQ_USE_FD), and its entry in the set is turned into one that reports once (EPOLLONESHOT): what
comes then waits in the system's queue until the entry is armed again.
"""

from __future__ import annotations

import ctypes
import functools
import logging
import os
import platform
import re
import select
import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

BACKLOG = 4096  # connections that wait; the system may allow fewer (net.core.somaxconn)
# milliseconds each, for ZeroMQ's thread to take a socket into its set: one is mostly enough
_TRIES = 1000
_PAUSE = 2
_MODIFY = 3  # EPOLL_CTL_MOD
_ONCE = select.EPOLLIN | select.EPOLLONESHOT


class _Event(ctypes.Structure):
    """struct epoll_event: without gaps on x86-64 alone."""

    if platform.machine() in ("x86_64", "AMD64"):
        _pack_ = 1
    _fields_ = (("events", ctypes.c_uint32), ("data", ctypes.c_uint64))


_control = ctypes.CDLL(None, use_errno=True).epoll_ctl
_control.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.POINTER(_Event))


class Turnstile:
    """Listens at HOST:PORT, of IPv4; "*" is any. `send_buffer`: bytes that the system keeps for
    each connection. OSError if the address is taken."""

    def __init__(self, address: str, send_buffer: int) -> None:
        host, _, port = address.rpartition(":")
        listening = socket.socket(socket.AF_INET)
        try:
            listening.setblocking(False)
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer)
            listening.bind(("" if host == "*" else host, 0 if port == "*" else int(port)))
            listening.listen(BACKLOG)
            self.address = "{}:{}".format(*listening.getsockname())
        except BaseException:
            listening.close()
            raise
        self._listening = listening
        self._descriptor = listening.fileno()
        self._set = -1
        self._entry = _Event()

    def hand_over(self, bind: Callable[[int], None]) -> None:
        """Give the socket to ZeroMQ, which `bind`s its descriptor and closes it in the end, and
        take over its entry in the set: one connection may come in. A system that does not show its
        epoll sets (some sandboxes) lets every connection in, with a warning. OSError if ZeroMQ
        waits for connections in another way."""
        try:
            bind(self._descriptor)
        except BaseException:
            self._listening.close()
            raise
        self._listening.detach()
        if not _are_shown():
            text = (
                "this system does not show its epoll sets: connections to %s are not bounded "
                "before they prove theirs"
            )
            logging.getLogger("convoy").warning(text, self.address)
            return
        for _ in range(_TRIES):
            if (found := _entry_of(self._descriptor)) is not None:
                self._set, data = found
                self._entry = _Event(_ONCE, data)
                self.turn()
                return
            select.select([], [], [], _PAUSE / 1000)
        raise OSError(
            f"ZeroMQ does not wait for connections to {self.address} in an epoll "
            "set, as it should on Linux"
        )

    def turn(self) -> None:
        """Let ZeroMQ accept one more connection. Not after its socket was closed: the descriptor
        may be another's."""
        if self._set < 0:
            return
        if _control(self._set, _MODIFY, self._descriptor, ctypes.byref(self._entry)):
            number = ctypes.get_errno()
            raise OSError(
                number, (f"{os.strerror(number)}: nobody can connect to {self.address} any more")
            )


@functools.cache
def _are_shown() -> bool:
    """Whether the system shows what is in an epoll set."""
    first, second = socket.socketpair()
    with first, second, select.epoll() as found:
        found.register(first, select.EPOLLIN)
        try:
            return "tfd:" in Path("/proc/self/fdinfo", str(found.fileno())).read_text()
        except OSError:
            return False


def _entry_of(descriptor: int) -> tuple[int, int] | None:
    """The epoll set of this process that reports connections to a listening socket, and what the
    set calls it."""
    row = re.compile(
        (rf"^tfd:\s+{descriptor} events:\s+([0-9a-f]+) " rf"data:\s+([0-9a-f]+)"), re.MULTILINE
    )
    for opened in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # closed meanwhile
            if str(opened.readlink()) == "anon_inode:[eventpoll]":
                found = row.search(Path("/proc/self/fdinfo", opened.name).read_text())
                # it is told in two steps that it shall report
                if found and int(found[1], 16) & select.EPOLLIN:
                    return int(opened.name), int(found[2], 16)
    return None
