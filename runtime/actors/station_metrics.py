"""Each actor as a station of a queueing network: what arrives, waits and is served, and how long
its device works.

    arrival rate       rate of `messages_received`
    service time       `handler_seconds` by `messages_handled`
    time in the inbox  `inbox_seconds` by the same
    utilisation        rate of `handler_seconds`; of the device: of `compute_seconds`

All are sums that the event loop adds to, read in the thread of the page: a counter of the metrics
library takes a lock each time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from operator import attrgetter

from runtime.actors.cell import Cell
from runtime.actors.metrics import Metrics

Labelled = Iterator[tuple[tuple[str, ...], float]]


class StationMetrics:
    """Of the actors of one process, which live in `cells`."""

    def __init__(self, metrics: Metrics, cells: Mapping[str, Cell]) -> None:
        self._cells = cells
        self._computed: dict[str, list[float]] = {}  # actor -> pieces of array work, their seconds
        actor = ("role", "actor")
        kind = ("role", "actor", "kind")
        metrics.reading(
            "inbox_messages", "Messages that wait in an actor's inbox.", actor, self._inboxes
        )
        metrics.tally(
            "messages_handled",
            (
                "Messages that a handler is done with; answers go to their "
                "askers and are not among them."
            ),
            kind,
            lambda: self._service("handled"),
        )
        text = "Seconds that handled messages waited in the inbox."
        metrics.tally("inbox_seconds", text, kind, lambda: self._service("waited"))
        text = "Seconds that handlers took, with what they waited for themselves."
        metrics.tally("handler_seconds", text, kind, lambda: self._service("seconds"))
        metrics.tally(
            "compute_items", "Pieces of an actor's array work.", actor, lambda: self._compute(0)
        )
        metrics.tally(
            "compute_seconds", "Seconds of an actor's array work.", actor, lambda: self._compute(1)
        )

    def __repr__(self) -> str:
        return f"<metrics of {len(self._cells)} stations, {len(self._computed)} of which compute>"

    def computed(self, actor: str, seconds: float) -> None:
        """A piece of an actor's array work took so long."""
        sums = self._computed.get(actor)
        if sums is None:
            sums = self._computed[actor] = [0, 0.0]
        sums[0] += 1
        sums[1] += seconds

    def compute_seconds(self, actor: str) -> float:
        """Of its array work so far."""
        sums = self._computed.get(actor)
        return sums[1] if sums else 0.0

    def _inboxes(self) -> Labelled:
        for name, cell in list(self._cells.items()):
            yield (cell.actor.role, name), len(cell.inbox)

    def _service(self, what: str) -> Labelled:
        value = attrgetter(what)
        for name, cell in list(self._cells.items()):
            for kind, service in list(cell.service.items()):
                yield (cell.actor.role, name, kind.kind), value(service)

    def _compute(self, place: int) -> Labelled:
        for name, sums in list(self._computed.items()):
            cell = self._cells.get(name)
            if cell is not None:
                yield (cell.actor.role, name), sums[place]
