"""One contract for every array backend: each operation equals plain loops, and each gradient equals
finite differences.

The table of cases is in tests/ops/cases. Every case runs in float64 and float32, from contiguous,
strided and channel-major inputs, into destinations full of NaN.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

from ops import Array, Backend, OpsError, get_backend
from ops.backends.cupy_backend import CupyBackend
from ops.gradcheck import check_gradient
from tests.ops.cases import CASES
from tests.ops.cases.case import Arrays, Case, Outs
from tests.ops.conftest import LAYOUTS, nans
from tests.ops.host_cupy import HostCupy

SLOW = ("cpu threads=1", "numpy b_p=1")  # other tests train whole nets on these
DTYPES = (np.float64, np.float32)
LOWERED = [case for case in CASES if "convolution" in case.name]


def without(name: str) -> str | None:
    """The reason why this backend cannot run here, or None if it can."""
    try:
        make(name)
    except OpsError as missing:
        return str(missing)
    return None


@functools.cache
def make(name: str) -> Backend:
    """Return a backend by name. "kernels" is the CuPy backend over NumPy arrays, with its kernels
    compiled for the processor.
    """
    if name == "kernels":
        return CupyBackend(xp=HostCupy())
    name, _, threads = name.partition(" threads=")
    if threads:
        return get_backend(name, threads=int(threads))
    name, _, b_p = name.partition(" b_p=")
    return get_backend(name, b_p=int(b_p) if b_p else None)


def on_backends(cases: list[Case]) -> pytest.MarkDecorator:
    """Parametrize a test with every case on every available backend. Only convolutions run with
    several values of `b_p`.
    """
    pairs = [("numpy", case) for case in cases]
    pairs += [(f"numpy b_p={b_p}", case) for b_p in (1, 3) for case in cases if case in LOWERED]
    pairs += [(f"cpu threads={threads}", case) for threads in (1, 2) for case in cases]
    pairs += [
        (name, case) for name in ("kernels", "cupy") if without(name) is None for case in cases
    ]
    marked = [
        pytest.param(*pair, marks=pytest.mark.slow if pair[0] in SLOW else ()) for pair in pairs
    ]
    return pytest.mark.parametrize(("backend", "case"), marked, indirect=["backend"], ids=str)


@pytest.fixture
def backend(request: pytest.FixtureRequest) -> Backend:
    return make(request.param)


@pytest.mark.parametrize("name", ["kernels", "cupy"])
def test_the_contract_covers_this_backend(name):
    if (reason := without(name)) is not None:
        pytest.skip(reason)


def placed(backend: Backend, host: Array, layout: Any) -> Array:
    """The values on the backend's device in that memory layout."""
    if host.ndim < 2 or (host.dtype.kind != "f" and host.ndim != 4):
        return backend.asarray(host)
    if host.ndim != 4 and layout.__name__ in ("channel_major", "channels_last"):
        return backend.asarray(host)
    model = layout(host)
    if isinstance(backend.empty((1,)), np.ndarray):
        return model
    reach = sum(
        (size - 1) * stride for size, stride in zip(model.shape, model.strides, strict=True)
    )
    block = backend.empty((max(0, reach) // model.itemsize + 1,), host.dtype)
    view = backend.xp.lib.stride_tricks.as_strided(block, model.shape, model.strides)
    view[...] = backend.asarray(host)
    return view


def prepared(backend: Backend, case: Case, dtype: Any, layout: Any) -> tuple[Arrays, Arrays]:
    """The arrays for the loops (float64, rounded to dtype) and the same arrays for the backend."""
    drawn = case.arrays(np.random.default_rng(7))
    rounded = {k: a.astype(dtype) if a.dtype == np.float64 else a for k, a in drawn.items()}
    host = {k: a.astype(np.float64) if a.dtype == dtype else a for k, a in rounded.items()}
    return host, {k: placed(backend, a, layout) for k, a in rounded.items()}


def destinations(
    backend: Backend, results: tuple[Any, ...], layout: Any, without: tuple[int, ...]
) -> Outs:
    outs = Outs()
    for k, result in enumerate(results):
        if hasattr(result, "dtype") and k not in without:
            fill = (
                nans(result.shape, result.dtype)
                if result.dtype.kind == "f"
                else np.full(result.shape, -9, np.int32)
            )
            outs[k] = placed(backend, fill, layout)
    return outs


def compare(
    backend: Backend, got: tuple[Any, ...], expected: tuple[Any, ...], tolerance: float
) -> None:
    assert len(got) == len(expected)
    for mine, right in zip(got, expected, strict=True):
        mine = backend.to_host(mine) if hasattr(mine, "dtype") else np.asarray(mine)
        right = np.asarray(right)
        assert mine.shape == right.shape
        bound = tolerance * max(1.0, float(np.abs(right).max(initial=0)))
        np.testing.assert_allclose(mine, right, rtol=0, atol=bound)


def tolerance(case: Case, dtype: Any) -> float:
    return 1e-11 if dtype == np.float64 else case.tolerance


@functools.cache
def expected_of(case: Case, dtype: Any) -> tuple[Any, ...]:
    """The result of the plain loops for a case. It is cached, since the loops are slow and every
    backend and layout compares with it.
    """
    host, _ = prepared(make("numpy"), case, dtype, np.ascontiguousarray)
    return case.reference(host)


@on_backends(CASES)
def test_a_forward_pass_equals_plain_loops_in_every_layout_and_into_given_destinations(
    case, backend
):
    for dtype in DTYPES:
        forward_equals_plain_loops(case, dtype, backend)


def forward_equals_plain_loops(case, dtype, backend):
    expected = expected_of(case, dtype)
    for layout in LAYOUTS:
        _, arrays = prepared(backend, case, dtype, layout)
        before = {k: backend.to_host(a).copy() for k, a in arrays.items()}
        results = case.forward(backend, arrays, Outs())
        compare(backend, results, expected, tolerance(case, dtype))
        assert all(r.dtype in (dtype, np.int32) for r in results if hasattr(r, "dtype"))
        outs = destinations(backend, results, layout, case.no_out)
        again = case.forward(backend, arrays, outs)
        compare(backend, again, expected, tolerance(case, dtype))
        assert all(again[k] is out for k, out in outs.items())
        for name, a in arrays.items():
            np.testing.assert_array_equal(
                backend.to_host(a), before[name], err_msg=f"input {name} was written to"
            )


def upstream(case: Case, result: Any, dtype: Any) -> Any:
    """The gradient dy for result 0; for a loss, which is a float, its weight."""
    random = np.random.default_rng(11)
    if isinstance(result, float):
        return 0.7
    return random.standard_normal(result.shape).astype(dtype)


WITH_GRADIENT = [case for case in CASES if case.backward is not None]


@on_backends(WITH_GRADIENT)
def test_a_backward_pass_equals_finite_differences(case, backend):
    _, arrays = prepared(backend, case, np.float64, np.ascontiguousarray)

    def moved(inputs: tuple[Array, ...]) -> Arrays:
        return {
            **arrays,
            **{name: backend.asarray(x) for name, x in zip(case.wrt, inputs, strict=True)},
        }

    def forward(*inputs: Array) -> Array:
        first = case.forward(backend, moved(inputs), Outs())[0]
        return np.array([first]) if isinstance(first, float) else backend.to_host(first)

    def backward(dy: Array, *inputs: Array) -> list[Array]:
        scalar = isinstance(case.forward(backend, moved(inputs), Outs())[0], float)
        gradients = case.backward(
            backend, moved(inputs), float(dy[0]) if scalar else backend.asarray(dy), Outs()
        )
        return [backend.to_host(g) for g in gradients]

    check_gradient(forward, backward, *(backend.to_host(arrays[name]) for name in case.wrt))


@on_backends(WITH_GRADIENT)
def test_a_backward_pass_is_the_same_in_every_layout_dtype_and_destination(case, backend):
    for dtype in DTYPES:
        backward_is_the_same(case, dtype, backend)


def backward_is_the_same(case, dtype, backend):
    host, _ = prepared(backend, case, dtype, np.ascontiguousarray)
    plain = {k: backend.asarray(a) for k, a in host.items()}
    dy = upstream(case, case.forward(backend, plain, Outs())[0], dtype)
    wide = dy if isinstance(dy, float) else backend.asarray(dy.astype(np.float64))
    expected = tuple(backend.to_host(g) for g in case.backward(backend, plain, wide, Outs()))
    for layout in LAYOUTS:
        _, arrays = prepared(backend, case, dtype, layout)
        given = dy if isinstance(dy, float) else placed(backend, dy, layout)
        results = case.backward(backend, arrays, given, Outs())
        compare(backend, tuple(results), expected, tolerance(case, dtype))
        assert all(r.dtype == dtype for r in results)
        outs = destinations(backend, tuple(results), layout, case.no_out_back)
        again = case.backward(backend, arrays, given, outs)
        compare(backend, tuple(again), expected, tolerance(case, dtype))
        assert all(again[k] is out for k, out in outs.items())
