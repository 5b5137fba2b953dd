"""The runtime's own metrics of the actors of one process, each child looked up once and kept."""

from __future__ import annotations

from runtime.metrics import Counter, Histogram, Metrics


class Meters:
    """Messages, bytes, waits and phases per actor. `roles` (actor -> role) is filled as actors are placed."""

    def __init__(self, metrics: Metrics) -> None:
        self.metrics = metrics
        self.roles: dict[str, str] = {}
        self.waits: dict[str, dict[str, float]] = {}  # actor -> peer -> seconds waited so far
        self._counters: dict[tuple[str, str, str], Counter] = {}
        self._phases: dict[tuple[str, str], Histogram] = {}

    def sent(self, actor: str, kind: str) -> None:
        """An actor sent a message."""
        self._counter("messages_sent", "Messages sent.", actor, "kind", kind).inc()

    def received(self, actor: str, kind: str, size: int) -> None:
        """A message of `size` bytes came for an actor."""
        self._counter("messages_received", "Messages received.", actor, "kind", kind).inc()
        self._counter("message_bytes_received", "Bytes received.", actor, "kind", kind).inc(size)

    def waited(self, actor: str, peer: str, seconds: float) -> None:
        """An actor waited for a peer's answer."""
        mine = self.waits.setdefault(actor, {})
        mine[peer] = mine.get(peer, 0.0) + seconds
        self._counter("wait_seconds", "Seconds spent waiting for answers of a peer.", actor, "peer", peer).inc(seconds)

    def rejected(self, reason: str) -> None:
        """A message was not accepted."""
        self.metrics.counter("messages_rejected", "Messages rejected.", role="node", reason=reason).inc()

    def phase(self, actor: str, phase: str) -> Histogram:
        """The histogram of one phase of an actor's work."""
        key = (actor, phase)
        if key not in self._phases:
            name, text, role = "phase_duration_seconds", "Seconds per phase of an iteration.", self.roles.get(actor, "")
            self._phases[key] = self.metrics.histogram(name, text, role=role, actor=actor, phase=phase)
        return self._phases[key]

    def _counter(self, name: str, help_text: str, actor: str, label: str, value: str) -> Counter:
        key = (name, actor, value)
        if key not in self._counters:
            labels = {"role": self.roles.get(actor, ""), "actor": actor, label: value}
            self._counters[key] = self.metrics.counter(name, help_text, **labels)
        return self._counters[key]
