"""When a run that ended begins anew: a plain decision, as supervisors have it (a limit of restarts
within a time).

what ended it        begins anew?
a good end, Ctrl-C   no
RoleDied             yes: a process, an agent or a machine is gone, or hangs
LaunchError          not the first run, where it is a mistake to mend; later the machine that went
                     may come back
any other            no: it would end the same way
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from runtime.errors import ConvoyError, LaunchError, RoleDied

LONGEST = 60.0  # seconds between two runs


@dataclass(frozen=True)
class Restart:
    """The run begins anew after so many `seconds`; `text` counts."""

    seconds: float
    text: str


class Restarts:
    """Of one run: at most `most` within `window` seconds. After one that never began the next
    waits for `backoff` seconds, and twice as long each time."""

    def __init__(self, most: int, window: float, backoff: float) -> None:
        self.most = most
        self._window = window
        self._backoff = backoff
        self._when: deque[float] = deque()
        self._runs = 1
        self._in_vain = 0
        self.why_not = ""  # of a run that could have begun anew, once it does not

    def __repr__(self) -> str:
        return (
            f"<run {self._runs}, {len(self._when)} of {self.most} restarts within "
            f"{self._window:g} s>"
        )

    def followed(self) -> None:
        """Another run follows that is no restart: what keeps it from beginning may be over soon."""
        self._runs += 1

    def after(self, error: ConvoyError, now: float, *, began: bool) -> Restart | None:
        """A run has ended so at loop time `now`; had everybody begun? None: that was the end of the
        run."""
        curable = isinstance(error, RoleDied) or (isinstance(error, LaunchError) and self._runs > 1)
        if not curable or not self.most:
            return None
        while self._when and self._when[0] <= now - self._window:
            self._when.popleft()
        if len(self._when) >= self.most:
            self.why_not = (
                f"the run does not begin anew: it did {self.most} times within "
                f"{self._window:g} s (recovery.restarts)"
            )
            return None
        self._when.append(now)
        self._runs += 1
        self._in_vain = 0 if began else self._in_vain + 1
        seconds = min(LONGEST, self._backoff * 2 ** (self._in_vain - 1)) if self._in_vain else 0.0
        return Restart(seconds, f"{len(self._when)} of {self.most} within {self._window:g} s")
