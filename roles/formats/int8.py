"""One byte for each number, and one step for each block."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

from ops import Array, Shape
from ops.reference.compression import F32
from ops.reference.scaled_codes import code_shapes
from roles.formats.format import Format


class Int8(Format):
    """each number is rounded to a multiple of its block's step, the largest of 256 numbers / 127;
    the rest is kept and added to the next gradient"""

    name = "int8"
    arrays = 2
    keeps = True
    bytes_said = "n + n / 64"
    bits: ClassVar[int] = 8

    def encode(self, blob: Array, error: Array) -> Sequence[Array]:
        return self.ops.scaled_encode(blob, error, self.bits)

    def decode(self, parts: Sequence[Array], shape: Shape) -> Array:
        return self.ops.scaled_decode(parts[0], parts[1], self.bits, shape)

    def size(self, numbers: int) -> int:
        codes, steps = code_shapes(numbers, self.bits)
        return math.prod(codes) + F32.itemsize * math.prod(steps)
