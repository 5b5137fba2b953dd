"""The connections of a process whose peers have not proven yet who they are: a place for each, and
so many places.

A connection without a place waits in the system's queue, where it takes neither memory nor a
descriptor of the process.
"""

from __future__ import annotations

from collections import deque
from typing import Protocol

# places, and one more for each further door; with frames of 1 MB at most, strangers have 30 MB
MOST = 24
SECONDS = 2.0  # for a proof; then ZeroMQ drops the connection
# for the other end to answer: it may wait behind strangers, whose places are free again after 2 s
DIAL_SECONDS = 30.0
# seconds: a connection that is still there was not dropped, so its peer has proven who it is
PROVEN_AFTER = 3.0


class Waiting(Protocol):
    """A door that accepts nothing for lack of a place."""

    def admit(self) -> None:
        """There is a place: accept the next connection."""


class Strangers:
    """The places of a process, which all its doors share. A connection is named by its door and
    descriptor."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._since: dict[tuple[Waiting, int], float] = {}
        self._waiting: deque[Waiting] = deque()

    def __repr__(self) -> str:
        return (
            f"<{len(self._since)} strangers, at most {self._most}; {len(self._waiting)} doors wait>"
        )

    def come(self, door: Waiting, connection: int, now: float) -> None:
        """A connection was accepted at `now`, in seconds of any clock that only grows."""
        self._since[door, connection] = now

    def proven(self, door: Waiting) -> None:
        """A peer at this door has proven who it is. ZeroMQ does not say which: most likely the one
        that came last. If it was another, `tidy` finds the right one later; until then one place
        too many is taken, never one too few."""
        last = next((key for key in reversed(self._since) if key[0] is door), None)
        if last is not None:
            self._free(last)

    def left(self, door: Waiting, connection: int) -> None:
        """A connection has ended, proven or not."""
        self._free((door, connection))

    def next_for(self, door: Waiting) -> None:
        """The door asks for a place for the next connection: it is told at once, or when there is
        one."""
        if len(self._since) < self._most:
            door.admit()
        elif door not in self._waiting:
            self._waiting.append(door)

    def tidy(self, now: float) -> float:
        """Free the places of connections that must have proven themselves by `now`: seconds until
        the next one must have, 0 if no door waits for it."""
        for key in [key for key, since in self._since.items() if now - since >= PROVEN_AFTER]:
            self._free(key)
        oldest = next(iter(self._since.values()), now)
        return oldest + PROVEN_AFTER - now if self._waiting else 0.0

    def forget(self, door: Waiting) -> None:
        """A door has closed, and its connections with it."""
        if door in self._waiting:
            self._waiting.remove(door)
        for key in [key for key in self._since if key[0] is door]:
            self._free(key)

    def _free(self, key: tuple[Waiting, int]) -> None:
        if self._since.pop(key, None) is not None and len(self._since) < self._most:
            while self._waiting:  # every door: at the first there may be no connection
                self._waiting.popleft().admit()
