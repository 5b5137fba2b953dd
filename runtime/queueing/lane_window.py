"""The window of a lane: how many bytes may be under way on it."""

from __future__ import annotations

from collections import deque
from typing import Generic, TypeVar

Turn = TypeVar("Turn")


class Window(Generic[Turn]):
    """The window of a lane, which works like byte credits (`runtime.messages.credits`).

    A transfer is admitted if it and the transfers under way have at most `size` bytes together, or
    if at most an eighth of that is under way before it.
    """

    def __init__(self, size: float) -> None:
        self._size = size
        self._under_way = 0.0
        self.waiting: deque[tuple[Turn, int, float]] = deque()

    def comes(self, turn: Turn, at: int, size: float) -> None:
        """Add a transfer of `size` bytes that waits to be admitted."""
        self.waiting.append((turn, at, size))

    def gone(self, size: float) -> None:
        """Note that `size` bytes have arrived."""
        self._under_way -= size

    def admitted(self) -> tuple[Turn, int] | None:
        """The first transfer of those that wait, if there is room for it now."""
        turn, at, size = self.waiting[0]
        if self._under_way + size > self._size and self._under_way > self._size / 8:
            return None
        self._under_way += size
        self.waiting.popleft()
        return turn, at
