"""Numbers that kernels load and store as bfloat16, compared with integers and with ml_dtypes."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

from ops import Array
from ops.cpu.codegen.code import Code, generated
from ops.cpu.codegen.kernel import CALL, arguments, floats, halves, kernel, layout
from ops.cpu.codegen.stored import AS_BFLOAT16, AS_FLOAT32, BFLOAT16, narrow, widen

BLOCK = layout("x y count")


@generated(BLOCK)
def stored_narrow(c: Code) -> None:
    """y = x, rounded to bfloat16."""
    for at, masks in c.columns(c.count, 2):
        for k, mask in enumerate(masks):
            place = at + k * c.lanes * 4
            value = AS_FLOAT32.load(c.v, (c.x + place).value, mask)
            AS_BFLOAT16.store(c.v, value, (c.y + place // 2).value, mask)


@generated(BLOCK)
def stored_wide(c: Code) -> None:
    """y = x, whose numbers are bfloat16."""
    for at, masks in c.columns(c.count, 2):
        for k, mask in enumerate(masks):
            place = at + k * c.lanes * 4
            value = AS_BFLOAT16.load(c.v, (c.x + place // 2).value, mask)
            AS_FLOAT32.store(c.v, value, (c.y + place).value, mask)


@kernel(BLOCK)
def loops_narrow(number: int, size: int, at: int) -> None:
    a = arguments(at)
    x = floats(a.x, a.count)
    y = halves(a.y, a.count)
    for i in range(a.count):
        y[i] = narrow(x[i])


@kernel(BLOCK)
def loops_wide(number: int, size: int, at: int) -> None:
    a = arguments(at)
    x = halves(a.x, a.count)
    y = floats(a.y, a.count)
    for i in range(a.count):
        y[i] = widen(x[i])


def run(kernel: Any, x: Array, y: Array) -> Array:
    block = kernel.block(x=x.ctypes.data, y=y.ctypes.data, count=x.size)
    CALL(kernel.address)(0, 1, ctypes.addressof(block))
    return y


def numbers() -> Array:
    """Every high half of a float32 number, with low halves at and around the halves of a step."""
    high = np.arange(1 << 16, dtype=np.uint32)[:, None] << 16
    low = np.array([0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF], np.uint32)
    return (high + low).ravel()[:-3].view(np.float32)  # not a whole number of vectors


@pytest.mark.parametrize("kernel", [stored_narrow, loops_narrow], ids=str)
def test_numbers_are_rounded_to_the_nearest_bfloat16_and_denormal_ones_to_0(kernel) -> None:
    x = numbers()
    found = run(kernel, x, np.full(x.size + 9, 7, np.uint16))
    assert (found[x.size :] == 7).all()
    found = found[: x.size]
    nan = np.isnan(x)
    assert np.isnan(found[nan].view(BFLOAT16).astype(np.float32)).all()
    expected = np.where(nan, 0, x).astype(BFLOAT16).view(np.uint16)
    denormal = np.abs(x) < np.finfo(np.float32).tiny
    expected[denormal] &= 0x8000
    np.testing.assert_array_equal(found[~nan], expected[~nan])


def test_vectors_and_loops_round_to_the_same_bits() -> None:
    x = numbers()
    vectors, scalars = (
        run(kernel, x, np.empty(x.size, np.uint16)) for kernel in (stored_narrow, loops_narrow)
    )
    np.testing.assert_array_equal(vectors, scalars)


@pytest.mark.parametrize("kernel", [stored_wide, loops_wide], ids=str)
def test_bfloat16_numbers_are_widened_exactly(kernel) -> None:
    x = np.arange((1 << 16) - 3, dtype=np.uint16)
    found = run(kernel, x, np.full(x.size + 9, 7, np.float32))
    assert (found[x.size :] == 7).all()
    np.testing.assert_array_equal(found[: x.size].view(np.uint32), x.astype(np.uint32) << 16)
