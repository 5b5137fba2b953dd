"""What one process shares with its peers on this host: its arena, its windows onto theirs, and what
is to be returned.

Used by `sockets`, which carries the descriptors there and the returns back.
"""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import Callable
from dataclasses import dataclass, field

from runtime.errors import LaunchError
from runtime.memory.arena import Arena, Loan, Window
from runtime.reasons import reason

_lives = itertools.count(1)


@dataclass(frozen=True, slots=True)
class _Peer:
    """A peer in one of its lives. What is lent to it or due to it never counts for a later life of
    the same name."""

    life: int
    window: Window
    watch: int  # a descriptor that becomes readable when its process ends
    # offsets of its arrays that nobody here sees any more
    due: list[int] = field(default_factory=list)


class SharedMemory:
    """Lends the arrays of `arena` to peers, reads theirs in place, and notices when one of them
    dies.

    `on_due(peer)` is called on the event loop when something of that peer's is to be returned
    (`take_due`).
    """

    def __init__(self, process: str, arena: Arena, on_due: Callable[[str], None]) -> None:
        self.arena = arena
        self._process = process
        self._on_due = on_due
        self._loop = asyncio.get_running_loop()
        self._peers: dict[str, _Peer] = {}

    def connect(self, peer: str, address: str) -> None:
        """Map the peer's arena; a former one, of an earlier life, is let go. LaunchError if it
        cannot be mapped."""
        self.disconnect(peer)
        life = next(_lives)
        try:
            window = Window(address, lambda offset: self._dropped(peer, life, offset))
            watch = os.pidfd_open(window.pid)
        except OSError as error:
            raise LaunchError(
                f"process '{self._process}' cannot map the memory of '{peer}': {reason(error)}; "
                "set links.shared_memory = false in cluster.toml"
            ) from None
        self._peers[peer] = _Peer(life, window, watch)
        self._loop.add_reader(watch, self.disconnect, peer)

    def disconnect(self, peer: str) -> None:
        """The peer's process has ended, or is another now: what it held is free, and nothing more
        is lent to it."""
        gone = self._peers.pop(peer, None)
        if gone is not None:
            self._loop.remove_reader(gone.watch)
            os.close(gone.watch)
            self.arena.forget(gone.life)

    def loan(self, peer: str) -> Loan:
        """For one message to this peer."""
        known = self._peers.get(peer)
        return Loan(self.arena, known.life if known is not None else 0)

    def window(self, peer: str, pid: int) -> Window | None:
        """Where the arrays of this peer are read, if it shares them and is that process (not an
        earlier life)."""
        known = self._peers.get(peer)
        return known.window if known is not None and known.window.pid == pid else None

    def returned(self, peer: str, offsets: list[int]) -> None:
        """The peer sees these arrays of ours no more."""
        known = self._peers.get(peer)
        if known is not None:
            for offset in offsets:
                self.arena.returned(known.life, offset)

    def take_due(self, peer: str) -> list[int]:
        """Offsets of arrays of the peer's that nobody here sees any more; they are now the caller's
        to return."""
        known = self._peers.get(peer)
        if known is None:
            return []
        due = known.due.copy()
        known.due.clear()
        return due

    def close(self) -> None:
        """Let go of every peer. Arrays that were read stay valid while somebody holds them."""
        for peer in list(self._peers):
            self.disconnect(peer)

    def _dropped(self, peer: str, life: int, offset: int) -> None:
        """From any thread, also while Python ends."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._note, peer, life, offset)

    def _note(self, peer: str, life: int, offset: int) -> None:
        known = self._peers.get(peer)
        if known is not None and known.life == life:
            known.due.append(offset)
            if len(known.due) == 1:
                self._loop.call_soon(self._on_due, peer)
