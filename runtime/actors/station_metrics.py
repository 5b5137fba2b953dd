"""Metrics that describe each actor as a station of a queueing network: the messages that arrive,
wait and are served, and how long its device works.

    arrival rate       rate of `messages_received`
    service time       `handler_seconds` / `messages_handled`
    time in the inbox  `inbox_seconds` / `messages_handled`
    utilisation        rate of `handler_seconds`; of the device: rate of `compute_seconds`

The event loop adds to plain sums, and the thread of the metrics page reads them. A counter of the
metrics library would take a lock each time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from operator import attrgetter

from runtime.actors.cell import Cell
from runtime.actors.metrics import Metrics

Labelled = Iterator[tuple[tuple[str, ...], float]]


class StationMetrics:
    """The station metrics of the actors of one process, whose cells are `cells`."""

    def __init__(self, metrics: Metrics, cells: Mapping[str, Cell]) -> None:
        self._cells = cells
        # actor -> [pieces of array work, their seconds]
        self._computed: dict[str, list[float]] = {}
        actor = ("role", "actor")
        kind = ("role", "actor", "kind")
        metrics.reading(
            "inbox_messages", "Messages that wait in an actor's inbox.", actor, self._inboxes
        )
        metrics.tally(
            "messages_handled",
            (
                "Messages that a handler has finished. Answers are not counted: they go to "
                "their askers."
            ),
            kind,
            lambda: self._service("handled"),
        )
        text = "Seconds that handled messages waited in the inbox."
        metrics.tally("inbox_seconds", text, kind, lambda: self._service("waited"))
        text = "Seconds that handlers took, including what they waited for."
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
        """Count a piece of an actor's array work that took `seconds`."""
        sums = self._computed.get(actor)
        if sums is None:
            sums = self._computed[actor] = [0, 0.0]
        sums[0] += 1
        sums[1] += seconds

    def compute_seconds(self, actor: str) -> float:
        """Return the seconds of an actor's array work so far."""
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
