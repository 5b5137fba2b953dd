"""The memory that one process shares with its peers on this host and on its device: its arenas, its
windows onto the arenas of peers, and the arrays to be returned.

Used by `sockets`, whose messages carry the descriptors of arrays and the returns.
"""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from runtime.errors import LaunchError
from runtime.memory.arena import Arena, Borrow, Loan, Window
from runtime.memory.device_arena import DEVICE, DeviceArena, DeviceWindow
from runtime.reasons import reason

_lives = itertools.count(1)


@dataclass(slots=True)
class _Peer:
    """A peer in one of its lives. Arrays lent to it or owed to it never count for a later life with
    the same name."""

    life: int
    window: Window
    watch: int  # a descriptor that becomes readable when the peer's process ends
    # offsets of the peer's arrays whose last view in this process is gone
    due: list[int] = field(default_factory=list)
    device: DeviceWindow | None = None


class SharedMemory:
    """Lends the arrays of `arena` and of `device` to peers, reads theirs in place, and notices the
    death of a peer.

    Calls `on_due(peer)` on the event loop when arrays of that peer are to be returned (`take_due`).
    """

    def __init__(
        self,
        process: str,
        arena: Arena,
        on_due: Callable[[str], None],
        device: DeviceArena | None = None,
    ) -> None:
        self.arena = arena
        self._device = device
        self._process = process
        self._on_due = on_due
        self._loop = asyncio.get_running_loop()
        self._peers: dict[str, _Peer] = {}
        self._mapped: set[str] = set()  # peers whose memory could be mapped in some life

    def connect(self, peer: str, address: str) -> None:
        """Map the peer's arena in place of the arena of an earlier life. Raises LaunchError if it
        cannot be mapped. A peer that was started again may have died once more meanwhile: then
        nothing is mapped, and its agent reports the death."""
        self.disconnect(peer)
        life = next(_lives)
        try:
            window = Window(address, lambda offset: self._dropped(peer, life, offset))
            watch = os.pidfd_open(window.pid)
        except OSError as error:
            if peer in self._mapped:
                return
            raise LaunchError(
                f"process '{self._process}' cannot map the memory of '{peer}': {reason(error)}; "
                "set links.shared_memory = false in cluster.toml"
            ) from None
        self._mapped.add(peer)
        self._peers[peer] = _Peer(life, window, watch)
        self._loop.add_reader(watch, self.disconnect, peer)

    def disconnect(self, peer: str) -> None:
        """Forget a peer whose process has ended or was replaced. Arrays lent to it are free, and no
        more are lent to it."""
        gone = self._peers.pop(peer, None)
        if gone is not None:
            self._loop.remove_reader(gone.watch)
            os.close(gone.watch)
            self.arena.forget(gone.life)
            if self._device is not None:
                self._device.forget(gone.life)

    def loan(self, peer: str) -> Loan:
        """Return a Loan for one message to this peer."""
        known = self._peers.get(peer)
        return Loan(self.arena, known.life if known is not None else 0, self._device)

    def borrow(self, peer: str, pid: int) -> Borrow:
        """Return a Borrow for one message of this peer. It has no memory if the peer shares none,
        or if `pid` is another life of it."""
        known = self._peers.get(peer)
        if known is None or known.window.pid != pid:
            return Borrow(None)
        return Borrow(known.window, known.device)

    async def open_device(
        self, peer: str, handles: Sequence[bytes], sizes: Sequence[int], events: Sequence[bytes]
    ) -> None:
        """Open the memory of a peer on the device of this process. Raises ValueError if the driver
        refuses."""
        known = self._peers.get(peer)
        if known is None or self._device is None or self._device.memory is None:
            raise ValueError("this process shares no memory of a device with it")
        if known.device is None:
            life = known.life
            known.device = DeviceWindow(
                self._device.memory, lambda offset: self._dropped(peer, life, offset)
            )
        # in a thread: the driver may take milliseconds
        await asyncio.to_thread(known.device.open, handles, sizes, events)

    def returned(self, peer: str, offsets: list[int]) -> None:
        """Take back arrays of this process whose last view at the peer is gone."""
        known = self._peers.get(peer)
        if known is not None:
            for offset in offsets:
                if self._device is not None and offset >= DEVICE:
                    self._device.returned(known.life, offset)
                else:
                    self.arena.returned(known.life, offset)

    def take_due(self, peer: str) -> list[int]:
        """Return the offsets of the peer's arrays whose last view here is gone. The caller must
        return them to the peer."""
        known = self._peers.get(peer)
        if known is None:
            return []
        due = known.due.copy()
        known.due.clear()
        return due

    def close(self) -> None:
        """Disconnect every peer. Arrays that were read stay valid as long as views of them
        exist."""
        for peer in list(self._peers):
            self.disconnect(peer)

    def _dropped(self, peer: str, life: int, offset: int) -> None:
        """Note a dropped array. Called from any thread, even during Python's shutdown."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._note, peer, life, offset)

    def _note(self, peer: str, life: int, offset: int) -> None:
        known = self._peers.get(peer)
        if known is not None and known.life == life:
            known.due.append(offset)
            if len(known.due) == 1:
                self._loop.call_soon(self._on_due, peer)
