"""One bit for each number, and two means for each block."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

from ops import Array, Shape
from ops.reference.compression import F32, one_bit_shapes
from roles.formats.format import Format, Option


class OneBit(Format):
    """a sign for each number and two means for each block (Seide et al. 2014); the rest is kept and
    added to the next gradient"""

    name = "one-bit"
    arrays = 2
    keeps = True
    options: ClassVar = {
        "block": Option(
            256,
            32,
            2**20,
            "a multiple of 32 from 32 to 1048576",
            "the number of neighbouring numbers that share two means; a multiple of 32",
            multiple_of=32,
        )
    }
    bytes_said = "n / 8 + n / 32 with blocks of 256"

    def encode(self, blob: Array, error: Array) -> Sequence[Array]:
        return self.ops.one_bit_encode(blob, error, self._block)

    def decode(self, parts: Sequence[Array], shape: Shape) -> Array:
        return self.ops.one_bit_decode(parts[0], parts[1], shape)

    def size(self, numbers: int) -> int:
        signs, means = one_bit_shapes(numbers, self._block)
        return math.prod(signs) + F32.itemsize * math.prod(means)

    @property
    def _block(self) -> int:
        return int(self.chosen["block"])
