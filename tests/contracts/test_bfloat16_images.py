"""The part of the contract for images that are stored in bfloat16, on the CuPy backend: operations
equal the plain loops on the same numbers, but for one rounding of each stored number and of each
factor of a product. Parameters, statistics and their gradients are float32."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ops import BFLOAT16, Array, Backend
from tests.contracts.test_backends import WITH_GRADIENT, make, without
from tests.ops.cases.case import Arrays, Case, Outs

IMAGES = ("x", "p", "q", "y")  # names of a case's images
FAMILIES = (
    "convolution", "depthwise", "pooling 7x8", "pooling 6x5", "LRN", "relu", "clip", "swish",
    "gelu", "hard", "dropout", "dropped rows", "add", "eltwise SUM", "batch norm", "norm, scale",
    "rectified sums", "copy", "scale (3,) from axis 1",
)  # fmt: skip
PRODUCTS = ("convolution",)
TOLERANCE = 2e-2  # of products whose factors are rounded, relative to the largest value
ROUNDING = 2.0**-8
BACKENDS = [name for name in ("kernels", "cupy") if without(name) is None]


def takes_images(case: Case) -> bool:
    images = case.name.startswith(FAMILIES)
    return images and case.arrays(np.random.default_rng(7))["x"].ndim == 4


CASES = [case for case in WITH_GRADIENT if takes_images(case)]
on_backends = pytest.mark.parametrize("name", BACKENDS)
cases = pytest.mark.parametrize("case", CASES, ids=str)


def is_image(name: str, array: Array) -> bool:
    return name in IMAGES and array.ndim == 4


def numbers(case: Case) -> Arrays:
    """A case's arrays in float64: images that bfloat16 holds exactly, parameters that float32
    holds."""
    drawn = case.arrays(np.random.default_rng(7))
    return {
        name: a.astype(BFLOAT16 if is_image(name, a) else np.float32).astype(np.float64)
        if a.dtype == np.float64
        else a
        for name, a in drawn.items()
    }


def images(ops: Backend, host: Array, dtype: Any, lie: str) -> Array:
    """The numbers on the device, laid out by pixels, or as NumPy does."""
    given = ops.asarray(host.astype(dtype))
    if lie == "by pixels":
        into = ops.empty(host.shape, dtype)
        into[...] = given
        return into
    return given


def placed(ops: Backend, host: Arrays, lie: str, wide: str = "") -> Arrays:
    """The arrays on the device: images in bfloat16, `wide` and parameters in float32."""
    return {
        name: images(ops, a, np.float32 if name == wide else BFLOAT16, lie)
        if is_image(name, a)
        else ops.asarray(a.astype(np.float32) if a.dtype == np.float64 else a)
        for name, a in host.items()
    }


def close(ops: Backend, case: Case, found: tuple[Any, ...], expected: tuple[Any, ...]) -> None:
    bound = TOLERANCE if case.name.startswith(PRODUCTS) else ROUNDING
    for mine, right in zip(found, expected, strict=True):
        mine = ops.to_host(mine) if hasattr(mine, "dtype") else np.asarray(mine)
        off = np.abs(mine.astype(np.float64) - np.asarray(right, np.float64))
        assert off.max(initial=0) <= bound * max(1.0, float(np.abs(right).max(initial=0)))


@on_backends
@cases
def test_a_forward_pass_equals_plain_loops_on_the_stored_numbers(case: Case, name: str) -> None:
    ops = make(name)
    host = numbers(case)
    expected = case.reference(host)
    for lie in ("by pixels", "by channels"):
        arrays = placed(ops, host, lie)
        before = {name: ops.to_host(a).copy() for name, a in arrays.items()}
        found = case.forward(ops, arrays, Outs())
        close(ops, case, found, expected)
        outs = Outs(
            {
                at: filled(ops, result.shape, result.dtype)
                for at, result in enumerate(found)
                if getattr(result, "ndim", 0) == 4 and at not in case.no_out
            }
        )
        again = case.forward(ops, arrays, outs)
        close(ops, case, again, expected)
        assert all(again[at] is out for at, out in outs.items())
        for key, a in arrays.items():
            np.testing.assert_array_equal(ops.to_host(a), before[key], err_msg=f"{key} was written")


def filled(ops: Backend, shape: tuple[int, ...], dtype: Any) -> Array:
    """A destination whose numbers show what was not written."""
    into = ops.empty(shape, dtype)
    into[...] = -77
    return into


@on_backends
@cases
def test_a_backward_pass_equals_that_of_float64_on_the_stored_numbers(
    case: Case, name: str
) -> None:
    assert case.backward is not None
    ops = make(name)
    host = numbers(case)
    reference = make("numpy")
    shape = case.forward(reference, host, Outs())[0].shape
    dy = np.random.default_rng(11).standard_normal(shape).astype(BFLOAT16).astype(np.float64)
    expected = case.backward(reference, host, dy, Outs())
    for lie in ("by pixels", "by channels"):
        for wide in ("", "x"):
            arrays = placed(ops, host, lie, wide)
            given = images(ops, dy, BFLOAT16, lie)
            outs = Outs(
                {
                    at: filled(ops, arrays[key].shape, BFLOAT16)
                    for at, key in enumerate(case.wrt)
                    if is_image(key, arrays[key]) and at not in case.no_out_back
                }
            )
            found = case.backward(ops, arrays, given, outs)
            close(ops, case, found, expected)
            assert all(found[at] is out for at, out in outs.items())
            assert all(
                gradient.dtype == np.float32
                for key, gradient in zip(case.wrt, found, strict=True)
                if not is_image(key, arrays[key])
            )
