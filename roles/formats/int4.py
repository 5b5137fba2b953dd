"""Half a byte for each number, and one step for each block."""

from __future__ import annotations

from roles.formats.int8 import Int8


class Int4(Int8):
    """each number is rounded to a multiple of its block's step, the largest of 128 numbers / 7; the
    rest is kept and added to the next gradient"""

    name = "int4"
    bytes_said = "n / 2 + n / 32"
    bits = 4
