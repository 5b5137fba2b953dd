"""Arrays that span memory of a mapping and report when their last view is gone.

Python's reference counting is the lease: nothing is copied, and no reader calls anything.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from runtime.memory.mapping import Mapping

Array = NDArray[Any]


class _Held(np.ndarray[Any, Any]):
    """The one array that spans a block. All other arrays are views of it, so it is deleted after
    the last of them."""

    on_gone: Callable[[int], None] | None = None
    offset = 0
    memory: Mapping  # keeps the mapping alive as long as an array lies in it

    def __del__(self) -> None:
        if self.on_gone is not None:
            self.on_gone(self.offset)


def held(memory: Mapping, offset: int, size: int, on_gone: Callable[[int], None]) -> Array:
    """Return a plain uint8 array of `size` bytes at `offset`.

    Its base calls `on_gone(offset)` when the last view of it is gone.
    """
    whole = _Held((size,), np.uint8, memory.memory, offset)
    whole.on_gone = on_gone
    whole.offset = offset
    whole.memory = memory
    return whole.view(np.ndarray)


def writable(array: Array) -> Array | None:
    """Return a writable array of the same shared bytes, or None if `array` is not in shared memory.

    It is for a process that the owner of the bytes asked to write. Keep `array` as long as the
    result is used.
    """
    base: Any = array
    while base is not None and not isinstance(base, _Held):
        base = getattr(base, "base", None)
    if base is None:
        return None
    here = base.memory
    there = base.memory.to_write()
    offset = int(array.__array_interface__["data"][0]) - here.address
    return np.ndarray(array.shape, array.dtype, there.memory, offset, array.strides)
