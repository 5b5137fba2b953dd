"""SGD and gradient addition: Caffe's formula, and the arrays that may be overwritten."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from ops import Array, Backend, OpsError
from tests.ops.conftest import nans, strided

STEP = {"rate": 0.1, "momentum": 0.9, "decay": 0.05}


def draw(random: np.random.Generator, dtype: object = np.float64) -> list[Array]:
    return [random.standard_normal((5, 3, 2, 2)).astype(dtype) for _ in range(3)]


def by_hand(w: Array, g: Array, h: Array) -> tuple[Array, Array]:
    new_h = [0.9 * c + 0.1 * (b + 0.05 * a) for a, b, c in zip(w.flat, g.flat, h.flat, strict=True)]
    new_w = [a - c for a, c in zip(w.flat, new_h, strict=True)]
    return np.reshape(new_w, w.shape), np.reshape(new_h, w.shape)


DESTINATIONS = list(itertools.product(["none", "fresh", "w", "g", "h"], ["none", "fresh", "h"]))
DESTINATIONS.remove(("h", "h"))


@pytest.mark.parametrize(("out_w", "out_h"), DESTINATIONS)
def test_sgd_is_caffes_whatever_the_destinations(out_w, out_h, random, backend: Backend):
    w, g, h = draw(random)
    expected = by_hand(w, g, h)
    before = {"w": w.copy(), "g": g.copy(), "h": h.copy()}
    arrays = {"w": w, "g": g, "h": h, "none": None}
    outs = [nans(w.shape) if name == "fresh" else arrays[name] for name in (out_w, out_h)]
    got = backend.sgd_update(w, g, h, **STEP, out_w=outs[0], out_h=outs[1])
    for mine, out, right in zip(got, outs, expected, strict=True):
        assert out is None or mine is out
        np.testing.assert_allclose(mine, right, rtol=1e-13)
    for name, a in before.items():
        if name not in (out_w, out_h):
            np.testing.assert_array_equal(arrays[name], a)


def test_sgd_keeps_float32_even_with_numpy_scalars_and_reads_strided_arrays(
    random, backend: Backend
):
    w, g, h = draw(random, np.float32)
    options = {name: np.float64(value) for name, value in STEP.items()}
    got = backend.sgd_update(strided(w), strided(g), strided(h), **options)
    for mine, right in zip(got, by_hand(w, g, h), strict=True):
        assert mine.dtype == np.float32
        np.testing.assert_allclose(mine, right, atol=1e-6)


def test_updates_refuse_other_shapes_and_dtypes(random, backend: Backend):
    w, g, h = draw(random)
    for call in (
        lambda: backend.sgd_update(w, g[:1], h, **STEP),
        lambda: backend.sgd_update(w, g, h[:1], **STEP),
        lambda: backend.sgd_update(w, g.astype("f"), h, **STEP),
        lambda: backend.sgd_update(w, g, h, **STEP, out_w=w[:1]),
        lambda: backend.sgd_update(w, g, h, **STEP, out_h=h.astype("f")),
        lambda: backend.add(w, g[:1]),
        lambda: backend.add(w, g, out=w.astype("f")),
        lambda: backend.add_all([w]),
        lambda: backend.add_all([w, g, h[:1]]),
        lambda: backend.add_all([w, g, h], out=g),
    ):
        with pytest.raises(OpsError, match="expected"):
            call()


def in_pairs(arrays):
    """The sum of the first 2 ** n arrays plus the sum of the rest, each computed the same way. 2 **
    n is the largest power of two below their number."""
    if len(arrays) == 1:
        return arrays[0]
    first = 2 ** ((len(arrays) - 1).bit_length() - 1)
    return in_pairs(arrays[:first]) + in_pairs(arrays[first:])


@pytest.mark.parametrize("count", [2, 3, 6, 8, 11])
@pytest.mark.parametrize("size", [1, 15, 16, 70_001])
def test_many_arrays_are_added_up_in_pairs_to_the_last_bit(
    random, backend: Backend, count: int, size: int
):
    sizes = [10.0 ** random.integers(-4, 5, size) for _ in range(count)]
    arrays = [(random.standard_normal(size) * factor).astype(np.float32) for factor in sizes]
    expected = in_pairs(arrays)
    kept = [array.copy() for array in arrays]
    out = np.full(size, np.nan, np.float32)
    assert backend.add_all(arrays, out=out) is out
    assert out.tobytes() == expected.tobytes() == backend.add_all(arrays).tobytes()
    for array, before in zip(arrays, kept, strict=True):
        np.testing.assert_array_equal(array, before)
