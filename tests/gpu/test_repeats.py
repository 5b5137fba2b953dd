"""Operations that are repeated with the same arrays: they use the arrays' present numbers, and
notice arrays and scratch memory that have moved."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fake_cuda.processes import on_fake_cuda, script

pytestmark = [pytest.mark.slow, pytest.mark.timeout(200)]

BEGIN = """
import sys
import numpy as np
from ops import ConvGeometry, PoolGeometry, get_backend
ops, right = get_backend("cupy"), get_backend("numpy")
random = np.random.default_rng(0)
def images(*shape):
    return ops.empty(shape)
def filled(*arrays):
    made = [random.standard_normal(array.shape, np.float32) for array in arrays]
    for array, host in zip(arrays, made):
        array[...] = ops.asarray(host)
    return made
def same(got, expected):
    np.testing.assert_allclose(ops.to_host(got), expected, atol=1e-4 * max(1.0, np.abs(expected).max()), rtol=0)
g, pool = ConvGeometry((3, 3), pad=(1, 1)), PoolGeometry((3, 3), stride=(2, 2), pad=(1, 1))
"""

PASSES = """
for c, k in ((8, 12), (3, 5)):
    x, y, dx, dy = images(4, c, 9, 8), images(4, k, 9, 8), images(4, c, 9, 8), images(4, k, 9, 8)
    w, b, dw, db = (ops.xp.empty(shape, "f") for shape in ((k, c, 3, 3), (k,), (k, c, 3, 3), (k,)))
    shape = right.pool_forward(np.zeros(x.shape, "f"), pool)[0].shape
    top, back, places = images(*shape), images(*shape), ops.empty(shape, np.int32)
    for turn in range(5):
        hx, hdy, hw, hb, hback = filled(x, dy, w, b, back)
        same(ops.conv_forward(x, w, b, g, out=y, rectify=True), right.conv_forward(hx, hw, hb, g, rectify=True))
        same(ops.conv_backward_data(dy, w, g, x.shape, out=dx), right.conv_backward_data(hdy, hw, g, hx.shape))
        found = ops.conv_backward_weights(x, dy, g, w.shape, bias=True, out_w=dw, out_b=db)
        assert found[0] is dw and found[1] is db
        for got, expected in zip(found, right.conv_backward_weights(hx, hdy, g, hw.shape, bias=True)):
            same(got, expected)
        found = ops.pool_forward(x, pool, out=top, argmax=places, rectify=turn % 2 == 0)
        expected = right.pool_forward(hx, pool, rectify=turn % 2 == 0)
        same(found[0], expected[0])
        same(found[1], expected[1])
        same(ops.pool_backward(back, pool, x.shape, argmax=places, out=dx),
             right.pool_backward(hback, pool, hx.shape, argmax=expected[1]))
        same(ops.add(x, dx, out=dx), hx + right.pool_backward(hback, pool, hx.shape, argmax=expected[1]))
kept = [one.calls for one in ops.repeats.known.values()]
assert len(kept) == 14 and all(kept), kept
"""


def test_a_repeated_operation_computes_from_the_present_numbers_of_its_arrays(
    stand_in: Path,
) -> None:
    done = script(BEGIN + PASSES, on_fake_cuda(stand_in))
    assert done.returncode == 0, done.stderr


ELSEWHERE = """
x, w, y = images(4, 8, 9, 8), ops.xp.empty((12, 8, 3, 3), "f"), images(4, 12, 9, 8)
def convolved(x, w, y):
    hx, hw = filled(x, w)
    same(ops.conv_forward(x, w, None, g, out=y), right.conv_forward(hx, hw, None, g))
for turn in range(3):
    convolved(x, w, y)
assert sum(bool(one.calls) for one in ops.repeats.known.values()) == 1
big = images(64, 8, 9, 8)
hx, hw = filled(big, w)
same(ops.conv_forward(big, w, None, g), right.conv_forward(hx, hw, None, g))  # the scratch memory of windows grows
assert not any(one.calls for one in ops.repeats.known.values())
junk = ops.xp.full((1 << 20,), np.nan, "f")  # in the place of the old scratch memory
for turn in range(3):
    convolved(x, w, y)
other, turned = images(4, 8, 9, 8), ops.xp.empty((3, 3, 8, 12), "f").transpose(3, 2, 0, 1)
plain = ops.xp.empty((4, 8, 9, 8), "f")  # no kernel reads this layout, so it is copied
for turn in range(4):
    convolved(other, w, y)
    convolved(x, turned, y)
    convolved(plain, w, y)
    hx, hw = filled(x, w)
    same(ops.conv_forward(x, w, None, g), right.conv_forward(hx, hw, None, g))  # a new result
"""


def test_arrays_with_another_address_or_layout_and_moved_scratch_are_noticed(
    stand_in: Path,
) -> None:
    done = script(BEGIN + ELSEWHERE, on_fake_cuda(stand_in))
    assert done.returncode == 0, done.stderr


MANY = """
from ops.cuda import repeats
repeats.MOST = 20
block = ops.xp.zeros(4096, "f")
for turn in range(2):
    for at in range(0, 2048, 16):
        part = block[at : at + 16].reshape(4, 4)
        ops.relu_forward(part, out=part)
        assert len(ops.repeats.known) <= 20
"""


def test_notes_about_arrays_that_are_used_once_do_not_grow_without_limit(
    stand_in: Path,
) -> None:
    done = script(BEGIN + MANY, on_fake_cuda(stand_in))
    assert done.returncode == 0, done.stderr
