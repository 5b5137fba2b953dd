"""The passes that wait for an FC shard: the slices that have come, and the pass that is next.

All shards take the passes in one order, since each needs the others' columns of its present pass.
The first shard decides: a pass gets its turn when its first FC batch is complete there.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence

from ops import Shape
from roles.fc.fc_batches import Members, fc_batches, rows_in
from roles.fc.swap import FcTurn
from roles.messages import TRAIN, ActivationSlice
from runtime import Conversation, Envelope, MessageError, Standing

MISSING = "missing"
HERE = "here"
COMPUTED = "being computed"
ANSWERED = "answered"
WITHOUT = "without a turn"
GIVEN = "has its turn"
HAD = "had its turn"
NOT_THEIRS = "not theirs to give"
TAKE = "take"
ANSWER = "answer"
GIVE = "give"
BEGIN = "begin"

SLICE = Conversation(
    "a member's slice of an FC batch",
    "phase number part rank sender",
    MISSING,
    {
        (MISSING, ActivationSlice): (HERE,),
        (HERE, TAKE): (COMPUTED,),
        (COMPUTED, ANSWER): (ANSWERED, MISSING),  # the next test uses the same numbers again
    },
)
TURN = Conversation(
    "a pass's turn",
    "phase number giver",
    WITHOUT,
    {
        (WITHOUT, FcTurn): (GIVEN,),  # from the first shard
        (WITHOUT, GIVE): (GIVEN,),  # at the first shard itself
        (GIVEN, BEGIN): (HAD,),
    },
    closed=(NOT_THEIRS,),
)

Key = tuple[str, int]  # phase, number
Slice = tuple[ActivationSlice, Envelope]


class _Waiting:
    """The slices of one pass, by FC batch and rank."""

    def __init__(self, scheme: str, cuts: tuple[int, ...], micro_batches: int) -> None:
        self.cuts = cuts
        self.batches = fc_batches(scheme, cuts, micro_batches)
        self.slices: list[dict[int, Slice]] = [{} for _ in self.batches]

    def complete(self, part: int) -> bool:
        return len(self.slices[part]) == len(self.batches[part])


class FcQueue:
    """The queue of one shard. `shapes`: phase -> the shapes of the blobs that cross the cut,
    without the rows. Phases differ if labels are mixed in training. `first` is the shard that gives
    turns. `micro_batches` are those of a reproducible run."""

    def __init__(
        self,
        scheme: str,
        shapes: Mapping[str, Sequence[Shape]],
        first: str,
        micro_batches: int = 0,
    ) -> None:
        self._micro_batches = micro_batches
        self._scheme = scheme
        self._shapes = {phase: [*map(tuple, of)] for phase, of in shapes.items()}
        self._first = first
        self._slices: Standing[tuple[str, int, int, int, str]] = Standing(SLICE, self._unheard)
        self._given: Standing[tuple[str, int, str]] = Standing(TURN, self._without)
        self._waiting: dict[Key, _Waiting] = {}
        self._turns: deque[Key] = deque()
        self._last_turn: Key | None = None  # the pass that began last
        # worker -> its last iteration, and the parts answered
        self._answered: dict[str, tuple[int, set[int]]] = {}

    def __repr__(self) -> str:
        return (
            f"<{len(self._waiting)} passes under way, {len(self._turns)} wait for their "
            "turn to come>"
        )

    def add(self, message: ActivationSlice, envelope: Envelope) -> bool:
        """Add a slice. Returns True if it completes the pass's first FC batch. Raises MessageError
        if it fits nowhere."""
        key = (message.phase, message.number)
        waiting = self._waiting.get(key) or _Waiting(
            self._scheme, message.cuts, self._micro_batches
        )
        self._check(message, waiting)
        self._slices.hear(message, envelope.sender, _subject(message, envelope))
        self._waiting[key] = waiting
        waiting.slices[message.part][message.rank] = (message, envelope)
        return message.part == 0 and waiting.complete(0)

    def turn(self, phase: str, number: int) -> None:
        """Give a pass its turn, behind the passes that have one. For the first shard only."""
        self._given.move(GIVE, (phase, number, self._first))
        self._turns.append((phase, number))

    def told(self, message: FcTurn, sender: str) -> None:
        """Take the first shard's message about the next pass. Raises MessageError if that pass has
        its turn or was the last to have it, or if another actor sent it."""
        self._given.hear(message, sender, (message.phase, message.number, sender))
        self._turns.append((message.phase, message.number))

    @property
    def due(self) -> bool:
        """Does a pass have its turn, with at least one slice here?"""
        return bool(self._turns) and self._turns[0] in self._waiting

    def next(self) -> tuple[Key, list[Members]]:
        """Begin the pass whose turn it is. Returns its key and its FC batches."""
        key = self._last_turn = self._turns.popleft()
        self._given.move(BEGIN, (*key, self._first))
        return key, self._waiting[key].batches

    def complete(self, key: Key, part: int) -> bool:
        """Have all slices of an FC batch come?"""
        return self._waiting[key].complete(part)

    def take(self, key: Key, part: int) -> list[Slice]:
        """Remove the slices of a complete FC batch, and return them in the order of ranks."""
        slices = self._waiting[key].slices[part]
        found = [slices[rank] for rank in sorted(slices)]
        for one in found:
            self._slices.move(TAKE, _subject(*one))
        if part == len(self._waiting[key].batches) - 1:
            del self._waiting[key]
        else:
            slices.clear()
        return found

    def answered(self, slices: Sequence[Slice]) -> None:
        """Note that slices which were taken have their answers. A worker that gets its answers may
        go on."""
        for message, envelope in slices:
            training = message.phase == TRAIN
            sender = envelope.sender
            if training:
                last, parts = self._answered.get(sender, (-1, set()))
                before = parts if last == message.number else set()
                self._answered[sender] = (message.number, {*before, message.part})
            self._slices.move(
                ANSWER, _subject(message, envelope), ANSWERED if training else MISSING
            )

    def _check(self, message: ActivationSlice, waiting: _Waiting) -> None:
        if message.phase not in self._shapes:
            phases = ", ".join(self._shapes)
            raise MessageError("bad_value", f"{message!r}: expected one of the phases {phases}")
        members = waiting.batches[message.part] if 0 <= message.part < len(waiting.batches) else []
        mine = [member for member in members if member[0] == message.rank]
        if message.cuts != waiting.cuts or not mine:
            raise MessageError(
                "bad_value", (f"{message!r}: no such slice of a batch cut at {waiting.cuts}")
            )
        rows = rows_in(mine)
        expected = [(rows, *shape) for shape in self._shapes[message.phase]]
        found = [tuple(blob.shape) for blob in message.blobs]
        if found != expected:
            raise MessageError("bad_shape", f"{message!r}: expected blobs of shapes {expected}")

    def _unheard(self, subject: tuple[str, int, int, int, str]) -> str:
        phase, number, part, rank, sender = subject
        last, parts = self._answered.get(sender, (-1, set()))
        if phase == TRAIN and (number < last or (number == last and part in parts)):
            return ANSWERED
        waiting = self._waiting.get((phase, number))
        # HERE: another worker has sent a slice of this rank
        return HERE if waiting is not None and rank in waiting.slices[part] else MISSING

    def _without(self, subject: tuple[str, int, str]) -> str:
        phase, number, giver = subject
        if giver != self._first:
            return NOT_THEIRS
        return HAD if (phase, number) == self._last_turn else WITHOUT


def _subject(message: ActivationSlice, envelope: Envelope) -> tuple[str, int, int, int, str]:
    return message.phase, message.number, message.part, message.rank, envelope.sender
