"""The number of iterations that a group that is alone is given at once: as many as take 0.1 s."""

from __future__ import annotations

from roles.coordination.schedule import Schedule

SECONDS = 0.1  # of the iterations given at once: a save, a change or the end waits for them
MOST = 64  # iterations: their reports come together
MOST_OF_SEQUENCE = 16  # batches of a sequence: a save, a change or the end waits for them


def in_sequence(number: int, length: int) -> int:
    """The batches to hand out to one of several groups, from batch `number` on: the rest of a
    sequence of `length` batches. So recurrent layers hand on their states in the group."""
    return min(length - number % length, MOST_OF_SEQUENCE)


class Pace:
    """Follows how fast iterations are asked for, from a moment on when none is under way. Times are
    loop time in seconds.

    The next iterations are asked for when the last of the previous ones begins. So the time between
    two requests shows how long iterations take only from the second request on.
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
        """The number of iterations to hand out. They end with the next progress report, of which
        there is one every `display` iterations. After a test, a save or a change the pace is
        measured again."""
        if schedule.issued == schedule.completed:
            self._begin()
        most = self.next(now)
        return min(most, display - schedule.issued % display) if display else most

    def next(self, now: float) -> int:
        """The number of iterations that may be given now."""
        if self._times < 2:
            return 1
        most = min(2 * self._count, MOST)
        taken = now - self._since
        return max(1, int(min(most, SECONDS * self._count / taken))) if taken > 0 else most

    def given(self, count: int, now: float) -> None:
        """Note that so many iterations were given."""
        self._times += 1
        self._count = count
        self._since = now
