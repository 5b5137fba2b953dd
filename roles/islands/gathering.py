"""The gains that wait at the outer server for the next outer step. Decisions only, no messages are
sent and no clock is read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, TypeVar

from roles.attendance_messages import Abandon
from roles.islands.island_messages import Gain, GetOuter
from runtime import Conversation, Standing

IDLE = "learning"
WAITING = "waiting for an answer"
AWAY = "away"
STRANGER = "not an island of this run"
ANSWER = "answer"

GAIN = Conversation(
    "an island",
    "island",
    IDLE,
    {
        (IDLE, GetOuter): (IDLE,),
        (IDLE, Gain): (WAITING,),
        (WAITING, ANSWER): (IDLE,),
        (IDLE, Abandon): (AWAY,),
        (WAITING, Abandon): (AWAY,),
        (AWAY, Abandon): (AWAY,),
        (AWAY, GetOuter): (IDLE,),
    },
    closed=(STRANGER,),
)

Kept = TypeVar("Kept")


class Gathering(Generic[Kept]):
    """The gains of `islands` that have arrived since the last outer step. Each island waits for the
    answer to one gain at a time."""

    def __init__(self, islands: Sequence[str]) -> None:
        self._islands = tuple(islands)
        self._standing: Standing[tuple[str]] = Standing(GAIN, self._unheard)
        self._waiting: dict[str, Kept] = {}
        self._rows: dict[str, int] = {}  # island -> the rows of its last gain that had some
        self._away: set[str] = set()

    def __repr__(self) -> str:
        return f"<{len(self._waiting)} of {self._present} islands wait>"

    def _unheard(self, subject: tuple[str]) -> str:
        return IDLE if subject[0] in self._islands else STRANGER

    @property
    def waiting(self) -> int:
        """The number of islands that wait."""
        return len(self._waiting)

    @property
    def complete(self) -> bool:
        """True if every island that is not away waits."""
        return len(self._waiting) == self._present

    @property
    def _present(self) -> int:
        return len(self._islands) - len(self._away)

    def take(self, message: Gain, sender: str, kept: Kept) -> None:
        """Let an island's gain wait. Raises MessageError if the sender is not an island of this
        run, or waits already."""
        self._standing.hear(message, sender, (sender,))
        self._waiting[sender] = kept
        if message.rows:
            self._rows[sender] = message.rows

    def asked(self, message: GetOuter, sender: str) -> None:
        """Note that an island asks for the whole model. An island that was away is back then.
        Raises MessageError if the sender is not an island of this run, or waits for the answer to a
        gain."""
        self._standing.hear(message, sender, (sender,))
        self._away.discard(sender)

    def abandon(self, message: Abandon, sender: str) -> None:
        """Drop what waits of an island, and go on without it. Raises MessageError if it is not an
        island of this run."""
        island = message.worker
        self._standing.hear(message, sender, (island,))
        self._waiting.pop(island, None)
        self._rows.pop(island, None)
        self._away.add(island)

    def taken(self) -> dict[str, Kept]:
        """All that waits, in the order of the islands. Nothing waits any more."""
        found = {name: self._waiting[name] for name in self._islands if name in self._waiting}
        self._waiting = {}
        for name in found:
            self._standing.move(ANSWER, (name,))
        return found

    @property
    def rows(self) -> tuple[int, ...]:
        """The rows of the last gain of each island that is not away and has sent one."""
        return tuple(self._rows.values())

    def share(self, rows: int) -> float:
        """The part of a period's samples that `rows` are. A period is one gain of every island that
        is not away; an island without a gain so far counts as the mean of the others."""
        known = sum(self._rows.values())
        if not known:
            return 1.0
        return rows * len(self._rows) / (known * self._present)
