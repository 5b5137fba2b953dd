"""The exposed communication of an iteration, which no computing hides."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ops import Backend
from runtime import Actor


class Exposure:
    """Seconds of an actor's iterations in which its process did not compute:
    `convoy_exposed_seconds`. `timed`: its computing ends when its GPU has done the work, since the
    rows of a batch follow its speed. Otherwise it ends when the work is started."""

    def __init__(self, actor: Actor, *, timed: bool = False) -> None:
        self._actor = actor
        self._timed = timed
        self._histogram = actor.histogram(
            "exposed_seconds",
            (
                "Seconds of a worker's training iteration in which neither its"
                " process nor the FC server computed for it."
            ),
        )
        self._excused = 0.0
        self.last = 0.0  # seconds of the last iteration in which the process did not compute
        self.busy = 0.0  # seconds in which it did

    def excuse(self, seconds: float) -> None:
        """Note that a peer computed for this actor for `seconds` of the iteration: that was not
        communication."""
        self._excused += seconds

    def finish(self, ops: Backend) -> None:
        """Wait for the GPU at the end of a piece of work, if that is timed. Call it in the compute
        thread."""
        if self._timed:
            ops.synchronize()

    @contextmanager
    def measured(self) -> Iterator[None]:
        """Measure one iteration."""
        actor = self._actor
        self._excused = 0.0
        started = actor.now()
        busy = actor.busy_seconds
        yield
        self.busy = actor.busy_seconds - busy
        self.last = max(0.0, actor.now() - started - self.busy - self._excused)
        self._histogram.observe(self.last)
