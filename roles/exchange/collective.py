"""Sums arrays of p members in memory that all of them see: a few add up, each its share of every
array, for all.

    member -> adders       Contribution: my array is complete; the first: and here is memory for the
                           sum
    adder                  adds up its share of all p arrays, neighbours by rank first, into its
                           place of the sum
    adder -> adders        SharedSum: my share is there; or, to those that do not share memory with
                           me, the share itself
    first member -> rest   SharedSum: the sum is there

In shared memory every byte is read once and written once, whatever p is, and nothing but places
travels. There are as many adders as the host has cores: more would only have to be told (30 MB of 8
members on two busy cores: 30 and 43 ms with 2 adders, 36 and 51 with 8). Small arrays have one
adder; of few members each adds them up for itself: that is sooner done than told. All get the same
bits either way.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import DTypeLike

from ops import Array, Backend
from roles.base.loads import Load, Loads
from roles.base.role import Sent
from roles.base.shapes import Shapes
from roles.base.steps import Key as Name
from roles.base.steps import Step, Steps, Work, all_sent, arrival, one_by_one
from roles.exchange.buckets import SHARED_BUCKET_BYTES
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
from runtime.memory.held_arrays import writable

# of the others' arrays: adding up so much takes 0.4 ms, about as long as one more message
ALONE_BYTES = 4 << 20
# that tell one another everything. 256 KB of 8 took a busy host 15 ms so, with one adder 4.5
ALONE_MEMBERS = 3

AWAITED = "awaited"
SHARE_AWAITED = "its share awaited"
SUM_AWAITED = "the sum awaited"
ARRAY = Conversation(
    "a member's array, at an adder",
    BY,
    AWAITED,
    {(AWAITED, Contribution): (HERE,), (HERE, SUM): (SUMMED,)},
    closed=CLOSED,
)
SHARE = Conversation(
    "what an adder gives",
    BY,
    SHARE_AWAITED,
    {
        (SHARE_AWAITED, SharedSum): (HERE,),  # at another adder
        (SUM_AWAITED, SharedSum): (HERE,),  # from the first member, at one that does not add up
        (HERE, SUM): (SUMMED,),
    },
    closed=CLOSED,
)


def adding(size: int, members: int, adders: int | None) -> int:
    """How many of the members add up a sum of so many bytes for all. 0: everybody does, for
    itself."""
    if (members - 1) * size > ALONE_BYTES:
        return min(adders or members, members)
    return 0 if members <= ALONE_MEMBERS else 1


def adders_of(members: Sequence[str], cores: int | None) -> int:
    """How many of them add up, on a host with so many cores: decided once, when a run is planned.
    All, where that is not known."""
    return min(len(members), cores or len(members))


@dataclass(frozen=True, kw_only=True)
class CollectiveOptions(ExchangeOptions):
    """All `members` in the order of summation, the receiver of this too; the first `adders` of them
    add up (None: all)."""

    bucket_bytes: ClassVar[int] = SHARED_BUCKET_BYTES
    members: tuple[str, ...]
    adders: int | None = None

    def sends(self, name: str, size: int, shapes: Shapes) -> Sent:
        """Its array to the adders, an adder's share to the others, the first member's word to the
        rest."""
        members = self.members
        number = shapes.number
        rank = members.index(name)
        shared = adding(number * size, len(members), self.adders)
        adders = members[: shared or None]
        place = size if shared and not rank else 0  # the first member's memory for the sum
        share = 0
        if shared and name in adders and not shapes.shared_memory:
            low, high = shares(size, len(adders))[rank]
            share = high - low
        for other in adders:
            if other != name:
                yield other, Contribution, number * (size + place)
                if shared and name in adders:
                    yield other, SharedSum, number * share
        if shared and not rank:
            for other in members[len(adders) :]:
                yield other, SharedSum, number * size

    def loads(self, name: str, size: int, shapes: Shapes) -> Loads:
        """An adder's share of all arrays; where everybody adds up for itself, that is done with the
        update."""
        members = len(self.members)
        rank = self.members.index(name)
        count = adding(shapes.number * size, members, self.adders)
        if rank < count:
            low, high = shares(size, count)[rank]
            yield Load("reduce", added=(members - 1) * (high - low))
            if count > 1 and not shapes.shared_memory:
                yield Load("gather", added=size)

    def steps(self, name: str, bucket: str, size: int, shapes: Shapes) -> Steps:
        """Its array to the adders; as an adder its share, and those of the others; the first tells
        the rest."""
        members = self.members
        rank = self.members.index(name)
        number = shapes.number
        count = adding(number * size, len(members), self.adders)
        adders = members[: count or None]
        place = size if count and not rank else 0
        others = tuple(other for other in adders if other != name)
        rest = members[len(adders) :]
        mine = (name, "bucket", bucket)
        given = (name, "Contribution", bucket)
        share = (name, "share", bucket)
        whole = (name, "SharedSum", bucket)
        yield from one_by_one(given, others, number * (size + place), mine)
        above: tuple[Name, ...] = (arrival((members[0], *whole[1:]), name, len(rest)),)
        if name in adders:
            # an adder names itself no receiver: others have one receiver less, or as many
            came = [
                arrival((other, *given[1:]), name, len(adders) - (other in adders))
                for other in members
            ]
            above = (mine, *all_sent(given, others), *(key for key in came if key[0] != name))
        if name in adders and count:
            yield Step((name, "reduce", bucket), Work("reduce"), above)
            low, high = (0, 0) if shapes.shared_memory else shares(size, count)[rank]
            yield from one_by_one(share, others, number * (high - low), (name, "reduce", bucket))
            shares_of = [arrival((other, *share[1:]), name, len(others)) for other in others]
            above = ((name, "gather", bucket),)
            gather = None if shapes.shared_memory else Work("gather")
            yield Step(
                above[0], gather, (*shares_of, (name, "reduce", bucket), *all_sent(share, others))
            )
        if count and not rank:
            yield from one_by_one(whole, rest, number * size, above[0])
            above = (*above, *all_sent(whole, rest))
        yield Step((name, "summed", bucket), None, above)


class Collective(Exchange):
    """For one actor; see `exchange.Exchange`."""

    Options = CollectiveOptions
    fans = False
    repeats = True
    over_hosts = "per-host"
    ways = True

    conversations: ClassVar[tuple[Conversation, ...]] = (ARRAY, SHARE)

    def __init__(
        self,
        actor: Actor,
        options: CollectiveOptions,
        sizes: Mapping[int, int],
        ops: Backend,
        dtype: DTypeLike,
    ) -> None:
        self._actor = actor
        self._members = options.members
        self._ops = ops
        self._adders = options.adders
        self._dtype = np.dtype(dtype)
        self._rank = self._members.index(actor.name)
        # how many add it up for all
        self._counts = {bucket: self._adding(size) for bucket, size in sizes.items()}
        self._arrays = Summands(ARRAY, self._array_awaited, sizes, dtype)
        self._sums = Summands(SHARE, self._sum_awaited, sizes, dtype)

    def __repr__(self) -> str:
        return f"<collective {self._rank} of {len(self._members)}, {self._arrays!r}>"

    @classmethod
    def laid_out(cls, members: Members) -> Layout:
        """Everybody talks to everybody."""
        options = CollectiveOptions(
            members=members.names, adders=adders_of(members.names, members.cores)
        )
        return Layout(options, tuple(itertools.combinations(members.names, 2)))

    async def sum(self, key: Key, mine: Array) -> Callable[[], Array]:
        """Exchange what is needed for the sum of all members' arrays of this key (1-D).

        Returns what gives the sum in the compute thread. Neither the sum nor `mine` must be written
        to.
        """
        step, bucket = key
        count = self._adding(len(mine))
        into = (self._ops.empty(mine.shape, self._dtype),) if count and not self._rank else ()
        adders = self._members[: count or None]
        await self._tell(adders, Contribution(number=step, bucket=bucket, values=mine, into=into))
        if self._rank >= len(adders):
            (whole,) = await self._sums.of(key, self._members[0])
            total = lambda: whole  # noqa: E731
        else:
            arrays = await self._of_all(self._arrays, self._members, key, (mine, *into))
            total = (
                await self._share(key, arrays)
                if count
                else lambda: self._add([given[0] for given in arrays])
            )
        for summands in (self._arrays, self._sums):
            summands.close(key)
        return total

    async def _share(self, key: Key, arrays: Sequence[Arrays]) -> Callable[[], Array]:
        """Add up this member's share for all, and wait for the shares of the others."""
        step, bucket = key
        whole = arrays[0][1]
        adders = self._members[: self._adding(len(whole))]
        share, in_place = await self._actor.compute("reduce", self._reduce, arrays)
        for name, given in zip(adders, arrays, strict=False):
            # whose memory is seen here sees what is written here
            seen = in_place and writable(given[0]) is not None
            await self._tell(
                (name,), SharedSum(number=step, bucket=bucket, values=() if seen else (share,))
            )
        sums = await self._of_all(self._sums, adders, key, () if in_place else (share,))
        if any(sums):
            whole = await self._actor.compute("gather", self._gather, whole, sums)
        if not self._rank:
            rest = self._members[len(adders) :]
            await self._tell(rest, SharedSum(number=step, bucket=bucket, values=(whole,)))
        return lambda: whole

    async def _tell(self, names: Iterable[str], message: Contribution | SharedSum) -> None:
        for name in names:
            if name != self._actor.name:
                await self._actor.tell(name, message, step=message.number)

    async def _of_all(
        self, summands: Summands, names: Iterable[str], key: Key, mine: Arrays
    ) -> list[Arrays]:
        return [
            mine if name == self._actor.name else await summands.of(key, name) for name in names
        ]

    def contributed(self, message: Contribution, sender: str) -> None:
        """A member's array is complete."""
        key = (message.number, message.bucket)
        self._arrays.size(message, sender, key)
        given = self._counts[message.bucket] > 0 and sender == self._members[0]
        check_count(message, sender, "memories for a sum", len(message.into), int(given))
        self._arrays.arrived(message, sender, key, (message.values, *message.into))

    def summed(self, message: SharedSum, sender: str) -> None:
        """A member's share is added up, or the whole."""
        key = (message.number, message.bucket)
        size = self._sums.size(message, sender, key)
        count = self._counts[message.bucket]
        joins = self._joins(count)
        check_count(message, sender, "arrays", len(message.values), *((0, 1) if joins else (1,)))
        low, high = shares(size, count)[self._members.index(sender)] if joins else (0, size)
        self._sums.arrived(message, sender, key, message.values, (high - low,))

    def _array_awaited(self, bucket: int, sender: str) -> str | None:
        """Members tell those who add up; where there are none for all, everybody does."""
        adds = self._rank < (self._counts[bucket] or len(self._members))
        return AWAITED if adds and sender in self._members and sender != self._actor.name else None

    def _sum_awaited(self, bucket: int, sender: str) -> str | None:
        """Adders tell one another their shares, the first tells the rest."""
        count = self._counts[bucket]
        if sender not in self._members[:count] or sender == self._actor.name:
            return None
        if self._joins(count):
            return SHARE_AWAITED
        return SUM_AWAITED if sender == self._members[0] else None

    def _joins(self, count: int) -> bool:
        """Does this member get the shares of `count` adders? The others get the whole."""
        return self._rank < count

    def _adding(self, size: int) -> int:
        return adding(size * self._dtype.itemsize, len(self._members), self._adders)

    # in the compute thread

    def _reduce(self, arrays: Sequence[Arrays]) -> tuple[Array, bool]:
        """This member's share, added up; is it in its place of the sum? It is where that may be
        written to."""
        into = arrays[0][1]
        low, high = shares(len(into), self._adding(len(into)))[self._rank]
        parts = [given[0][low:high] for given in arrays]
        # the first member's own memory, too: others see it only where it is shared
        place = writable(into)
        if place is None:
            return self._add(parts), False
        self._ops.add_all(parts, place[low:high])
        return into[low:high], True

    def _gather(self, into: Array, sums: Sequence[Arrays]) -> Array:
        """The shares side by side, where some of them travelled."""
        whole = self._ops.empty(into.shape, self._dtype)
        for share, (low, high) in zip(sums, shares(len(whole), len(sums)), strict=True):
            whole[low:high] = share[0] if share else into[low:high]
        return whole

    def _add(self, arrays: list[Array]) -> Array:
        if len(arrays) == 1:
            return arrays[0]
        return self._ops.add_all(arrays, self._ops.empty(arrays[0].shape, self._dtype))
