"""Dropout, of elements or of rows, by numbers that follow from (key, row, place in the row): none
is stored, and any part can be drawn alone.

Philox4x32-10 (Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", 2011):
ten rounds turn a counter and a key into four numbers of 32 bits. The counter here is (place // 4,
row, 0, 0), and place % 4 selects one of the four. Places of images are counted as channels of a
pixel, then pixels. Every backend draws the same bits.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ops.errors import Array, OpsError, check_alike

MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
WEYL = (0x9E3779B9, 0xBB67AE85)
ROUNDS = 10
HALF = np.uint64(32)
LOW = np.uint64(0xFFFFFFFF)


def check(ratio: float, key: int, first: int) -> None:
    """Check that ratio, key and first row are in range."""
    if not 0 <= ratio < 1:
        raise OpsError(f"dropout: ratio is {ratio}, expected at least 0 and less than 1")
    for name, number, bits in (("key", key, 64), ("first", first, 32)):
        if not 0 <= number < 1 << bits:
            raise OpsError(
                f"dropout: {name} is {number}, expected an integer from 0 to 2^{bits} - 1"
            )


def least_kept(ratio: float) -> int:
    """The least number of 32 bits that is kept."""
    return min(round(float(ratio) * 2**32), 2**32 - 1)


def signed(number: int) -> int:
    """The low 32 bits as a signed 32-bit integer."""
    low = number & 0xFFFFFFFF
    return low - (1 << 32) if low >> 31 else low


def numbers(key: int, first: int) -> NDArray[np.int32]:
    """The first row, and the low and the high half of the key, as `dropout_by` takes them."""
    return np.array([signed(first), signed(key), signed(key >> 32)], np.int32)


def words(counter: Array, rows: Array, key: int) -> list[Array]:
    """The four numbers of (counter, row, 0, 0) for each pair, as uint64 arrays below 2^32."""
    x: list[Array] = [
        counter.astype(np.uint64),
        rows.astype(np.uint64),
        np.zeros((), np.uint64),
        np.zeros((), np.uint64),
    ]
    keys = [key & 0xFFFFFFFF, key >> 32]
    for _ in range(ROUNDS):
        a = x[0] * np.uint64(MULTIPLIERS[0])
        b = x[2] * np.uint64(MULTIPLIERS[1])
        x = [
            (b >> HALF) ^ x[1] ^ np.uint64(keys[0]),
            b & LOW,
            (a >> HALF) ^ x[3] ^ np.uint64(keys[1]),
            a & LOW,
        ]
        keys = [(part + weyl) & 0xFFFFFFFF for part, weyl in zip(keys, WEYL, strict=True)]
    return x


def kept(shape: tuple[int, ...], ratio: float, key: int, first: int) -> Array:
    """Which numbers of an array of that shape, whose row 0 is row `first`, are kept: bool, in C
    order of `shape`."""
    n = shape[0]
    size = int(np.prod(shape[1:], dtype=np.int64))
    counters = np.arange(-(-size // 4), dtype=np.uint64)[None]
    drawn = np.stack(
        np.broadcast_arrays(*words(counters, np.arange(first, first + n)[:, None], key)), axis=-1
    )
    flat: Array = drawn.reshape(n, -1)[:, :size] >= np.uint64(least_kept(ratio))
    if len(shape) != 4:
        return flat.reshape(shape)
    _, c, h, w = shape
    return flat.reshape(n, h, w, c).transpose(0, 3, 1, 2)


def dropout(xp: Any, x: Array, ratio: float, key: int, first: int, out: Array | None) -> Array:
    """x / (1 - ratio) where an element is kept, else 0. Forward and backward are the same. out may
    be x."""
    _check_call("dropout", x, ratio, key, first, out)
    y: Array = xp.multiply(x, xp.asarray(kept(x.shape, ratio, key, first)), out=out)
    y *= 1 / (1 - float(ratio))
    return y


def drop_rows(xp: Any, x: Array, ratio: float, key: int, first: int, out: Array | None) -> Array:
    """x / (1 - ratio) in the rows that are kept, else 0. A row's number is the one that `dropout`
    draws for place 0. Forward and backward are the same. out may be x."""
    _check_call("drop_rows", x, ratio, key, first, out)
    gain = x.dtype.type(1 / (1 - float(ratio)))
    factors = kept((len(x), 1), ratio, key, first).astype(x.dtype) * gain
    column = xp.asarray(factors.reshape(-1, *(1,) * (x.ndim - 1)))
    y: Array = xp.multiply(x, column, out=out)
    return y


def _check_call(op: str, x: Array, ratio: float, key: int, first: int, out: Array | None) -> None:
    check_alike(op, out, x=x)
    check(ratio, key, first)
    if x.ndim == 0:
        raise OpsError(f"{op}: x has shape (), expected (N, ...)")
