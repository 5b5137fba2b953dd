"""Sums arrays of p members without a server: each member adds up its 1/p of every array for all (One weird trick, 3.1).

    member -> others   Contribution: my array is complete            (in shared memory: only its place travels)
    member             adds up its share of all p arrays, in the order of ranks
    member -> others   SharedSum: the sum of my share
    member             puts the p shares side by side

Every byte is read once by whoever adds it up and once by whoever needs the sum, whatever p is. Of small arrays all
members add up everything: that is sooner done than told. All get the same bits either way.
What never lives here: what the arrays mean, when they are sent.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Mapping, Sequence

from ops import Array, Backend
from roles.messages import Contribution, SharedSum
from runtime import Actor, MessageError

Key = tuple[int, int]  # iteration, bucket
CUT = 16  # numbers: shares begin with cache lines
ALONE_BYTES = 4 << 20  # of the others' arrays: adding up so much takes as long as waiting for one more message


def shares(size: int, members: int) -> list[tuple[int, int]]:
    """[low, high) of each member's share of `size` numbers: nearly equal, some may be empty."""
    lines = -(-size // CUT)
    cuts = [min(size, lines * rank // members * CUT) for rank in range(members + 1)]
    return list(itertools.pairwise(cuts))


class _Exchange:
    """What has come for one key so far."""

    def __init__(self, members: int) -> None:
        self.arrays: list[Array | None] = [None] * members
        self.sums: list[Array | None] = [None] * members
        self.all_arrays, self.all_sums = asyncio.Event(), asyncio.Event()
        self.whole: Array | None = None

    def complete(self, places: list[Array | None]) -> list[Array]:
        """The arrays, all of which have come."""
        return [array for array in places if array is not None]


class Collective:
    """For one actor, which hands `Contribution` and `SharedSum` to `contributed` and `summed`.

    `members` are all of them in the order of summation, this actor too; `sizes` are those of the buckets, in numbers.
    """

    def __init__(self, actor: Actor, members: Sequence[str], sizes: Mapping[int, int], ops: Backend) -> None:
        self._actor, self._members, self._sizes, self._ops = actor, tuple(members), dict(sizes), ops
        self._rank = self._members.index(actor.name)
        self._others = [name for name in self._members if name != actor.name]
        self._open: dict[Key, _Exchange] = {}
        self._done = dict.fromkeys(self._sizes, -1)  # bucket -> iteration of its last sum

    def __repr__(self) -> str:
        return f"<collective {self._rank} of {len(self._members)}, {len(self._open)} sums open>"

    async def sum(self, key: Key, mine: Array) -> Callable[[], Array]:
        """Exchange what is needed for the sum of all members' arrays of this key (float32, 1-D).

        Returns what gives the sum, a new array, in the compute thread. `mine` must not be written to again.
        """
        step, bucket = key
        exchange = self._exchange(key)
        self._note(exchange.arrays, exchange.all_arrays, self._rank, mine)
        for name in self._others:
            await self._actor.tell(name, Contribution(number=step, bucket=bucket, values=mine), step=step)
        await exchange.all_arrays.wait()
        if len(self._others) * mine.nbytes > ALONE_BYTES:
            await self._share(key, exchange)
        del self._open[key]
        self._done[bucket] = step
        return lambda: self._total(exchange)

    async def _share(self, key: Key, exchange: _Exchange) -> None:
        """Add up this member's share for all, and wait for the shares of the others."""
        step, bucket = key
        share = await self._actor.compute("reduce", self._reduce, exchange)
        for name in self._others:
            await self._actor.tell(name, SharedSum(number=step, bucket=bucket, values=share), step=step)
        self._note(exchange.sums, exchange.all_sums, self._rank, share)
        await exchange.all_sums.wait()

    def contributed(self, message: Contribution, sender: str) -> None:
        """A member's array is complete."""
        rank, size = self._place(sender, message)
        exchange = self._exchange((message.number, message.bucket))
        self._check(message.values, size, exchange.arrays[rank], sender)
        self._note(exchange.arrays, exchange.all_arrays, rank, message.values)

    def summed(self, message: SharedSum, sender: str) -> None:
        """A member's share is added up."""
        rank, size = self._place(sender, message)
        exchange = self._exchange((message.number, message.bucket))
        low, high = shares(size, len(self._members))[rank]
        self._check(message.values, high - low, exchange.sums[rank], sender)
        self._note(exchange.sums, exchange.all_sums, rank, message.values)

    def _exchange(self, key: Key) -> _Exchange:
        if key not in self._open:
            self._open[key] = _Exchange(len(self._members))
        return self._open[key]

    def _note(self, places: list[Array | None], complete: asyncio.Event, rank: int, array: Array) -> None:
        places[rank] = array
        if all(place is not None for place in places):
            complete.set()

    def _place(self, sender: str, message: Contribution | SharedSum) -> tuple[int, int]:
        bucket = message.bucket
        if sender not in self._others or bucket not in self._sizes or message.number <= self._done[bucket]:
            raise MessageError("unexpected", f"{message!r} of {sender}: no member, no bucket here, or summed before")
        return self._members.index(sender), self._sizes[bucket]

    def _check(self, values: Array, size: int, former: Array | None, sender: str) -> None:
        if former is not None:
            raise MessageError("unexpected", f"{sender} sent the same part of a sum twice")
        if values.shape != (size,) or values.dtype.name != "float32":
            raise MessageError("bad_shape", f"{sender} sent {values.dtype}{values.shape}, expected float32({size},)")

    # in the compute thread

    def _reduce(self, exchange: _Exchange) -> Array:
        """This member's share of the sum, in its place of a new array."""
        arrays = exchange.complete(exchange.arrays)
        exchange.whole = self._ops.empty(arrays[0].shape)
        low, high = shares(len(exchange.whole), len(arrays))[self._rank]
        share = exchange.whole[low:high]
        self._ops.add_all([array[low:high] for array in arrays], share)
        return share

    def _total(self, exchange: _Exchange) -> Array:
        if exchange.whole is None:
            arrays = exchange.complete(exchange.arrays)
            if len(arrays) == 1:
                return arrays[0]
            whole = self._ops.empty(arrays[0].shape)
            self._ops.add_all(arrays, whole)
            return whole
        for rank, (low, high) in enumerate(shares(len(exchange.whole), len(self._members))):
            if rank != self._rank:
                exchange.whole[low:high] = exchange.sums[rank]
        return exchange.whole
