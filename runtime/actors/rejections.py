"""Logging of rejected messages at a bounded rate, so that a peer that sends garbage cannot fill the
disk with log lines.

In each PERIOD the first LOGGED rejections are logged one by one. The rest are counted and logged as
one line at the end of the period.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter

from runtime.errors import MessageError

LOGGED = 20
PERIOD = 10.0  # seconds


class Rejections:
    """The rejections of one process. Warnings go to `log`. Needs a running event loop for the
    time."""

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._logged = 0
        # (peer, reason) -> rejections that were not logged
        self._more: Counter[tuple[str, str]] = Counter()
        self._ends: asyncio.TimerHandle | None = None  # end of the period

    def __repr__(self) -> str:
        return f"<rejections: {self._logged} logged, {self._more.total()} more counted>"

    def note(self, peer: str, error: MessageError) -> None:
        """Log or count a rejected message of `peer`."""
        if self._ends is None:
            self._ends = asyncio.get_running_loop().call_later(PERIOD, self.end)
        if self._logged < LOGGED:
            self._logged += 1
            self._log.warning("rejected a message of %s: %s", peer, error)
        else:
            self._more[peer, error.reason] += 1

    def end(self) -> None:
        """Log the rejections that were only counted, at the end of a period or of the process."""
        if self._ends is not None:
            self._ends.cancel()
        if self._more:
            told = ", ".join(
                f"{count} of {peer} ({reason})"
                for (peer, reason), count in self._more.most_common(5)
            )
            others = f" and {len(self._more) - 5} more sorts" if len(self._more) > 5 else ""
            self._log.warning("rejected %d more messages: %s%s", self._more.total(), told, others)
        self._ends = None
        self._logged = 0
        self._more.clear()
