"""When a run is restarted after it has ended. The decision follows the usual rule of supervisors: a
limit of restarts within a time.

what ended the run   restarted?
a good end, Ctrl-C   no
RoleDied             yes: a process, an agent or a machine has died, or hangs
LaunchError          not the first run, where the user has to correct a mistake; later, the machine
                     that died may come back
any other error      no: the next run would end in the same way
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from runtime.errors import ConvoyError, LaunchError, RoleDied

LONGEST = 60.0  # the longest wait between two runs, in seconds


@dataclass(frozen=True)
class Restart:
    """The decision to restart the run after so many `seconds`. `text` gives the number of restarts
    so far."""

    seconds: float
    text: str


class Restarts:
    """Counts the restarts of one run and limits them to `most` within `window` seconds.

    If a run never began, the next run waits for `backoff` seconds. The wait doubles with each
    further run that never began.
    """

    def __init__(self, most: int, window: float, backoff: float) -> None:
        self.most = most
        self._window = window
        self._backoff = backoff
        self._when: deque[float] = deque()
        self._runs = 1
        self._in_vain = 0
        self.why_not = ""  # why a run that could be restarted is not restarted

    def __repr__(self) -> str:
        return (
            f"<run {self._runs}, {len(self._when)} of {self.most} restarts within "
            f"{self._window:g} s>"
        )

    def followed(self) -> None:
        """Count a run that follows for another reason than a restart. If it cannot begin, the
        obstacle may be temporary."""
        self._runs += 1

    def after(self, error: ConvoyError, now: float, *, began: bool) -> Restart | None:
        """Decide whether the run is restarted. It has ended with `error` at loop time `now`.
        `began` is True if all its processes had begun. Returns None if no run follows."""
        curable = isinstance(error, RoleDied) or (isinstance(error, LaunchError) and self._runs > 1)
        if not curable or not self.most:
            return None
        while self._when and self._when[0] <= now - self._window:
            self._when.popleft()
        if len(self._when) >= self.most:
            self.why_not = (
                f"the run is not restarted: it was restarted {self.most} times within "
                f"{self._window:g} s (recovery.restarts)"
            )
            return None
        self._when.append(now)
        self._runs += 1
        self._in_vain = 0 if began else self._in_vain + 1
        seconds = min(LONGEST, self._backoff * 2 ** (self._in_vain - 1)) if self._in_vain else 0.0
        return Restart(seconds, f"{len(self._when)} of {self.most} within {self._window:g} s")
