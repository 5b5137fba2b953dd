"""Arrays that peers send for sums: each is taken once, checked, and kept until it is asked for.

What never lives here: who sends what to whom, and what is added up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import numpy as np
from numpy.typing import DTypeLike

from ops import Array
from runtime import MessageError

Key = tuple[int, int]  # iteration, bucket
Arrays = tuple[Array, ...]


class Summands:
    """Of one actor. `sizes` are those of the buckets, in numbers of `dtype`."""

    def __init__(self, sizes: Mapping[int, int], dtype: DTypeLike) -> None:
        self._sizes, self._dtype = dict(sizes), dtype
        self._open: dict[Key, dict[str, asyncio.Future[Arrays]]] = {}
        self._done = dict.fromkeys(self._sizes, -1)  # bucket -> iteration of its last sum

    def __repr__(self) -> str:
        return f"<summands of {len(self._open)} sums>"

    def size(self, key: Key, sender: str) -> int:
        """Numbers of a sum that is not complete. MessageError if there is none such."""
        step, bucket = key
        if bucket not in self._sizes or step <= self._done[bucket]:
            raise MessageError("unexpected", f"bucket {bucket} of step {step} from {sender}: none, or summed before")
        return self._sizes[bucket]

    def arrived(self, key: Key, sender: str, arrays: Arrays, size: int | None = None) -> None:
        """What a peer gives for a sum is here: arrays of the bucket's size, or of `size` numbers.

        MessageError: no such bucket, another shape, or the sum has it already.
        """
        whole = self.size(key, sender)
        for array in arrays:
            check_array(array, whole if size is None else size, self._dtype, sender)
        place = self._place(key, sender)
        if place.done():
            raise MessageError("unexpected", f"{sender} sent the same part of a sum twice")
        place.set_result(arrays)

    async def of(self, key: Key, sender: str) -> Arrays:
        """What that peer gives, once it has come."""
        return await self._place(key, sender)

    def close(self, key: Key) -> None:
        """The sum is complete: nothing more may come for it."""
        self._open.pop(key, None)
        step, bucket = key
        self._done[bucket] = step

    def _place(self, key: Key, sender: str) -> asyncio.Future[Arrays]:
        places = self._open.setdefault(key, {})
        if sender not in places:
            places[sender] = asyncio.get_running_loop().create_future()
        return places[sender]


def check_array(values: Array, size: int, dtype: DTypeLike, sender: str) -> None:
    """MessageError unless it is of this dtype and of shape (size,)."""
    expected = np.dtype(dtype)
    if values.shape != (size,) or values.dtype != expected:
        raise MessageError("bad_shape", f"{sender} sent {values.dtype}{values.shape}, expected {expected}({size},)")
