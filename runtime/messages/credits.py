"""Byte credits: the number of bytes that one sender may have under way to one receiver on one lane.

The receiver grants bytes back when its actor has handled them. So a slow reader slows its writer,
and no queue grows without limit. No sockets here.
"""

from __future__ import annotations

import asyncio
from collections import deque

from runtime.errors import ActorStopped

# A receiver collects this share of the window before it sends a grant, so that many small messages
# cost one small grant. A sender with no more than that share outstanding is never held back, so
# grants that are not yet sent cannot stop it.
GRANT_SHARE = 8
# The least cost of a message, in bytes. Bounds the number of messages, not only their bytes.
MINIMUM_COST = 256


class CreditGate:
    """The sender's side of byte credits. At most `limit / GRANT_SHARE` bytes and one window are
    under way. The window is `limit`, or one larger message."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.outstanding = 0
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()
        # senders whose turn has come and whose task has not run since; no sender may overtake them
        self._turning = 0
        self._closed: str | None = None

    def __repr__(self) -> str:
        return f"<credits {self.outstanding}/{self.limit} bytes out, {len(self._waiting)} waiting>"

    @property
    def waiting(self) -> int:
        """The number of senders held back now."""
        return len(self._waiting)

    def admit(self, size: int) -> bool:
        """Take `size` bytes at once and return True, or return False if the sender would have to
        wait. Raises ActorStopped once the gate is closed."""
        if self._closed is not None:
            raise ActorStopped(self._closed)
        if self._waiting or self._turning or not self._admits(size):
            return False
        self.outstanding += size
        return True

    async def acquire(self, size: int) -> None:
        """Wait, in order, until `size` more bytes may be under way. Raises ActorStopped once the
        gate is closed."""
        if self.admit(size):
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((size, turn))
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                self._turning -= 1
                self.grant(size)  # the turn came in the same moment as the cancellation
            else:
                self._waiting = deque(item for item in self._waiting if item[1] is not turn)
                self._wake()
            raise
        finally:
            # its error holds this frame (by the traceback), and so the message to be sent
            del turn
        self._turning -= 1
        self._wake()
        if self._closed is not None:
            raise ActorStopped(self._closed)

    def grant(self, size: int) -> None:
        """Take `size` bytes, which the receiver has granted back, off the outstanding ones."""
        self.outstanding = max(0, self.outstanding - size)
        self._wake()

    def close(self, why: str) -> None:
        """Close the gate: all waiting and all later senders get ActorStopped(`why`)."""
        self._closed = why
        for _, turn in self._waiting:
            if not turn.done():
                turn.set_exception(ActorStopped(why))
        self._waiting.clear()

    def _admits(self, size: int) -> bool:
        return (
            self.outstanding + size <= self.limit or self.outstanding <= self.limit // GRANT_SHARE
        )

    def _wake(self) -> None:
        while self._waiting and self._admits(self._waiting[0][0]):
            size, turn = self._waiting.popleft()
            if not turn.done():
                self.outstanding += size
                self._turning += 1
                turn.set_result(None)


def cost_of(size: int) -> int:
    """Return the credits that a message of `size` bytes takes."""
    return max(size, MINIMUM_COST)
