"""Sums arrays of p members without a server: each member adds up its 1/p of every array for all (One weird trick, 4.1).

    member -> others   Contribution: my array is complete; the first: and here is memory for the sum
    member             adds up its share of all p arrays, in the order of ranks, into its place of the sum
    member -> others   SharedSum: my share is there; or, where memory is not shared, the share itself

In shared memory every byte is read once and written once, whatever p is, and nothing but places travels. Of small
arrays all members add up everything: that is sooner done than told. All get the same bits either way.
What never lives here: what the arrays mean, when they are sent.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ops import Array, Backend
from roles.messages import Contribution, SharedSum
from runtime import Actor, MessageError
from runtime.arena import writable

Key = tuple[int, int]  # iteration, bucket
CUT = 16  # numbers: shares begin with cache lines
ALONE_BYTES = 4 << 20  # of the others' arrays: adding up so much takes 0.4 ms, about as long as one more message


def shares(size: int, members: int) -> list[tuple[int, int]]:
    """[low, high) of each member's share of `size` numbers: nearly equal, some may be empty."""
    lines = -(-size // CUT)
    cuts = [min(size, lines * rank // members * CUT) for rank in range(members + 1)]
    return list(itertools.pairwise(cuts))


def apart(size: int, members: int) -> bool:
    """Is an array of `size` bytes added up in shares, not by every member?"""
    return (members - 1) * size > ALONE_BYTES


class _Exchange:
    """What has come for one key so far: arrays, shares of the sum (none: it is in its place of `into`)."""

    def __init__(self, members: int) -> None:
        self._arrays: list[Array | None] = [None] * members
        self._sums: list[tuple[Array, ...] | None] = [None] * members
        self.all_arrays, self.all_sums = asyncio.Event(), asyncio.Event()
        self.into: Array | None = None

    def add(self, rank: int, array: Array) -> None:
        """A member's array; ValueError if it came before."""
        _put(self._arrays, rank, array, self.all_arrays)

    def add_sum(self, rank: int, share: tuple[Array, ...]) -> None:
        """A member's share of the sum; ValueError if it came before."""
        _put(self._sums, rank, share, self.all_sums)

    @property
    def arrays(self) -> list[Array]:
        """All arrays, once they have come."""
        return [array for array in self._arrays if array is not None]

    @property
    def sums(self) -> list[tuple[Array, ...]]:
        """All shares, once they have come."""
        return [share for share in self._sums if share is not None]


def _put(places: list[Any], rank: int, value: Any, complete: asyncio.Event) -> None:
    if places[rank] is not None:
        raise ValueError("it came twice")
    places[rank] = value
    if all(place is not None for place in places):
        complete.set()


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

        Returns what gives the sum in the compute thread. Neither the sum nor `mine` must be written to.
        """
        step, bucket = key
        exchange = self._exchange(key)
        in_shares = apart(mine.nbytes, len(self._members))
        if in_shares and not self._rank:
            exchange.into = self._ops.empty(mine.shape)
        into = () if exchange.into is None or self._rank else (exchange.into,)
        exchange.add(self._rank, mine)
        for name in self._others:
            await self._actor.tell(name, Contribution(number=step, bucket=bucket, values=mine, into=into), step=step)
        await exchange.all_arrays.wait()
        if in_shares:
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
        exchange.add_sum(self._rank, share)
        await exchange.all_sums.wait()

    def contributed(self, message: Contribution, sender: str) -> None:
        """A member's array is complete."""
        rank, size = self._place(sender, message)
        for array in (message.values, *message.into):
            _check(array, size, sender)
        if len(message.into) > (rank == 0):
            raise MessageError("unexpected", f"{sender} gave memory for a sum, which only the first member does")
        exchange = self._exchange((message.number, message.bucket))
        _once(exchange.add, rank, message.values, sender)
        if message.into:
            (exchange.into,) = message.into

    def summed(self, message: SharedSum, sender: str) -> None:
        """A member's share is added up."""
        rank, size = self._place(sender, message)
        low, high = shares(size, len(self._members))[rank]
        for share in message.values:
            _check(share, high - low, sender)
        _once(self._exchange((message.number, message.bucket)).add_sum, rank, message.values[:1], sender)

    def _exchange(self, key: Key) -> _Exchange:
        if key not in self._open:
            self._open[key] = _Exchange(len(self._members))
        return self._open[key]

    def _place(self, sender: str, message: Contribution | SharedSum) -> tuple[int, int]:
        bucket = message.bucket
        if sender not in self._others or bucket not in self._sizes or message.number <= self._done[bucket]:
            raise MessageError("unexpected", f"{message!r} of {sender}: no member, no bucket here, or summed before")
        return self._members.index(sender), self._sizes[bucket]

    # in the compute thread

    def _reduce(self, exchange: _Exchange) -> tuple[Array, ...]:
        """Add up this member's share: into its place of the sum if that may be written to, else it is returned."""
        arrays = exchange.arrays
        low, high = shares(len(arrays[0]), len(arrays))[self._rank]
        parts = [array[low:high] for array in arrays]
        place = exchange.into if not self._rank or exchange.into is None else writable(exchange.into)
        if place is None:
            return (self._ops.add_all(parts, self._ops.empty((high - low,))),)
        self._ops.add_all(parts, place[low:high])
        return ()

    def _total(self, exchange: _Exchange) -> Array:
        arrays = exchange.arrays
        if len(arrays) == 1:
            return arrays[0]
        if not exchange.all_sums.is_set():
            return self._ops.add_all(arrays, self._ops.empty(arrays[0].shape))
        if exchange.into is not None and not any(exchange.sums):
            return exchange.into
        whole = self._ops.empty(arrays[0].shape)
        for share, (low, high) in zip(exchange.sums, shares(len(whole), len(arrays)), strict=True):
            whole[low:high] = share[0] if share or exchange.into is None else exchange.into[low:high]
        return whole


def _check(values: Array, size: int, sender: str) -> None:
    if values.shape != (size,) or values.dtype.name != "float32":
        raise MessageError("bad_shape", f"{sender} sent {values.dtype}{values.shape}, expected float32({size},)")


def _once(add: Callable[[int, Any], None], rank: int, value: Any, sender: str) -> None:
    try:
        add(rank, value)
    except ValueError:
        raise MessageError("unexpected", f"{sender} sent the same part of a sum twice") from None
