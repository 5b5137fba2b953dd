"""Integer codes of float32 arrays: each block of neighbouring numbers shares one step, and each
number becomes a whole multiple of it.

8 bits: codes -127 to 127, blocks of 256. 4 bits: codes -7 to 7, blocks of 128, two numbers in a
byte. The step is the largest absolute value of the block divided by the largest code. The error
that earlier calls left is added first, and the new error takes its place: decoded + new error =
x + old error, except for one rounding of float32. A block with NaN or an infinity decodes to NaN.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ops.errors import Array, OpsError, Shape, check_shape
from ops.reference.compression import quietly

BLOCKS = {8: 256, 4: 128}  # bits of a code -> numbers that share a step
OFFSET = 8  # of a code of 4 bits, so that it is not negative in its byte


def code_shapes(size: int, bits: int) -> tuple[Shape, Shape]:
    """The shapes of the codes, in bytes, and of the steps for `size` numbers."""
    if bits not in BLOCKS:
        raise OpsError(f"scaled_encode: bits is {bits!r}, expected 8 or 4")
    return (-(-size * bits // 8),), (-(-size // BLOCKS[bits]),)


def check_codes(op: str, codes: Array, steps: Array, bits: int, size: int) -> None:
    """Check arrays that scaled_encode returned for `size` numbers."""
    shapes = code_shapes(size, bits)
    dtypes = (np.dtype(np.uint8), np.dtype(np.float32))
    for name, array, shape, dtype in zip(
        ("codes", "steps"), (codes, steps), shapes, dtypes, strict=True
    ):
        if array.dtype != dtype or not array.flags.c_contiguous:
            raise OpsError(f"{op}: {name} is {array.dtype}, expected {dtype} in C order")
        check_shape(op, name, array, shape)


@quietly
def scaled_encode(
    xp: Any, x: Array, error: Array, bits: int, codes: Array, steps: Array
) -> tuple[Array, Array]:
    """Write a code of so many bits for each number, and the step of each block."""
    width = BLOCKS[bits]
    most = 2 ** (bits - 1) - 1
    error += x
    values = xp.zeros((len(steps), width), np.float32)
    values.reshape(-1)[: x.size] = error.reshape(-1)
    largest = xp.abs(values).max(1) if len(steps) else steps
    finite = xp.isfinite(largest)
    steps[...] = xp.where(finite, largest / np.float32(most), np.float32(np.nan))
    divisor = xp.where(steps > 0, steps, np.float32(1))[:, None]
    whole = xp.where(finite[:, None], xp.rint(values / divisor), np.float32(0))
    whole = xp.clip(whole, -most, most)
    values -= whole * steps[:, None]
    error.reshape(-1)[...] = values.reshape(-1)[: x.size]
    flat = whole.reshape(-1).astype(np.int8)
    if bits == 4:
        pairs = (flat + np.int8(OFFSET)).view(np.uint8).reshape(-1, 2)
        codes[...] = (pairs[:, 0] | (pairs[:, 1] << np.uint8(4)))[: codes.size]
    else:
        codes[...] = flat.view(np.uint8)[: codes.size]
    return codes, steps


@quietly
def scaled_decode(xp: Any, codes: Array, steps: Array, bits: int, out: Array) -> Array:
    """Set each number to its code times the step of its block."""
    width = BLOCKS[bits]
    whole = xp.zeros(len(steps) * width, np.int8)
    if bits == 4:
        pairs = whole.reshape(-1, 2)[: codes.size]
        pairs[:, 0] = (codes & np.uint8(15)).view(np.int8) - np.int8(OFFSET)
        pairs[:, 1] = (codes >> np.uint8(4)).view(np.int8) - np.int8(OFFSET)
    else:
        whole[: codes.size] = codes.view(np.int8)
    values = whole.reshape(len(steps), width) * steps[:, None]
    out.reshape(-1)[...] = values.reshape(-1)[: out.size]
    return out
