"""What an actor measures: its metrics, and the phases of its work."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Protocol

from runtime.actors.metrics import SECONDS, Counter, Gauge, Histogram, Metrics, Summary
from runtime.compute.compute import Compute
from runtime.compute.work_sums import WorkSums


class Gauges(Protocol):
    """What an actor needs of its process to measure."""

    metrics: Metrics
    work: WorkSums

    def phase_seconds(self, actor: str, phase: str) -> Histogram:
        """See Measured.phase."""
        ...


class Measured:
    """The measuring half of an actor."""

    name: str
    role: str
    steps = 0  # see `stepped`
    device: Compute  # where this actor's array work is done
    _node: Gauges

    def now(self) -> float:
        """Seconds on the event loop's clock."""
        return asyncio.get_running_loop().time()

    @property
    def busy_seconds(self) -> float:
        """Seconds that the device of this actor has worked so far: its process's compute thread, or
        its own."""
        return self.device.busy

    def counter(self, name: str, help_text: str, **labels: str) -> Counter:
        """This actor's counter `convoy_<name>_total`."""
        return self._node.metrics.counter(
            name, help_text, role=self.role, actor=self.name, **labels
        )

    def gauge(self, name: str, help_text: str, **labels: str) -> Gauge:
        """This actor's gauge `convoy_<name>`."""
        return self._node.metrics.gauge(name, help_text, role=self.role, actor=self.name, **labels)

    def histogram(
        self, name: str, help_text: str, buckets: Iterable[float] = SECONDS, **labels: str
    ) -> Histogram:
        """This actor's histogram `convoy_<name>`."""
        return self._node.metrics.histogram(
            name, help_text, buckets, role=self.role, actor=self.name, **labels
        )

    def summary(self, name: str, help_text: str, **labels: str) -> Summary:
        """This actor's summary `convoy_<name>`: a count and a sum."""
        return self._node.metrics.summary(
            name, help_text, role=self.role, actor=self.name, **labels
        )

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Measure a phase of the actor's work: `convoy_phase_duration_seconds{phase=...}`."""
        started = self.now()
        yield
        self._node.phase_seconds(self.name, name).observe(self.now() - started)

    def took(self, label: str, seconds: float) -> None:
        """Something of the actor's own, which is no array work, took so long: the program's
        observer hears of it with the sums of all work."""
        self._node.work.note(self.name, label, seconds)

    def stepped(self) -> None:
        """Count a step of the run, as an iteration. Once the lead actor has counted one, a run ends
        in which none follows for `liveness.standstill_seconds` (or twenty usual steps) while nobody
        computes; who waits is named."""
        self.steps += 1
