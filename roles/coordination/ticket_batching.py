"""How many iterations a group that is alone is given at once: as many as pass in a moment."""

from __future__ import annotations

from roles.coordination.schedule import Schedule

SECONDS = 0.1  # that a run of iterations takes: so long a save, a change or the end waits for it
MOST = 64  # iterations: their reports come together


class Pace:
    """Follows how fast iterations are asked for, from a moment on when none is under way. Times are
    loop time in seconds.

    The next ones are asked for when the last of those before begins: only from the second time on
    do they tell by when they come how long those before took.
    """

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self._times = 0
        self._count = 1
        self._since = 0.0

    def __repr__(self) -> str:
        return f"<pace: {self._count} iterations at once>"

    def at_once(self, schedule: Schedule, display: int, now: float) -> int:
        """How many iterations to hand out: a progress report, every `display` of them, ends a run
        of them; after a test, a save, a change it begins anew."""
        if schedule.issued == schedule.completed:
            self._begin()
        most = self.next(now)
        return min(most, display - schedule.issued % display) if display else most

    def next(self, now: float) -> int:
        """How many iterations may be given now."""
        if self._times < 2:
            return 1
        most = min(2 * self._count, MOST)
        taken = now - self._since
        return max(1, int(min(most, SECONDS * self._count / taken))) if taken > 0 else most

    def given(self, count: int, now: float) -> None:
        """So many were."""
        self._times += 1
        self._count = count
        self._since = now
