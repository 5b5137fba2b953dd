"""Two bytes a number, with the range of float32: its upper half."""

from __future__ import annotations

from roles.formats.float16 import Float16


class BFloat16(Float16):
    """relative error up to 2^-8, for every number float32 has"""

    name = "bfloat16"
