"""The arrays that peers send for sums: each is taken once, checked, and kept until it is asked
for."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterable, Mapping

import numpy as np
from numpy.typing import DTypeLike

from ops import Array, Backend, where
from runtime import Conversation, Message, MessageError, Standing

Key = tuple[int, int]  # iteration, bucket
Arrays = tuple[Array, ...]
BY = "iteration bucket sender"
HERE = "here"
SUMMED = "summed before"
NO_BUCKET = "no such bucket"
NOT_THEIRS = "not from this sender"
CLOSED = (NO_BUCKET, NOT_THEIRS)
SUM = "sum"
CUT = 16  # numbers: each share begins at a cache line


def shares(size: int, members: int) -> list[tuple[int, int]]:
    """The range [low, high) of each member's share of `size` numbers. Shares are nearly equal, and
    some may be empty."""
    lines = -(-size // CUT)
    cuts = [min(size, lines * rank // members * CUT) for rank in range(members + 1)]
    return list(itertools.pairwise(cuts))


class Summands:
    """The arrays that one actor gets for its sums. `sizes` are the sizes of the buckets in numbers
    of `dtype`.

    `awaited` returns the state in which an array of a sender is awaited for a bucket, or None if
    the sender has none to send. The conversation leads from that state to HERE.
    """

    def __init__(
        self,
        talk: Conversation,
        awaited: Callable[[int, str], str | None],
        sizes: Mapping[int, int],
        dtype: DTypeLike,
    ) -> None:
        self._sizes = dict(sizes)
        self._dtype = dtype
        self._awaited = awaited
        self._standing: Standing[tuple[int, int, str]] = Standing(talk, self._unheard)
        self._open: dict[Key, dict[str, asyncio.Future[Arrays]]] = {}
        self._done = dict.fromkeys(self._sizes, -1)  # bucket -> iteration of its last sum

    def __repr__(self) -> str:
        return f"<summands of {len(self._open)} sums>"

    def size(self, message: Message, sender: str, key: Key) -> int:
        """The numbers in the sum that a message belongs to. Raises MessageError if the message may
        not come."""
        self._standing.check(message, sender, (*key, sender))
        return self._sizes[key[1]]

    def arrived(
        self, message: Message, sender: str, key: Key, arrays: Arrays, sizes: Iterable[int] = ()
    ) -> None:
        """Keep the arrays that a peer sent for a sum. They have the bucket's size, or these
        `sizes`.

        Raises MessageError if they may not come, or have another shape.
        """
        whole = self.size(message, sender, key)
        for array, size in zip(arrays, sizes or itertools.repeat(whole), strict=False):
            check_array(array, size, self._dtype, sender)
        self._standing.move(type(message), (*key, sender))
        self._place(key, sender).set_result(arrays)

    async def of(self, key: Key, sender: str) -> Arrays:
        """Wait for the arrays of that peer."""
        return await self._place(key, sender)

    def close(self, key: Key) -> None:
        """Note that the sum is complete: nothing more may come for it."""
        step, bucket = key
        self._done[bucket] = step
        for sender in self._open.pop(key, ()):
            self._standing.move(SUM, (*key, sender))

    def _place(self, key: Key, sender: str) -> asyncio.Future[Arrays]:
        places = self._open.setdefault(key, {})
        if sender not in places:
            places[sender] = asyncio.get_running_loop().create_future()
        return places[sender]

    def _unheard(self, subject: tuple[int, int, str]) -> str:
        step, bucket, sender = subject
        if bucket not in self._sizes:
            return NO_BUCKET
        if step <= self._done[bucket]:
            return SUMMED
        return self._awaited(bucket, sender) or NOT_THEIRS


def check_array(values: Array, size: int, dtype: DTypeLike, sender: str) -> None:
    """Raise MessageError unless the array has this dtype and the shape (size,)."""
    expected = np.dtype(dtype)
    if values.shape != (size,) or values.dtype != expected:
        raise MessageError(
            "bad_shape",
            (f"{sender} sent {values.dtype}{values.shape}, expected {expected}({size},)"),
        )


def check_count(message: Message, sender: str, what: str, found: int, *expected: int) -> None:
    """Raise MessageError unless a message carries one of the expected numbers of arrays."""
    if found not in expected:
        wanted = " or ".join(map(str, expected))
        raise MessageError(
            "bad_shape", (f"{message!r} of {sender}: found {found} {what}, expected {wanted}")
        )


def copied(array: Array, ops: Backend) -> Array:
    """A copy of an array from another host, in memory that peers on this host can read, or on the
    array's device."""
    ops = where((array,), ops)
    mine = ops.empty(array.shape, array.dtype)
    mine[:] = array
    return ops.to_share(mine)
