"""Reports about passes: which are owed, which have arrived, and their combined results. Decisions
only, no messages are sent.

The schedule knows which passes are under way. Their senders become known when the reports arrive.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable

from roles.learning.scoreboard import Iteration, Part, Scores, mean_scores
from roles.messages import TRAIN, NextTicket, PassDone, Updated
from runtime import Conversation, Standing

OWED = "owed"
HEARD = "heard"
NOT_OWED = "not under way"
OURS = "of this run"
STRANGER = "not of this run"
HAND_OUT = "hand out"
END = "end"
GIVE_BACK = "give back"

WORKER = Conversation("a worker", "worker", STRANGER, {(OURS, NextTicket): (OURS,)})
DONE = Conversation(
    "a worker's report about a pass",
    "phase number worker",
    NOT_OWED,
    {
        (NOT_OWED, HAND_OUT): (OWED,),
        (OWED, PassDone): (HEARD,),
        (HEARD, END): (NOT_OWED,),
        (HEARD, GIVE_BACK): (OWED,),
    },
)
UPDATE = Conversation(
    "a server's report about an iteration",
    "iteration server",
    NOT_OWED,
    {(NOT_OWED, HAND_OUT): (OWED,), (OWED, Updated): (HEARD,), (HEARD, END): (NOT_OWED,)},
)


class PassLedger:
    """The reports to one coordinator. `workers` may ask for tickets. `owes` returns whether a pass,
    by phase and number, is under way."""

    def __init__(self, workers: Iterable[str], owes: Callable[[str, int], bool]) -> None:
        self._workers = frozenset(workers)
        self._owes = owes
        self._asking: Standing[tuple[str]] = Standing(WORKER, self._whose)
        self._done: Standing[tuple[str, int, str]] = Standing(DONE, self._unheard)
        self._updates: Standing[tuple[int, str]] = Standing(
            UPDATE, lambda subject: self._owed(TRAIN, subject[0])
        )
        # pass, by phase and number -> workers that have reported
        self._reporters: defaultdict[tuple[str, int], list[str]] = defaultdict(list)
        self._updaters: defaultdict[int, list[str]] = defaultdict(list)
        # pass, by phase and number -> rows and scores of each part
        self._parts: defaultdict[tuple[str, int], list[Part]] = defaultdict(list)
        self._iterations: defaultdict[int, Iteration] = defaultdict(Iteration)  # under way

    def __repr__(self) -> str:
        return f"<{self.kept} reports heard of {len(self._reporters)} passes under way>"

    @property
    def kept(self) -> int:
        """The number of reports that are remembered."""
        return len(self._done) + len(self._updates)

    def asks(self, message: NextTicket, sender: str) -> None:
        """Take a request for a ticket. Raises MessageError if the sender is not a worker of this
        run."""
        self._asking.hear(message, sender, (sender,))

    def done(self, message: PassDone, sender: str) -> tuple[int, Scores] | None:
        """Take a worker's report about its part of a pass. Raises MessageError if it is not owed.

        With the last part, returns the rows of all parts and the means of their scores.
        """
        key = (message.phase, message.number)
        self._done.hear(message, sender, (*key, sender))
        self._reporters[key].append(sender)
        parts = self._parts[key]
        parts.append((message.rows, dict(message.scores)))
        if message.phase == TRAIN:
            self._iterations[message.number].exposed.append(message.exposed)
        if len(parts) < message.members:
            return None
        del self._parts[key]
        scores = mean_scores(parts)
        if message.phase == TRAIN:
            self._iterations[message.number].loss = float(scores.get("loss", 0.0))
            self._iterations[message.number].scores = scores
        return sum(rows for rows, _ in parts), scores

    def updated(self, message: Updated, sender: str) -> None:
        """Take a server's report that an iteration is in its layers. Raises MessageError if it is
        not owed.

        An iteration is as stale as on the server that was read first and updated last: on that
        server most other iterations came in between.
        """
        number = message.number
        self._updates.hear(message, sender, (number, sender))
        self._updaters[number].append(sender)
        iteration = self._iterations[number]
        iteration.staleness = max(iteration.staleness or 0, message.staleness)

    def is_owed(self, message: Updated, sender: str) -> bool:
        """Whether a server owes the report that an iteration is in its layers."""
        return self._updates.state((message.number, sender)) == OWED

    def end(self, number: int) -> Iteration:
        """End an iteration whose last report has arrived, and return its results. Reports about the
        next iteration may have come before."""
        self._forget((TRAIN, number))
        for server in self._updaters.pop(number, ()):
            self._updates.move(END, (number, server))
        return self._iterations.pop(number)

    def withdraw(self, number: int) -> None:
        """Forget all reports about an iteration that no server has: it is done again, perhaps by
        the same worker."""
        for worker in self._reporters.pop((TRAIN, number), ()):
            self._done.move(GIVE_BACK, (TRAIN, number, worker))
        self._parts.pop((TRAIN, number), None)
        self._iterations.pop(number, None)

    def end_test(self) -> None:
        """End a test whose batches are all scored."""
        for key in [key for key in self._reporters if key[0] != TRAIN]:
            self._forget(key)

    def _forget(self, key: tuple[str, int]) -> None:
        for worker in self._reporters.pop(key, ()):
            self._done.move(END, (*key, worker))

    def _owed(self, phase: str, number: int) -> str:
        return OWED if self._owes(phase, number) else NOT_OWED

    def _unheard(self, subject: tuple[str, int, str]) -> str:
        return self._owed(subject[0], subject[1])

    def _whose(self, subject: tuple[str]) -> str:
        return OURS if subject[0] in self._workers else STRANGER
