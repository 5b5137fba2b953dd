"""The measurements and reports of an actor: its metrics, the phases of its work, and events."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from runtime.actors.actor_state import ActorState
from runtime.actors.event_fields import plain_fields
from runtime.actors.metrics import SECONDS, Counter, Gauge, Histogram, Summary


class Measured:
    """The methods with which an actor measures and reports its work."""

    _runtime: ActorState

    def now(self) -> float:
        """Return the time of the event loop's clock in seconds."""
        return asyncio.get_running_loop().time()

    @property
    def busy_seconds(self) -> float:
        """The seconds that this actor's device has worked so far. The device is the compute thread
        of its process, or its own emulated device."""
        return self._runtime.device.busy

    def counter(self, name: str, help_text: str, **labels: str) -> Counter:
        """Return this actor's counter `convoy_<name>_total`."""
        return self._runtime.host.metrics.counter(name, help_text, **self._runtime.labels, **labels)

    def gauge(self, name: str, help_text: str, **labels: str) -> Gauge:
        """Return this actor's gauge `convoy_<name>`."""
        return self._runtime.host.metrics.gauge(name, help_text, **self._runtime.labels, **labels)

    def histogram(
        self, name: str, help_text: str, buckets: Iterable[float] = SECONDS, **labels: str
    ) -> Histogram:
        """Return this actor's histogram `convoy_<name>`."""
        return self._runtime.host.metrics.histogram(
            name, help_text, buckets, **self._runtime.labels, **labels
        )

    def summary(self, name: str, help_text: str, **labels: str) -> Summary:
        """Return this actor's summary `convoy_<name>`: a count and a sum."""
        return self._runtime.host.metrics.summary(name, help_text, **self._runtime.labels, **labels)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Measure a phase of the actor's work: `convoy_phase_duration_seconds{phase=...}`."""
        started = self.now()
        yield
        state = self._runtime
        state.host.phase_seconds(state.name, name).observe(self.now() - started)

    def waited_for_data(self, seconds: float) -> None:
        """Count seconds in which the actor's array work waited for data that it reads: they count
        as a wait for the peer DATA. May be called from the compute thread."""
        state = self._runtime
        state.host.waited_for_data(state.name, seconds)

    def emit(self, event: str, **fields: Any) -> None:
        """Report an event to the run's journal and live table. Never waits. Raises Unsendable for a
        field that is not a plain value: None, bool, int, float, str, NumPy's scalars, and tuples,
        lists and dicts of these."""
        state = self._runtime
        state.host.on_event(state.name, event, plain_fields(event, fields))

    def took(self, label: str, seconds: float) -> None:
        """Record `seconds` of the actor's time that were not array work.

        They are passed to the program's observer together with the sums of all array work.
        """
        state = self._runtime
        state.host.work.note(state.name, label, seconds)

    def stepped(self) -> None:
        """Count one step of the run, such as an iteration.

        After the lead actor's first step, a standstill ends the run: no further step for
        `liveness.standstill_seconds` (or twenty usual steps) while no actor computes. The error
        names the actors that wait.
        """
        self._runtime.steps += 1
