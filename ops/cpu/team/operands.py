"""How kernels see arrays of any shape: their addresses, and their layout as rows of neighbouring
elements.

Arrays that lie alike are one long row, whatever their axes are called. Channel slices are a row per
pixel.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ops.cpu.team.workspace import LINE
from ops.errors import BFLOAT16, Array, Shape

F32 = np.dtype(np.float32)
LOADED = (F32, BFLOAT16)  # the types of arrays that kernels load and store as float32
# bytes of a result from which on bypassing the caches pays (measured), even if the next operation
# reads it at once
LARGE = 1 << 22

_seen: dict[int, tuple[weakref.ref[Array], int, int]] = {}
_kinds: dict[Any, int] = {}  # shape, strides, dtype, address modulo ALIGNED
ALIGNED = 8


def seen(x: Array) -> tuple[Any, int, int]:
    """Return (a reference to x, its address, the number of its shape, strides, dtype and
    alignment).

    Reading these from x itself takes over 2 us, this function 0.2 us for an array seen before. No
    array may be moved or given another shape.
    """
    key = id(x)
    entry = _seen.get(key)
    if entry is not None and entry[0]() is x:
        return entry
    at = x.ctypes.data
    kind = _kinds.setdefault((x.shape, x.strides, x.dtype, at % ALIGNED), len(_kinds))
    entry = _seen[key] = weakref.ref(x, lambda _: _seen.pop(key, None)), at, kind
    return entry


def address(x: Array) -> int:
    """The address of x."""
    return seen(x)[1]


def goes_past(size: int, outputs: Sequence[int], strides: Iterable[int]) -> bool:
    """Whether a result of `size` bytes should bypass the caches: it is large, and its rows are
    aligned.

    Not for a result computed in place: its lines are in the cache already, and writing past them
    costs double.
    """
    return (
        size >= LARGE
        and not any(at % LINE for at in outputs)
        and not any(step % LINE for step in strides)
    )


def kind_of(x: Array | None, *, written: bool = False) -> int:
    """The number of x's shape, strides, dtype and alignment. Operations decide once for each of
    them what to do. -1 for None, and -2 for an array that is to be `written` and is read-only."""
    if x is None:
        return -1
    return -2 if written and not x.flags.writeable else seen(x)[2]


class Rows(NamedTuple):
    """`number` rows of `length` neighbours; `strides`: bytes from row to row, one for each
    array."""

    number: int
    length: int
    strides: tuple[int, ...]


def halves(arrays: Mapping[str, Array]) -> list[str]:
    """The names of the arrays that hold bfloat16 numbers."""
    return [name for name, array in arrays.items() if array.dtype == BFLOAT16]


def rows_of(arrays: Sequence[Array], kept: int | None = None) -> Rows | None:
    """Arrays of one shape as common rows, see `as_rows`. None if they have another type, several
    shapes or no elements."""
    shape = arrays[0].shape
    if 0 in shape or any(array.shape != shape or array.dtype not in LOADED for array in arrays):
        return None
    sizes = [array.itemsize for array in arrays]
    return as_rows(shape, sizes, [array.strides for array in arrays], kept)


def as_rows(
    shape: Shape, itemsizes: Sequence[int], strides: Sequence[Shape], kept: int | None = None
) -> Rows | None:
    """Arrays of one shape as common rows; None if they have no common rows.

    `kept`: the axis that becomes a row; all others are the rows. Without it a row is as long as
    possible.
    """
    axes = [
        (size, tuple(s[axis] for s in strides))
        for axis, size in enumerate(shape)
        if size != 1 and axis != kept
    ]
    if any(
        step % size or step < 0
        for _, steps in axes
        for step, size in zip(steps, itemsizes, strict=True)
    ):
        return None
    axes.sort(key=lambda axis: axis[1], reverse=True)
    merged: list[tuple[int, tuple[int, ...]]] = []
    for size, steps in axes:
        if merged and merged[-1][1] == tuple(step * size for step in steps):
            merged[-1] = (merged[-1][0] * size, steps)
        else:
            merged.append((size, steps))
    if kept is not None:
        merged.append((shape[kept], tuple(s[kept] for s in strides)))
    if not merged or (
        merged[-1][1] != tuple(itemsizes) and not (kept is not None and shape[kept] == 1)
    ):
        if merged:
            return None
        return Rows(1, 1, (0,) * len(strides))
    *outer, (length, _) = merged
    if len(outer) > 1:
        return None
    count, steps = outer[0] if outer else (1, (0,) * len(strides))
    return Rows(count, length, steps)
