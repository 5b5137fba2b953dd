"""A listening TCP socket from which ZeroMQ accepts one connection per call.

ZeroMQ has no option to limit its connections. Its I/O thread accepts every connection, and each
takes 75 KB and a descriptor before anything is known of its peer. But it accepts one connection
each time its epoll set reports the listening socket. So this module makes that socket itself
(ZMQ_USE_FD), and changes its entry in the set to one that reports once (EPOLLONESHOT). Further
connections wait in the system's queue until the entry is armed again.
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
# tries, and milliseconds between them, for ZeroMQ's thread to put a socket into its epoll set; one
# is mostly enough
_TRIES = 1000
_PAUSE = 2
_MODIFY = 3  # EPOLL_CTL_MOD
_ONCE = select.EPOLLIN | select.EPOLLONESHOT


class _Event(ctypes.Structure):
    """struct epoll_event, which is packed on x86-64 only."""

    if platform.machine() in ("x86_64", "AMD64"):
        _pack_ = 1
    _fields_ = (("events", ctypes.c_uint32), ("data", ctypes.c_uint64))


_control = ctypes.CDLL(None, use_errno=True).epoll_ctl
_control.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.POINTER(_Event))


class Turnstile:
    """Listens at HOST:PORT (IPv4). The host "*" stands for all addresses, the port "*" for a free
    one.

    `send_buffer`: the bytes that the system buffers for each connection. Raises OSError if the
    address is taken.
    """

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
        """Pass the socket to ZeroMQ, take over its entry in the epoll set, and let one connection
        in.

        `bind` gives the socket's descriptor to ZeroMQ, which closes it at the end. Some systems
        (sandboxes) do not show their epoll sets: then every connection is let in, with a warning.
        Raises OSError if ZeroMQ does not use an epoll set.
        """
        try:
            bind(self._descriptor)
        except BaseException:
            self._listening.close()
            raise
        self._listening.detach()
        if not _are_shown():
            text = (
                "this system does not show its epoll sets: the connections to %s whose peers have "
                "not proven their identity are not limited"
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
        """Let ZeroMQ accept one more connection.

        Do not call it after the socket was closed: its descriptor may belong to another file.
        """
        if self._set < 0:
            return
        if _control(self._set, _MODIFY, self._descriptor, ctypes.byref(self._entry)):
            number = ctypes.get_errno()
            raise OSError(
                number, (f"{os.strerror(number)}: {self.address} accepts no more connections")
            )


@functools.cache
def _are_shown() -> bool:
    """Return whether the system shows the entries of an epoll set."""
    first, second = socket.socketpair()
    with first, second, select.epoll() as found:
        found.register(first, select.EPOLLIN)
        try:
            return "tfd:" in Path("/proc/self/fdinfo", str(found.fileno())).read_text("utf-8")
        except OSError:
            return False


def _entry_of(descriptor: int) -> tuple[int, int] | None:
    """Return the epoll set of this process that reports connections of a listening socket, and the
    data of its entry."""
    row = re.compile(
        (rf"^tfd:\s+{descriptor} events:\s+([0-9a-f]+) " rf"data:\s+([0-9a-f]+)"), re.MULTILINE
    )
    for opened in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # closed meanwhile
            if str(opened.readlink()) == "anon_inode:[eventpoll]":
                found = row.search(Path("/proc/self/fdinfo", opened.name).read_text("utf-8"))
                # ZeroMQ adds the entry first and enables its events in a second step
                if found and int(found[1], 16) & select.EPOLLIN:
                    return int(opened.name), int(found[2], 16)
    return None
