"""How much of an iteration is communication that no computing hides."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from runtime import Actor


class Exposure:
    """Seconds of an actor's iterations in which its process computed nothing:
    `convoy_exposed_seconds`."""

    def __init__(self, actor: Actor) -> None:
        self._actor = actor
        self._histogram = actor.histogram(
            "exposed_seconds",
            (
                "Of a worker's training iteration: seconds in which neither its"
                " process computed nor the FC server for it."
            ),
        )
        self._excused = 0.0
        self.last = 0.0  # seconds of the last iteration without computing
        self.busy = 0.0  # and with

    def excuse(self, seconds: float) -> None:
        """So many seconds of this iteration a peer computed for us: that was no communication."""
        self._excused += seconds

    @contextmanager
    def measured(self) -> Iterator[None]:
        """One iteration."""
        actor = self._actor
        self._excused = 0.0
        started = actor.now()
        busy = actor.busy_seconds
        yield
        self.busy = actor.busy_seconds - busy
        self.last = max(0.0, actor.now() - started - self.busy - self._excused)
        self._histogram.observe(self.last)
