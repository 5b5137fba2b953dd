"""The receiver's side of byte credits: when to grant bytes back."""

from __future__ import annotations

from runtime.messages.credits import GRANT_SHARE


class GrantBook:
    """Collects released bytes until a grant is worth a message."""

    def __init__(self, limit: int) -> None:
        self._worth = limit // GRANT_SHARE
        self._released = 0

    def release(self, size: int) -> int:
        """Note `size` released bytes. Return the bytes to grant now, or 0 if they are too few
        yet."""
        self._released += size
        if self._released < self._worth:
            return 0
        due = self._released
        self._released = 0
        return due
