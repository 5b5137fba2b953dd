"""Sums of p members' arrays by halves, put together by doubling; p is 1, 2, 4, 8, ...
(Rabenseifner, 2004).

    member <-> partner   Contribution, log2(p) times: the half that the partner adds up from now on
    member <-> partner   SharedSum, log2(p) times, the last partner first: all finished pieces that
                         the sender has

Every member sends and gets 2 (p - 1) / p of the array, as in a ring, in 2 log2(p) messages one
after the other, as in a tree. Neighbours by rank come first, then pairs of neighbours, so the bits
are the same as in a tree of pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
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
    BY,
    CLOSED,
    HERE,
    SUM,
    SUMMED,
    Arrays,
    Key,
    Summands,
    check_count,
    shares,
)
from roles.messages import Contribution, SharedSum
from runtime import Actor, Conversation

AWAITED = "awaited"
HALF = Conversation(
    "the half of a partner's sum that is added up here",
    BY,
    AWAITED,
    {(AWAITED, Contribution): (HERE,), (HERE, SUM): (SUMMED,)},
    closed=CLOSED,
)
WHOLE = Conversation(
    "the part of the whole that a partner has",
    BY,
    AWAITED,
    {(AWAITED, SharedSum): (HERE,), (HERE, SUM): (SUMMED,)},
    closed=CLOSED,
)


@dataclass(frozen=True)
class Halving:
    """One turn of a member with a `partner`: half of the pieces that the member still adds up are
    `given` to the partner, the other half is `kept`.

    There are as many pieces as members. `below`: the partner has the lower rank, and gets the lower
    pieces.
    """

    partner: str
    given: range
    kept: range
    below: bool


@dataclass(frozen=True, kw_only=True)
class HalvingOptions(ExchangeOptions):
    """All `members` by rank, including the receiver of these options."""

    members: tuple[str, ...]

    def halvings(self, name: str) -> Iterator[Halving]:
        """The turns of a member, in their order."""
        rank = self.members.index(name)
        mine = range(len(self.members))
        far = 1
        while far < len(self.members):
            below = bool(rank & far)
            middle = len(mine) // 2
            given, mine = (
                (mine[:middle], mine[middle:]) if below else (mine[middle:], mine[:middle])
            )
            yield Halving(self.members[rank ^ far], given, mine, below)
            far *= 2

    def sends(self, name: str, size: int, shapes: Shapes) -> Sent:
        """In each turn, the sums of the half that the partner continues with, and later the
        finished pieces that the partner does not have."""
        for turn, given, kept in self._sized(name, size):
            yield turn.partner, Contribution, shapes.number * given
            yield turn.partner, SharedSum, shapes.number * kept

    def loads(self, name: str, size: int, shapes: Shapes) -> Loads:
        """The halves that it keeps are added, then the pieces are put side by side."""
        turns = self._sized(name, size)
        yield from (Load("reduce", added=kept) for _, _, kept in turns)
        if turns:
            yield Load("gather", added=size)

    def steps(self, name: str, bucket: str, size: int, shapes: Shapes) -> Steps:
        """Turn by turn, one half leaves, and another half comes and is added. On the way back, the
        pieces that are here leave, and the missing ones come."""
        turns = self._sized(name, size)
        above: Name = (name, "bucket", bucket)
        for turn, given, _ in turns:
            told = (name, "Contribution", bucket, turn.partner)
            yield Step(told, Sending((turn.partner,), shapes.number * given), (above,))
            came = (turn.partner, "Contribution", bucket, name)
            yield Step((name, "reduce", bucket, turn.partner), Work("reduce"), (above, came))
            above = (name, "reduce", bucket, turn.partner)
        here: tuple[Name, ...] = (above,)
        for turn, _, kept in reversed(turns):
            told = (name, "SharedSum", bucket, turn.partner)
            yield Step(told, Sending((turn.partner,), shapes.number * kept), here)
            here = (*here, (turn.partner, "SharedSum", bucket, name))
        yield Step((name, "summed", bucket), Work("gather") if turns else None, here)

    def _sized(self, name: str, size: int) -> list[tuple[Halving, int, int]]:
        """The turns of a member, each with the numbers that it gives and the numbers that it
        keeps."""
        sizes = [high - low for low, high in shares(size, len(self.members))]
        return [
            (
                turn,
                sum(sizes[piece] for piece in turn.given),
                sum(sizes[piece] for piece in turn.kept),
            )
            for turn in self.halvings(name)
        ]


class HalvingExchange(Exchange):
    """The exchange by halves, as one actor runs it; see `exchange.Exchange`."""

    Options = HalvingOptions
    fans = False
    repeats = True

    conversations: ClassVar[tuple[Conversation, ...]] = (HALF, WHOLE)

    def __init__(
        self,
        actor: Actor,
        options: HalvingOptions,
        sizes: Mapping[int, int],
        ops: Backend,
        dtype: DTypeLike,
    ) -> None:
        self._actor = actor
        self._ops = ops
        self._turns = {turn.partner: turn for turn in options.halvings(actor.name)}
        self._cuts = {bucket: shares(size, len(options.members)) for bucket, size in sizes.items()}
        self._halves = Summands(HALF, self._awaited, sizes, dtype)
        self._wholes = Summands(WHOLE, self._awaited, sizes, dtype)

    def __repr__(self) -> str:
        return f"<halving exchange with {', '.join(self._turns) or 'no partner'}, {self._halves!r}>"

    @classmethod
    def laid_out(cls, members: Members) -> Layout:
        """Every member talks to one partner for each halving."""
        options = HalvingOptions(members=members.names)
        links = [
            (name, turn.partner)
            for name in members.names
            for turn in options.halvings(name)
            if not turn.below
        ]
        return Layout(options, tuple(links))

    @classmethod
    def refuses(cls, members: int) -> str:
        return "" if members.bit_count() == 1 else "sums are halved among 1, 2, 4, 8, ... only"

    async def sum(self, key: Key, mine: Array) -> Callable[[], Array]:
        """Sum by halves. The returned function gives the sum at once."""
        (step, bucket), turns, total, low = key, list(self._turns.values()), mine, 0
        for turn in turns:
            given, kept = (self._numbers(bucket, pieces, low) for pieces in (turn.given, turn.kept))
            half = Contribution(number=step, bucket=bucket, values=total[given], into=())
            await self._actor.tell(turn.partner, half, step=step)
            (came,) = await self._halves.of(key, turn.partner)
            pair = [came, total[kept]] if turn.below else [total[kept], came]
            total = await self._actor.compute("reduce", self._add, pair)
            low = low + kept.start
        pieces: Arrays = (total,)
        for turn in reversed(turns):
            await self._actor.tell(
                turn.partner, SharedSum(number=step, bucket=bucket, values=pieces), step=step
            )
            others = await self._wholes.of(key, turn.partner)
            pieces = (*others, *pieces) if turn.below else (*pieces, *others)
        self._halves.close(key)
        self._wholes.close(key)
        if turns:
            total = await self._actor.compute("gather", self._gather, pieces, len(mine))
        return lambda: total

    def contributed(self, message: Contribution, sender: str) -> None:
        """Take the half of a partner's sum that is added up here."""
        key = (message.number, message.bucket)
        self._halves.size(message, sender, key)
        check_count(message, sender, "memories for a sum", len(message.into), 0)
        size = sum(self._sizes(message.bucket, self._turns[sender].kept))
        self._halves.arrived(message, sender, key, (message.values,), (size,))

    def summed(self, message: SharedSum, sender: str) -> None:
        """Take the finished part of the sum that a partner has, in pieces as they came to the
        partner."""
        key = (message.number, message.bucket)
        self._wholes.size(message, sender, key)
        sizes = self._sizes(message.bucket, self._turns[sender].given)
        check_count(message, sender, "arrays", len(message.values), len(sizes))
        self._wholes.arrived(message, sender, key, message.values, sizes)

    def _awaited(self, bucket: int, sender: str) -> str | None:
        return AWAITED if sender in self._turns else None

    def _sizes(self, bucket: int, pieces: range) -> list[int]:
        cuts = self._cuts[bucket]
        return [high - low for low, high in cuts[pieces.start : pieces.stop]]

    def _numbers(self, bucket: int, pieces: range, low: int) -> slice:
        """The place of these pieces in an array that begins with number `low` of the bucket."""
        cuts = self._cuts[bucket]
        return slice(cuts[pieces[0]][0] - low, cuts[pieces[-1]][1] - low)

    # in the compute thread

    def _add(self, pair: list[Array]) -> Array:
        return self._ops.add_all(pair, self._ops.empty(pair[0].shape, pair[0].dtype))

    def _gather(self, pieces: Arrays, size: int) -> Array:
        whole = self._ops.empty((size,), pieces[0].dtype)
        low = 0
        for piece in pieces:
            whole[low : low + len(piece)] = piece
            low += len(piece)
        return whole
