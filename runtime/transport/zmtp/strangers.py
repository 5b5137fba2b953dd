"""Strangers: the connections of a process whose peers have not proven their identity yet. Each
takes one of a limited number of places.

A connection without a place waits in the system's queue, where it takes neither memory nor a
descriptor of the process.
"""

from __future__ import annotations

from collections import deque
from typing import Protocol

# places, and one more for each further door; with frames of 1 MB at most, strangers take 30 MB
MOST = 24
SECONDS = 2.0  # for the proof; then ZeroMQ drops the connection
# for the other end to answer; it may wait for strangers, whose places are free again after 2 s
DIAL_SECONDS = 30.0
# seconds; a connection that still exists after them was not dropped, so its peer has proven its
# identity
PROVEN_AFTER = 3.0


class Waiting(Protocol):
    """A door that waits for a free place."""

    def admit(self) -> None:
        """Accept the next connection: there is a place for it."""


class Strangers:
    """The places for strangers of a process, which all its doors share. A connection is known by
    its door and descriptor."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._since: dict[tuple[Waiting, int], float] = {}
        self._waiting: deque[Waiting] = deque()

    def __repr__(self) -> str:
        return (
            f"<{len(self._since)} strangers, at most {self._most}; {len(self._waiting)} doors wait>"
        )

    def come(self, door: Waiting, connection: int, now: float) -> None:
        """Take a place for a connection that was accepted at `now`, in seconds of any monotonic
        clock."""
        self._since[door, connection] = now

    def proven(self, door: Waiting) -> None:
        """Free the place of a peer at this door that has proven its identity.

        ZeroMQ does not report which peer it was: most likely the last one that came. If it was
        another, `tidy` frees the right place later. Until then one place too many is taken, never
        one too few.
        """
        last = next((key for key in reversed(self._since) if key[0] is door), None)
        if last is not None:
            self._free(last)

    def left(self, door: Waiting, connection: int) -> None:
        """Free the place of a connection that has ended, if it still has one."""
        self._free((door, connection))

    def next_for(self, door: Waiting) -> None:
        """Call `admit` of the door when there is a place for its next connection, at once if there
        is one now."""
        if len(self._since) < self._most:
            door.admit()
        elif door not in self._waiting:
            self._waiting.append(door)

    def tidy(self, now: float) -> float:
        """Free the places of connections that must have proven themselves by `now`. Return the
        seconds until the next one must have, or 0 if no door waits for a place."""
        for key in [key for key, since in self._since.items() if now - since >= PROVEN_AFTER]:
            self._free(key)
        oldest = next(iter(self._since.values()), now)
        return oldest + PROVEN_AFTER - now if self._waiting else 0.0

    def forget(self, door: Waiting) -> None:
        """Forget a closed door and its connections."""
        if door in self._waiting:
            self._waiting.remove(door)
        for key in [key for key in self._since if key[0] is door]:
            self._free(key)

    def _free(self, key: tuple[Waiting, int]) -> None:
        if self._since.pop(key, None) is not None and len(self._since) < self._most:
            while self._waiting:  # all waiting doors: the first may have no connection to accept
                self._waiting.popleft().admit()
