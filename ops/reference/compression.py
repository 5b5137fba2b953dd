"""Smaller forms of float32 arrays: two bytes or one bit per number, or only the numbers that are
large.

float16, bfloat16: rounded to the nearest, ties to even; NaN stays NaN. One bit (Seide et al. 2014)
and threshold (Strom 2015) take the error that earlier calls left and add it to x. They leave their
own error in its place: decoded + new error = x + old error, except for one rounding of float32.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ops.errors import Array, OpsError, Shape, check_choice, check_out, check_shape

# bfloat16 is the upper half of a float32
HALVES = {"float16": np.dtype(np.float16), "bfloat16": np.dtype(np.uint16)}
ROW = 32  # numbers: the signs of a block are whole words of memory
MOST = 1 << 31  # the most numbers whose index fits into 31 bits
F32 = np.dtype(np.float32)
LEAST = float(np.finfo(F32).smallest_normal)
LARGEST = float(np.finfo(F32).max)

Empty = Callable[[Shape, Any], Array]
# infinities and NaN are values here, not mistakes
quietly = np.errstate(over="ignore", invalid="ignore")


def check_whole(op: str, **arrays: Array) -> None:
    """Check that all arrays are float32 in C order."""
    for name, array in arrays.items():
        if getattr(array, "dtype", None) != F32:
            raise OpsError(
                f"{op}: {name} is {getattr(array, 'dtype', type(array).__name__)}, expected float32"
            )
        if not array.flags.c_contiguous:
            raise OpsError(f"{op}: {name} has strides {array.strides}, expected C order")


def check_halves(op: str, bits: Array) -> None:
    """Check an array that half_encode returned."""
    if getattr(bits, "dtype", None) not in HALVES.values():
        found = getattr(bits, "dtype", type(bits).__name__)
        raise OpsError(f"{op}: bits is {found}, expected float16, or uint16 for bfloat16")
    if not bits.flags.c_contiguous:
        raise OpsError(f"{op}: bits has strides {bits.strides}, expected C order")


@quietly
def half_encode(xp: Any, x: Array, kind: str, out: Array) -> Array:
    """float32 -> float16, or bfloat16 as uint16. Numbers beyond float16's range (65504) become
    infinities."""
    if kind == "float16":
        out[...] = x
        return out
    bits = x.view(np.uint32)
    upper = bits >> np.uint32(16)
    rounded = (bits + (np.uint32(0x7FFF) + (upper & np.uint32(1)))) >> np.uint32(16)
    out[...] = xp.where(xp.isnan(x), upper | np.uint32(0x40), rounded)
    return out


@quietly
def half_decode(xp: Any, bits: Array, out: Array) -> Array:
    """float16, or bfloat16 as uint16 -> float32, exactly."""
    if bits.dtype == np.float16:
        out[...] = bits
    else:
        out.view(np.uint32)[...] = bits.astype(np.uint32) << np.uint32(16)
    return out


def one_bit_shapes(size: int, block: int) -> tuple[Shape, Shape]:
    """Return the shapes of signs and means for `size` numbers. If there is only one block, it is as
    short as possible."""
    if type(block) is not int or block < ROW or block % ROW:
        raise OpsError(f"one_bit_encode: block is {block!r}, expected a multiple of {ROW}")
    width = min(block, max(ROW, -(-size // ROW) * ROW))
    blocks = -(-size // width)
    return (blocks, width // 8), (blocks, 2)


def check_one_bit(op: str, signs: Array, means: Array, size: int) -> None:
    """Check arrays that one_bit_encode returned for `size` numbers."""
    for name, array, dtype in (("signs", signs, np.uint8), ("means", means, np.float32)):
        if array.dtype != dtype or array.ndim != 2 or not array.flags.c_contiguous:
            expected = f"expected {np.dtype(dtype)} with 2 axes in C order"
            raise OpsError(f"{op}: {name} is {array.dtype} of shape {array.shape}, {expected}")
    blocks, octets = signs.shape
    if octets < ROW // 8 or octets % (ROW // 8) or blocks != -(-size // (octets * 8)):
        raise OpsError(f"{op}: signs has shape {signs.shape}, which does not hold {size} numbers")
    check_shape(op, "means", means, (blocks, 2))


@quietly
def one_bit_encode(
    xp: Any, x: Array, error: Array, signs: Array, means: Array
) -> tuple[Array, Array]:
    """Write a bit for each number, 0 if it is below zero, and two means for each block: of its
    upper numbers (bit 1), then of its lower ones.

    Bits count from the lowest of a byte on; bits behind the last number are 0. NaN counts as an
    upper number: when the block is decoded, all its upper numbers are NaN.
    """
    blocks = signs.shape[0]
    width = signs.shape[1] * 8
    error += x
    values = xp.zeros(blocks * width, np.float32)
    values[: x.size] = error.reshape(-1)
    values = values.reshape(blocks, width)
    below = values < 0
    upper = (xp.arange(blocks * width).reshape(blocks, width) < x.size) & ~below
    for column, kind in enumerate((upper, below)):
        total = xp.where(kind, values, np.float32(0)).astype(np.float64).sum(1)
        means[:, column] = total / xp.maximum(kind.sum(1), 1)
    signs[...] = xp.packbits(upper.reshape(-1), bitorder="little").reshape(signs.shape)
    values -= xp.where(below, means[:, 1:], means[:, :1])
    error.reshape(-1)[...] = values.reshape(-1)[: x.size]
    return signs, means


@quietly
def one_bit_decode(xp: Any, signs: Array, means: Array, out: Array) -> Array:
    """Set each number to the mean of its kind in its block."""
    upper = xp.unpackbits(signs.reshape(-1), bitorder="little").reshape(
        signs.shape[0], signs.shape[1] * 8
    )
    values = xp.where(upper, means[:, :1], means[:, 1:])
    out.reshape(-1)[...] = values.reshape(-1)[: out.size]
    return out


def check_tau(op: str, tau: float, size: int) -> None:
    """Check that float32 can hold the threshold, and that an index can count the numbers."""
    if not LEAST <= tau <= LARGEST:
        raise OpsError(f"{op}: tau is {tau!r}, expected a number above 0 that float32 can hold")
    if size > MOST:
        raise OpsError(f"{op}: x has {size} numbers, expected at most {MOST}")


@quietly
def threshold_encode(
    xp: Any, x: Array, error: Array, tau: float, empty: Empty
) -> tuple[Array, Array]:
    """Return the numbers beyond +-tau, as 2 * index + (1 below zero) in uint32, ascending; and the
    step that each stands for, [tau].

    If one of these numbers is not finite, the step is [NaN].
    """
    error += x
    values = error.reshape(-1)
    step = np.float32(tau)
    (places,) = xp.nonzero(~(xp.abs(values) <= step))
    sent = values[places]
    below = sent < 0
    codes = empty((len(places),), np.uint32)
    steps = empty((1,), np.float32)
    codes[...] = places * 2 + below
    steps[...] = tau if bool(xp.isfinite(sent).all()) else math.nan
    values[places] = sent - xp.where(below, -step, step)
    return codes, steps


def check_threshold(op: str, codes: Array, steps: Array) -> None:
    """Check arrays that threshold_encode returned."""
    if codes.dtype != np.uint32 or codes.ndim != 1 or not codes.flags.c_contiguous:
        raise OpsError(
            f"{op}: codes is {codes.dtype} of shape {codes.shape}, expected "
            "uint32 with 1 axis in C order"
        )
    check_whole(op, steps=steps)
    check_shape(op, "steps", steps, (1,))


def threshold_decode(xp: Any, codes: Array, steps: Array, out: Array) -> Array:
    """Write +-tau at the places of the codes, 0 elsewhere."""
    places = codes >> np.uint32(1)
    check_places("threshold_decode", int(places.max()) if codes.size else -1, out.size)
    out[...] = 0
    out.reshape(-1)[places] = xp.where(codes & np.uint32(1), -steps, steps)
    return out


def check_places(op: str, largest: int, size: int) -> None:
    """Check that the largest index counts one of `size` numbers."""
    if largest >= size:
        raise OpsError(f"{op}: codes has index {largest}, expected less than {size}")


def destination(op: str, out: Array | None, shape: Shape, dtype: Any, empty: Empty) -> Array:
    """Return `out`, which must fit, or a new array in C order."""
    if out is None:
        return empty((math.prod(shape),), dtype).reshape(shape)
    check_out(op, "out", out, shape, dtype)
    if not out.flags.c_contiguous:
        raise OpsError(f"{op}: out has strides {out.strides}, expected C order")
    return out


def check_half(op: str, kind: str) -> None:
    """Check that `kind` is a format of two bytes."""
    check_choice(f"{op}: kind", kind, HALVES)


def check_error(op: str, x: Array, error: Array) -> None:
    """Check the error that earlier calls left: it has x's shape and is writeable."""
    check_whole(op, x=x, error=error)
    check_out(op, "error", error, x.shape, np.float32)
