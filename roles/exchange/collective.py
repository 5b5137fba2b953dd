"""Sums of p members' arrays in memory that all of them see: some of the members, the adders, each
add up a share of every array for all.

    member -> adders       Contribution: its array is complete. The first member also gives memory
                           for the sum.
    adder                  adds up its share of all p arrays, neighbours by rank first, into its
                           place of the sum
    adder -> adders        SharedSum: its share is complete. An adder that does not share memory
                           with the receiver sends the share itself.
    first member -> rest   SharedSum: the sum is complete

In shared memory every byte is read once and written once, whatever p is, and only addresses travel.
There are as many adders as the host has cores: more adders would only need more messages (30 MB of
8 members on two busy cores: 30 and 43 ms with 2 adders, 36 and 51 with 8). Small arrays have one
adder. With few members, each adds them up for itself, which is faster than a message. So do members
whose arrays lie on the device of one process. All members get the same bits either way.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import DTypeLike

from ops import Array, Backend, where
from roles.base.loads import Load, Loads
from roles.base.role import Sent
from roles.base.shapes import Read, Shapes
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

# bytes of the others' arrays: adding them up takes 0.4 ms, about as long as one more message
ALONE_BYTES = 4 << 20
# at most so many members each send to all others. With 8 of them 256 KB took a busy host 15 ms so,
# and 4.5 ms with one adder.
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
    "an adder's share, or the sum",
    BY,
    SHARE_AWAITED,
    {
        (SHARE_AWAITED, SharedSum): (HERE,),  # at another adder
        (SUM_AWAITED, SharedSum): (HERE,),  # from the first member, at a member that is no adder
        (HERE, SUM): (SUMMED,),
    },
    closed=CLOSED,
)


def adding(size: int, members: int, adders: int | None) -> int:
    """The number of members that add up a sum of `size` bytes for all. 0: every member adds up for
    itself."""
    if (members - 1) * size > ALONE_BYTES:
        return min(adders or members, members)
    return 0 if members <= ALONE_MEMBERS else 1


def adders_of(members: Sequence[str], cores: int | None) -> int:
    """The number of members that add up on a host with so many cores. It is decided once, when a
    run is planned. If the cores are not known, all members add up."""
    return min(len(members), cores or len(members))


@dataclass(frozen=True, kw_only=True)
class CollectiveOptions(ExchangeOptions):
    """All `members` in the order of summation, including the receiver of these options. The first
    `adders` of them add up (None: all)."""

    bucket_bytes: ClassVar[int] = SHARED_BUCKET_BYTES
    members: tuple[str, ...]
    adders: int | None = None

    def sends(self, name: str, size: int, shapes: Shapes) -> Sent:
        """Its array goes to the adders, an adder's share to the other adders, and the first
        member's notice to the rest."""
        members = self.members
        number = shapes.number
        rank = members.index(name)
        shared = self._adding(name, size, shapes)
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
        """An adder's share of all arrays. Where every member adds up for itself, it does so
        together with the update."""
        members = len(self.members)
        rank = self.members.index(name)
        count = self._adding(name, size, shapes)
        if rank < count:
            low, high = shares(size, count)[rank]
            yield Load("reduce", added=(members - 1) * (high - low))
            if count > 1 and not shapes.shared_memory:
                yield Load("gather", added=size)

    def _adding(self, name: str, size: int, shapes: Shapes) -> int:
        """The number of members that add up a bucket for all. On a GPU that all share, each member
        adds up for itself."""
        if shapes.read([(name, to) for to in self.members if to != name]) is not Read.HOST:
            return 0
        return adding(shapes.number * size, len(self.members), self.adders)

    def steps(self, name: str, bucket: str, size: int, shapes: Shapes) -> Steps:
        """Its array goes to the adders. An adder computes its share and gets the other shares. The
        first member notifies the rest."""
        members = self.members
        rank = self.members.index(name)
        number = shapes.number
        count = self._adding(name, size, shapes)
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
            # an adder does not send to itself, so it has one receiver less than other members
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
    """The collective, as one actor runs it; see `exchange.Exchange`."""

    Options = CollectiveOptions
    fans = False
    repeats = True
    reads_device = True
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
        # all members live in this process, and their arrays on its device
        self._here = actor.reads_device and all(map(actor.hands_over, self._members))
        # bucket -> number of adders for all
        self._counts = {bucket: self._adding(size) for bucket, size in sizes.items()}
        self._arrays = Summands(ARRAY, self._array_awaited, sizes, dtype)
        self._sums = Summands(SHARE, self._sum_awaited, sizes, dtype)

    def __repr__(self) -> str:
        return f"<collective {self._rank} of {len(self._members)}, {self._arrays!r}>"

    @classmethod
    def laid_out(cls, members: Members) -> Layout:
        """Every member talks to every other."""
        options = CollectiveOptions(
            members=members.names, adders=adders_of(members.names, members.cores)
        )
        return Layout(options, tuple(itertools.combinations(members.names, 2)))

    async def sum(self, key: Key, mine: Array) -> Callable[[], Array]:
        step, bucket = key
        if not self._here:
            mine = await self._actor.to_host(mine)
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
            # a member whose memory is mapped here sees the share that was written into place
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
        """Take a member's array, which is complete."""
        key = (message.number, message.bucket)
        self._arrays.size(message, sender, key)
        given = self._counts[message.bucket] > 0 and sender == self._members[0]
        check_count(message, sender, "memories for a sum", len(message.into), int(given))
        self._arrays.arrived(message, sender, key, (message.values, *message.into))

    def summed(self, message: SharedSum, sender: str) -> None:
        """Take an adder's share, or the whole sum."""
        key = (message.number, message.bucket)
        size = self._sums.size(message, sender, key)
        count = self._counts[message.bucket]
        joins = self._joins(count)
        check_count(message, sender, "arrays", len(message.values), *((0, 1) if joins else (1,)))
        low, high = shares(size, count)[self._members.index(sender)] if joins else (0, size)
        self._sums.arrived(message, sender, key, message.values, (high - low,))

    def _array_awaited(self, bucket: int, sender: str) -> str | None:
        """Members send to the adders, or to everyone if all add up for themselves."""
        adds = self._rank < (self._counts[bucket] or len(self._members))
        return AWAITED if adds and sender in self._members and sender != self._actor.name else None

    def _sum_awaited(self, bucket: int, sender: str) -> str | None:
        """Adders send their shares to one another, and the first member sends the sum to the
        rest."""
        count = self._counts[bucket]
        if sender not in self._members[:count] or sender == self._actor.name:
            return None
        if self._joins(count):
            return SHARE_AWAITED
        return SUM_AWAITED if sender == self._members[0] else None

    def _joins(self, count: int) -> bool:
        """Does this member get the shares of `count` adders? Other members get the whole sum."""
        return self._rank < count

    def _adding(self, size: int) -> int:
        """The number of adders for all. On a device each member adds up for itself."""
        if self._here:
            return 0
        return adding(size * self._dtype.itemsize, len(self._members), self._adders)

    # in the compute thread

    def _reduce(self, arrays: Sequence[Arrays]) -> tuple[Array, bool]:
        """This member's share, added up, and whether it lies in its place of the sum. It does if
        that place can be written to."""
        into = arrays[0][1]
        low, high = shares(len(into), self._adding(len(into)))[self._rank]
        parts = [given[0][low:high] for given in arrays]
        # this also holds for the first member's own memory, which others see only if it is shared
        place = writable(into)
        if place is None:
            return self._add(parts), False
        self._ops.add_all(parts, place[low:high])
        return into[low:high], True

    def _gather(self, into: Array, sums: Sequence[Arrays]) -> Array:
        """The shares side by side, where some of them travelled in messages."""
        whole = self._ops.empty(into.shape, self._dtype)
        for share, (low, high) in zip(sums, shares(len(whole), len(sums)), strict=True):
            whole[low:high] = share[0] if share else into[low:high]
        return whole

    def _add(self, arrays: list[Array]) -> Array:
        if len(arrays) == 1:
            return arrays[0]
        ops = where(arrays, self._ops)
        into = ops.empty(arrays[0].shape, self._dtype)
        return ops.add_all(list(map(ops.asarray, arrays)), into)
