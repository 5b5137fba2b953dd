"""What an actor measures: its metrics, and the phases of its work."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from runtime.actors.actor_state import ActorState
from runtime.actors.metrics import SECONDS, Counter, Gauge, Histogram, Summary


class Measured:
    """The measuring half of an actor."""

    _runtime: ActorState

    def now(self) -> float:
        """Seconds on the event loop's clock."""
        return asyncio.get_running_loop().time()

    @property
    def busy_seconds(self) -> float:
        """Seconds that the device of this actor has worked so far: its process's compute thread, or
        its own."""
        return self._runtime.device.busy

    def counter(self, name: str, help_text: str, **labels: str) -> Counter:
        """This actor's counter `convoy_<name>_total`."""
        return self._runtime.host.metrics.counter(name, help_text, **self._runtime.labels, **labels)

    def gauge(self, name: str, help_text: str, **labels: str) -> Gauge:
        """This actor's gauge `convoy_<name>`."""
        return self._runtime.host.metrics.gauge(name, help_text, **self._runtime.labels, **labels)

    def histogram(
        self, name: str, help_text: str, buckets: Iterable[float] = SECONDS, **labels: str
    ) -> Histogram:
        """This actor's histogram `convoy_<name>`."""
        return self._runtime.host.metrics.histogram(
            name, help_text, buckets, **self._runtime.labels, **labels
        )

    def summary(self, name: str, help_text: str, **labels: str) -> Summary:
        """This actor's summary `convoy_<name>`: a count and a sum."""
        return self._runtime.host.metrics.summary(name, help_text, **self._runtime.labels, **labels)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Measure a phase of the actor's work: `convoy_phase_duration_seconds{phase=...}`."""
        started = self.now()
        yield
        state = self._runtime
        state.host.phase_seconds(state.name, name).observe(self.now() - started)

    def took(self, label: str, seconds: float) -> None:
        """Something of the actor's own, which is no array work, took so long: the program's
        observer hears of it with the sums of all work."""
        state = self._runtime
        state.host.work.note(state.name, label, seconds)

    def stepped(self) -> None:
        """Count a step of the run, as an iteration. Once the lead actor has counted one, a run ends
        in which none follows for `liveness.standstill_seconds` (or twenty usual steps) while nobody
        computes; who waits is named."""
        self._runtime.steps += 1
