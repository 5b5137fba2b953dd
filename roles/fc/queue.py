"""The passes that wait for an FC shard: whose slices have come, and which pass is next.

All shards take the passes in one order, since each needs the others' columns of the pass it is at. The first shard
decides: a pass gets its turn when its first FC batch is complete there. What never lives here: messages sent, arrays.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from ops import Shape
from roles.fc.batches import Members, fc_batches, rows_in
from roles.messages import ActivationSlice
from runtime import Envelope, MessageError

Key = tuple[str, int]  # phase, number
Slice = tuple[ActivationSlice, Envelope]


class _Waiting:
    """The slices of one pass, by FC batch and rank."""

    def __init__(self, scheme: str, cuts: tuple[int, ...]) -> None:
        self.cuts = cuts
        self.batches = fc_batches(scheme, cuts)
        self.slices: list[dict[int, Slice]] = [{} for _ in self.batches]

    def complete(self, part: int) -> bool:
        return len(self.slices[part]) == len(self.batches[part])


class FcQueue:
    """Of one shard. `shapes` are those of what crosses the cut, without the rows."""

    def __init__(self, scheme: str, shapes: Sequence[Shape]) -> None:
        self._scheme, self._shapes = scheme, [tuple(shape) for shape in shapes]
        self._waiting: dict[Key, _Waiting] = {}
        self._turns: deque[Key] = deque()
        self._last_turn: Key | None = None
        self._heard: dict[str, tuple[Key, set[int]]] = {}  # worker -> its last pass, and the slices of it that came

    def __repr__(self) -> str:
        return f"<{len(self._waiting)} passes under way, {len(self._turns)} wait for their turn to come>"

    def add(self, message: ActivationSlice, envelope: Envelope) -> bool:
        """Note a slice; whether the pass's first FC batch is complete with it. MessageError if it fits nowhere."""
        key = (message.phase, message.number)
        waiting = self._waiting.get(key) or _Waiting(self._scheme, message.cuts)
        self._check(message, waiting)
        last, parts = self._heard.get(envelope.sender, (None, set()))
        if message.rank in waiting.slices[message.part] or (last == key and message.part in parts):
            raise MessageError("unexpected", f"{message!r} of {envelope.sender} came twice")
        self._heard[envelope.sender] = (key, {*parts, message.part} if last == key else {message.part})
        self._waiting[key] = waiting
        waiting.slices[message.part][message.rank] = (message, envelope)
        return message.part == 0 and waiting.complete(0)

    def turn(self, phase: str, number: int) -> None:
        """A pass gets its turn, behind those that have one. MessageError if it was the last to get one."""
        if (phase, number) == self._last_turn:
            raise MessageError("unexpected", f"{phase} {number} gets a second turn")
        self._turns.append((phase, number))
        self._last_turn = (phase, number)

    @property
    def due(self) -> bool:
        """Whether some pass has its turn and has begun to come."""
        return bool(self._turns) and self._turns[0] in self._waiting

    def next(self) -> tuple[Key, list[Members]]:
        """The pass whose turn it is, and its FC batches."""
        key = self._turns.popleft()
        return key, self._waiting[key].batches

    def complete(self, key: Key, part: int) -> bool:
        """Whether all slices of an FC batch have come."""
        return self._waiting[key].complete(part)

    def take(self, key: Key, part: int) -> list[Slice]:
        """The slices of a complete FC batch, in the order of ranks; they are given away."""
        slices = self._waiting[key].slices[part]
        found = [slices[rank] for rank in sorted(slices)]
        if part == len(self._waiting[key].batches) - 1:
            del self._waiting[key]
        else:
            slices.clear()
        return found

    def _check(self, message: ActivationSlice, waiting: _Waiting) -> None:
        members = waiting.batches[message.part] if 0 <= message.part < len(waiting.batches) else []
        mine = [member for member in members if member[0] == message.rank]
        if message.cuts != waiting.cuts or not mine:
            raise MessageError("unexpected", f"{message!r}: no such slice of a batch cut at {waiting.cuts}")
        rows = rows_in(mine)
        expected = [(rows, *shape) for shape in self._shapes]
        found = [tuple(blob.shape) for blob in message.blobs]
        if found != expected:
            raise MessageError("bad_shape", f"{message!r}: expected blobs of shapes {expected}")
