"""Sums of p members' arrays round a ring, piece by piece: each member sends to the next one only.

    member -> next   Contribution, p - 1 times: a piece, summed over the members so far
    member -> next   SharedSum, p - 1 times: a finished piece of the sum

Every member sends and gets 2 (p - 1) / p of the array, the least that is possible if only members
add up: the root of a tree sends log2(p) times the array. The price is 2 (p - 1) messages, one after
the other. The sum of piece r begins with the member of rank r, so the order is fixed, but pieces
are not added in pairs. In the messages `bucket` is below 0 and identifies the piece, since several
pieces of a bucket come from one sender.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

from numpy.typing import DTypeLike

from ops import Array, Backend
from roles.base.loads import Load, Loads
from roles.base.role import Sent
from roles.base.shapes import Shapes
from roles.base.steps import Key as Name
from roles.base.steps import Sending, Step, Steps, Work
from roles.exchange.exchange import Exchange, ExchangeOptions, Layout, Members
from roles.exchange.partial_sums import (
    CLOSED,
    HERE,
    SUM,
    SUMMED,
    Key,
    Summands,
    check_count,
    shares,
)
from roles.messages import Contribution, SharedSum
from runtime import Actor, Conversation

PART = "a part awaited"
WHOLE = "a whole piece awaited"
PIECES = Conversation(
    "a piece of a sum, from the previous member",
    "iteration piece sender",
    PART,
    {(PART, Contribution): (HERE,), (WHOLE, SharedSum): (HERE,), (HERE, SUM): (SUMMED,)},
    closed=CLOSED,
)


@dataclass(frozen=True, kw_only=True)
class RingOptions(ExchangeOptions):
    """All `members` by rank, including the receiver of these options."""

    members: tuple[str, ...]

    def sends(self, name: str, size: int, shapes: Shapes) -> Sent:
        """Every piece but one goes to the next member, twice."""
        for rounds, kind in zip(self._rounds(name, size), (Contribution, SharedSum), strict=True):
            for piece in rounds:
                yield self._beside(name, 1), kind, shapes.number * piece

    def loads(self, name: str, size: int, shapes: Shapes) -> Loads:
        """Its numbers are added to each piece that comes, then the pieces are put side by side."""
        partial, _ = self._rounds(self._beside(name, -1), size)
        yield from (Load("reduce", added=piece) for piece in partial)
        if partial:
            yield Load("gather", added=size)

    def steps(self, name: str, bucket: str, size: int, shapes: Shapes) -> Steps:
        """Piece by piece: one leaves, and one comes and is added to."""
        after = self._beside(name, 1)
        before = self._beside(name, -1)
        above: Name = (name, "bucket", bucket)
        partial, whole = self._rounds(name, size)
        for number, piece in enumerate(partial):
            told = (name, "Contribution", bucket, str(number))
            yield Step(told, Sending((after,), shapes.number * piece), (above,))
            came = (before, "Contribution", bucket, str(number))
            above = (name, "reduce", bucket, str(number))
            yield Step(above, Work("reduce"), (came,))
        for number, piece in enumerate(whole):
            yield Step(
                (name, "SharedSum", bucket, str(number)),
                Sending((after,), shapes.number * piece),
                (above,),
            )
            above = (before, "SharedSum", bucket, str(number))
        yield Step((name, "summed", bucket), Work("gather") if whole else None, (above,))

    def _beside(self, name: str, far: int) -> str:
        return self.members[(self.members.index(name) + far) % len(self.members)]

    def _rounds(self, name: str, size: int) -> tuple[list[int], list[int]]:
        """The sizes of the pieces that a member sends, in numbers: of partial sums, then of
        finished ones."""
        count = len(self.members)
        rank = self.members.index(name)
        sizes = [high - low for low, high in shares(size, count)]
        rounds = range(count - 1)
        return [sizes[(rank - number) % count] for number in rounds], [
            sizes[(rank + 1 - number) % count] for number in rounds
        ]


class RingExchange(Exchange):
    """The exchange round a ring, as one actor runs it; see `exchange.Exchange`."""

    Options = RingOptions
    fans = False

    conversations: ClassVar[tuple[Conversation, ...]] = (PIECES,)

    def __init__(
        self,
        actor: Actor,
        options: RingOptions,
        sizes: Mapping[int, int],
        ops: Backend,
        dtype: DTypeLike,
    ) -> None:
        members = options.members
        self._actor = actor
        self._ops = ops
        self._count = len(members)
        self._rank = members.index(actor.name)
        self._next = members[(self._rank + 1) % self._count]
        self._before = members[self._rank - 1]
        self._rounds = 2 * (self._count - 1)
        pieces: dict[int, int] = {}
        for bucket, size in sizes.items():
            cuts = shares(size, self._count)
            for turn in range(self._rounds):
                low, high = cuts[self._piece(turn + 1)]
                pieces[self._number(bucket, turn)] = high - low
        self._summands = Summands(PIECES, self._awaited, pieces, dtype)

    def __repr__(self) -> str:
        return f"<ring exchange, {self._rank} of {self._count}, {self._summands!r}>"

    @classmethod
    def laid_out(cls, members: Members) -> Layout:
        """Every member talks to the next one."""
        names = members.names
        links = {
            tuple(sorted(pair)): pair for pair in zip(names, (*names[1:], names[0]), strict=True)
        }
        return Layout(RingOptions(members=names), tuple(links.values()) if len(names) > 1 else ())

    async def sum(self, key: Key, mine: Array) -> Callable[[], Array]:
        """Sum round the ring. The returned function gives the sum at once."""
        cuts = shares(len(mine), self._count)
        pieces = dict[int, Array]()
        low, high = cuts[self._rank]
        piece = mine[low:high]
        for turn in range(self._rounds):
            came = await self._exchanged(key, turn, piece)
            piece = came
            place = self._piece(turn + 1)
            if turn < self._count - 1:
                low, high = cuts[place]
                piece = await self._actor.compute("reduce", self._add, came, mine[low:high])
            if turn >= self._count - 2:
                pieces[place] = piece
        total = (
            mine
            if not self._rounds
            else await self._actor.compute("gather", self._gather, mine, cuts, pieces)
        )
        return lambda: total

    async def _exchanged(self, key: Key, turn: int, piece: Array) -> Array:
        """Send a piece to the next member, and wait for the piece of the previous one."""
        step = key[0]
        number = self._number(key[1], turn)
        if turn < self._count - 1:
            said: Contribution | SharedSum = Contribution(
                number=step, bucket=number, values=piece, into=()
            )
        else:
            said = SharedSum(number=step, bucket=number, values=(piece,))
        await self._actor.tell(self._next, said, step=step)
        (came,) = await self._summands.of((step, number), self._before)
        self._summands.close((step, number))
        return came

    def contributed(self, message: Contribution, sender: str) -> None:
        """Take a partial sum of a piece."""
        self._summands.size(message, sender, (message.number, message.bucket))
        check_count(message, sender, "memories for a sum", len(message.into), 0)
        self._summands.arrived(message, sender, (message.number, message.bucket), (message.values,))

    def summed(self, message: SharedSum, sender: str) -> None:
        """Take a finished piece."""
        self._summands.size(message, sender, (message.number, message.bucket))
        check_count(message, sender, "arrays", len(message.values), 1)
        self._summands.arrived(message, sender, (message.number, message.bucket), message.values)

    def _awaited(self, number: int, sender: str) -> str | None:
        if sender != self._before:
            return None
        return PART if (-1 - number) % self._rounds < self._count - 1 else WHOLE

    def _piece(self, turn: int) -> int:
        """The piece that leaves in this turn. The piece that comes leaves in the next turn."""
        return (self._rank - turn) % self._count

    def _number(self, bucket: int, turn: int) -> int:
        return -1 - (bucket * self._rounds + turn)

    # in the compute thread

    def _add(self, came: Array, mine: Array) -> Array:
        return self._ops.add_all([came, mine], self._ops.empty(mine.shape, mine.dtype))

    def _gather(
        self, mine: Array, cuts: list[tuple[int, int]], pieces: Mapping[int, Array]
    ) -> Array:
        whole = self._ops.empty(mine.shape, mine.dtype)
        for place, (low, high) in enumerate(cuts):
            whole[low:high] = pieces[place]
        return whole
