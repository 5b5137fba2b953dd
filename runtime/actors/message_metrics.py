"""The runtime's own metrics of the actors of one process.

Messages are counted in plain numbers, which are read when a metrics page is made. A counter of the
metrics library would take a lock each time: 0.4 to 1 us, three times per message.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

from runtime.actors.metrics import Histogram, Metrics
from runtime.messages.message import Envelope

# (actor, kind of message), or (actor, peer, kind of message) -> count so far
Counts = defaultdict[tuple[str, ...], int]


class MessageMetrics:
    """Messages, bytes, waits and phases per actor. The node adds each actor that it places to
    `roles` (actor -> role)."""

    def __init__(self, metrics: Metrics) -> None:
        self.metrics = metrics
        self.roles: dict[str, str] = {}
        self.waits: dict[str, dict[str, float]] = {}  # actor -> peer -> seconds waited so far
        self._sent: Counts = defaultdict(int)
        self._received: defaultdict[tuple[str, str, str], list[int]] = defaultdict(
            lambda: [0, 0, 0]
        )
        self._phases: dict[tuple[str, str], Histogram] = {}
        labels = ("role", "actor", "kind")
        metrics.tally(
            "messages_sent",
            "Messages that an actor sent, by kind.",
            labels,
            lambda: self._labelled(self._sent),
        )
        metrics.tally(
            "messages_received",
            "Messages that an actor received, by kind.",
            labels,
            lambda: self._labelled(self._of_actors(0)),
        )
        metrics.tally(
            "message_bytes_received",
            "Bytes of the messages that an actor received.",
            labels,
            lambda: self._labelled(self._of_actors(1)),
        )
        text = (
            "Bytes of the arrays in received messages, by sender, also of arrays read in place. "
            "`plan` predicts them."
        )
        between = ("role", "actor", "peer", "kind")
        metrics.tally(
            "payload_bytes_received", text, between, lambda: self._labelled(self._payload())
        )
        text = "Seconds that an actor waited for answers of a peer, or for its data."
        metrics.tally(
            "wait_seconds", text, ("role", "actor", "peer"), lambda: self._labelled(self._waited())
        )

    def sent(self, actor: str, kind: str) -> None:
        """Count a message that an actor sent."""
        self._sent[actor, kind] += 1

    def received(self, envelope: Envelope, size: int) -> None:
        """Count a received message of `size` bytes."""
        message = envelope.message
        counts = self._received[envelope.receiver, envelope.sender, message.kind]
        counts[0] += 1
        counts[1] += size
        if message.array_fields:
            counts[2] += message.array_bytes()

    def waited(self, actor: str, peer: str, seconds: float) -> None:
        """Add the seconds that an actor waited for a peer's answer, or for DATA."""
        mine = self.waits.setdefault(actor, {})
        mine[peer] = mine.get(peer, 0.0) + seconds

    def totals(self) -> dict[str, list[int]]:
        """Return three sums for each actor: messages sent, messages received, and bytes received.
        The bytes include arrays that are read in place."""
        found: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
        for (actor, _), count in self._sent.items():
            found[actor][0] += count
        for (actor, _, _), (count, size, arrays) in self._received.items():
            found[actor][1] += count
            found[actor][2] += max(size, arrays)
        return found

    def rejected(self, reason: str) -> None:
        """Count a message that was rejected for `reason`."""
        self.metrics.counter(
            "messages_rejected",
            "Malformed or illegal messages that were rejected; they changed nothing.",
            role="node",
            reason=reason,
        ).inc()

    def phase(self, actor: str, phase: str) -> Histogram:
        """Return the histogram of one phase of an actor's work."""
        key = (actor, phase)
        if key not in self._phases:
            name = "phase_duration_seconds"
            text = (
                "Seconds of a phase of an iteration: `wait_ticket`, `read`, "
                "`wait_model`, `forward`, `wait_fc`, `backward`, `send`, `fc`, "
                "`reduce`, `apply`, `train`, `test`, `average`, `accumulate`, "
                "`wait_activations`, `wait_columns`."
            )
            role = self.roles.get(actor, "")
            self._phases[key] = self.metrics.histogram(
                name, text, role=role, actor=actor, phase=phase
            )
        return self._phases[key]

    def payload(self) -> dict[str, dict[str, int]]:
        """Return the bytes of received arrays, as actor -> sender -> bytes."""
        found: dict[str, dict[str, int]] = {}
        for (actor, peer, _), size in self._payload().items():
            mine = found.setdefault(actor, {})
            mine[peer] = mine.get(peer, 0) + size
        return found

    def _of_actors(self, place: int) -> Counts:
        """Return the messages (0) or bytes (1) received per (actor, kind), summed over senders."""
        found: Counts = defaultdict(int)
        for (actor, _, kind), counts in list(self._received.items()):
            found[actor, kind] += counts[place]
        return found

    def _payload(self) -> dict[tuple[str, ...], int]:
        return {key: counts[2] for key, counts in list(self._received.items()) if counts[2]}

    def _waited(self) -> dict[tuple[str, ...], float]:
        return {
            (actor, peer): found
            for actor, mine in list(self.waits.items())
            for peer, found in list(mine.items())
        }

    def _labelled(
        self, counts: Mapping[tuple[str, ...], float]
    ) -> Iterator[tuple[tuple[str, ...], float]]:
        """Add the role to each key. May be called from any thread: `list` copies the counts in one
        step, and the event loop adds to them only before or after it."""
        for key, count in list(counts.items()):
            yield (self.roles.get(key[0], ""), *key), count
