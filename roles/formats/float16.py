"""Two bytes a number, with more digits and a small range."""

from __future__ import annotations

from collections.abc import Sequence

from ops import Array, Shape
from ops.reference.compression import HALVES
from roles.formats.float32 import check_array
from roles.formats.format import Format


class Float16(Format):
    """relative error up to 2^-11 from 6.1e-5 to 65504; smaller numbers are wrong by up to
    2^-25, larger ones become infinite"""

    name = "float16"
    bytes_said = "2 n"

    def encode(self, blob: Array, error: Array) -> Sequence[Array]:
        return (self.ops.half_encode(blob, self.name),)

    def decode(self, parts: Sequence[Array], shape: Shape) -> Array:
        check_array(parts[0], shape, HALVES[self.name])
        return self.ops.half_decode(parts[0])

    def size(self, numbers: int) -> int:
        return numbers * HALVES[self.name].itemsize
