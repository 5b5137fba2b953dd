"""What one process shares with its peers on this host: its arena, its windows onto theirs, and what is to be returned.

Used by `zeromq`, which carries the descriptors there and the returns back. What never lives here: sockets, credits.
"""

from __future__ import annotations

import asyncio
import os
from collections import defaultdict
from collections.abc import Callable

from runtime.arena import Arena, Array, Window
from runtime.errors import LaunchError

IN_PLACE_FROM = 16 << 10  # bytes; a smaller array is copied into its frame sooner than it is lent and returned


class SharedMemory:
    """Lends the arrays of `arena` to peers, reads theirs in place, and notices when one of them dies.

    `on_due(peer)` is called on the event loop when something of that peer's is to be returned (`take_due`).
    """

    def __init__(self, process: str, arena: Arena, on_due: Callable[[str], None]) -> None:
        self.arena = arena
        self._process = process
        self._on_due = on_due
        self._loop = asyncio.get_running_loop()
        self._windows: dict[str, Window] = {}
        self._watched: dict[str, int] = {}  # peer -> descriptor that becomes readable when its process ends
        self._due: defaultdict[str, list[int]] = defaultdict(list)

    def connect(self, peer: str, address: str) -> None:
        """Map the peer's arena; a former one, of an earlier life, is let go. LaunchError if it cannot be mapped."""
        self.disconnect(peer)
        try:
            window = Window(address, lambda offset: self._dropped(peer, offset))
            watch = os.pidfd_open(window.pid)
        except OSError as error:
            raise LaunchError(
                f"process '{self._process}' cannot map the memory of '{peer}': {error}; "
                "set links.shared_memory = false in cluster.toml"
            ) from None
        self._windows[peer], self._watched[peer] = window, watch
        self._loop.add_reader(watch, self.disconnect, peer)

    def disconnect(self, peer: str) -> None:
        """The peer's process has ended, or is another now: what it held is free, and nothing more is lent to it."""
        if peer in self._watched:
            watch = self._watched.pop(peer)
            self._loop.remove_reader(watch)
            os.close(watch)
            del self._windows[peer]
            self._due.pop(peer, None)
            self.arena.forget(peer)

    def loan(self, peer: str) -> Loan:
        """For one message to this peer."""
        return Loan(self.arena, peer if peer in self._windows else None)

    def window(self, peer: str) -> Window | None:
        """Where the arrays of this peer are read, if it shares them."""
        return self._windows.get(peer)

    def returned(self, peer: str, offsets: list[int]) -> None:
        """The peer sees these arrays of ours no more."""
        for offset in offsets:
            self.arena.returned(peer, offset)

    def take_due(self, peer: str) -> list[int]:
        """Offsets of arrays of the peer's that nobody here sees any more; they are now the caller's to return."""
        return self._due.pop(peer, [])

    def close(self) -> None:
        """Let go of every peer. Arrays that were read stay valid while somebody holds them."""
        for peer in list(self._watched):
            self.disconnect(peer)

    def _dropped(self, peer: str, offset: int) -> None:
        """From any thread, also while Python ends."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._note, peer, offset)

    def _note(self, peer: str, offset: int) -> None:
        if peer in self._windows:
            self._due[peer].append(offset)
            if len(self._due[peer]) == 1:
                self._loop.call_soon(self._on_due, peer)


class Loan:
    """The arrays of one message that stay where they are. Call it with each array: its offset, or None."""

    def __init__(self, arena: Arena, peer: str | None) -> None:
        self._arena, self._peer = arena, peer
        self.offsets: list[int] = []
        self.size = 0

    def __call__(self, array: Array) -> int | None:
        if self._peer is None or array.nbytes < IN_PLACE_FROM or not array.dtype.isnative:
            return None
        offset = self._arena.place(array)
        if offset is not None:
            self._arena.lend(offset, self._peer)
            self.offsets.append(offset)
            self.size += array.nbytes
        return offset

    def revoke(self) -> None:
        """The message was not sent."""
        for offset in self.offsets:
            self._arena.returned(self._peer, offset)
