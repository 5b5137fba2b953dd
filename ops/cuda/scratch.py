"""Scratch memory of one backend: a block for each purpose, that grows to the largest request and
stays."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ops.cuda.repeats import Repeats
from ops.errors import Array, Shape


class Scratch:
    """Arrays lent to one operation. The next request for the same purpose gets the same memory."""

    def __init__(self, xp: Any, repeats: Repeats | None = None) -> None:
        self._xp = xp
        self._repeats = repeats
        self._blocks: dict[str, Array] = {}

    def __repr__(self) -> str:
        blocks = (f"{name} {block.size / 1e6:.1f} MB" for name, block in self._blocks.items())
        return f"<scratch {', '.join(blocks)}>"

    def take(self, purpose: str, shape: Shape, dtype: Any) -> Array:
        """An array of that shape, contents undefined."""
        size = math.prod(shape) * np.dtype(dtype).itemsize
        found: Array = self._block(purpose, size, self._xp.empty).view(dtype).reshape(shape)
        return found

    def tickets(self, count: int) -> Array:
        """That many int32 that are 0. The kernel that counts with them leaves them 0."""
        found: Array = self._block("tickets", 4 * count, self._xp.zeros).view(np.int32)
        return found

    def _block(self, purpose: str, size: int, make: Callable[..., Array]) -> Array:
        block = self._blocks.get(purpose)
        if block is None or block.size < size:
            self._blocks.pop(purpose, None)  # frees the old block first
            block = self._blocks[purpose] = make((size,), np.uint8)
            if self._repeats is not None:
                self._repeats.forget()
        found: Array = block[:size]
        return found
