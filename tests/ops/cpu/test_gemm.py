"""Products of matrices and dense layers of the CPU backend against NumPy in float64, from NaN-filled destinations."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from ops import Array, OpsError, get_backend
from ops.cpu.gemm import planned
from ops.cpu.recurrent import RecurrentKernels
from ops.cpu.team import Team
from ops.cpu.workspace import Workspace
from tests.ops.conftest import nans

TEAMS = {size: Team(size) for size in (1, 2, 3)}
# odd sizes; more rows, columns or depth than one block holds
SHAPES = [
    (1, 1, 1), (7, 13, 5), (13, 100, 97), (100, 13, 50), (3, 1000, 700), (1000, 3, 700), (33, 257, 1030), (130, 1, 9),
    (1, 300, 4), (129, 2000, 60), (20, 70, 5000),
]  # fmt: skip


class Kernels(RecurrentKernels):
    """The part of the CPU backend that is tested here."""

    name, xp = "cpu", np

    def __init__(self, threads: int) -> None:
        super().__init__()
        self.team, self.workspace = TEAMS[threads], Workspace()


def rows_first(x: Array) -> Array:
    return np.ascontiguousarray(x)


def columns_first(x: Array) -> Array:
    return np.asfortranarray(x)


def part(x: Array) -> Array:
    """The same values between others."""
    block = np.full((x.shape[0], x.shape[1] + 5), 77, x.dtype)
    block[:, 2 : 2 + x.shape[1]] = x
    return block[:, 2 : 2 + x.shape[1]]


LAYOUTS = (rows_first, columns_first, part)


def close(found: Array, expected: Array) -> None:
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5 * max(1.0, float(np.abs(expected).max())))


@pytest.mark.parametrize("threads", TEAMS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_product_is_right_in_every_layout_with_bias_floor_and_accumulated(random, shape, threads) -> None:
    m, n, k = shape
    a, b, c, bias = (random.standard_normal(s).astype("f") for s in ((m, k), (k, n), (m, n), n))
    plain, workspace = a.astype("d") @ b.astype("d"), Workspace()
    for of_a, of_b, of_c in itertools.product(LAYOUTS, repeat=3):
        left, right = of_a(a), of_b(b)
        for with_bias, floor, add in ((0, -math.inf, 0), (1, -math.inf, 0), (1, 0.0, 0), (0, -math.inf, 1)):
            into = of_c(c if add else nans(c.shape, "f")).copy("K") if of_c is not part else part(c if add else 0 * c)
            plan = planned(
                TEAMS[threads], (m, n, k), left.strides, right.strides, into.strides,
                bias=bool(with_bias), accumulate=bool(add),
            )  # fmt: skip
            assert plan is not None
            scratch = workspace.take(plan.scratch_bytes)
            at = (x.ctypes.data for x in (left, right, into))
            plan.run(*at, scratch, bias=bias.ctypes.data if with_bias else 0, floor=floor)
            close(into, np.maximum(plain + with_bias * bias + add * c, floor))


def test_nothing_is_written_beyond_the_result(random) -> None:
    a, b = random.standard_normal((9, 30)).astype("f"), random.standard_normal((30, 37)).astype("f")
    block = np.full((11, 45), 77, "f")
    Kernels(2).matmul(a, b, out=block[1:10, 3:40])
    close(block[1:10, 3:40], a.astype("d") @ b.astype("d"))
    block[1:10, 3:40] = 77
    assert (block == 77).all()


def test_a_layout_without_neighbours_is_left_to_numpy(random) -> None:
    a, b = random.standard_normal((8, 10)).astype("f"), random.standard_normal((10, 12)).astype("f")
    wide = np.empty((8, 2, 12, 2), "f")
    assert planned(TEAMS[1], (4, 6, 10), (40, 4), (48, 4), (96, 8)) is None
    found = Kernels(1).matmul(a, b, out=wide[:, 0, :, 0])
    close(found, a.astype("d") @ b.astype("d"))
    with pytest.raises(OpsError, match="expected \\(M, K\\), \\(K, N\\), \\(M, N\\)"):
        Kernels(1).matmul(a, b[1:], out=wide[:, 0, :, 0])


@pytest.mark.parametrize("threads", TEAMS)
@pytest.mark.parametrize("sizes", [(1, 3, 20), (7, 50, 97), (13, 97, 1), (64, 800, 10), (100, 20, 500)], ids=str)
def test_the_three_products_of_a_dense_layer_agree_with_the_reference(random, sizes, threads) -> None:
    images, inputs, outputs = sizes
    x, w, b, dy = (random.standard_normal(s) for s in ((images, inputs), (outputs, inputs), outputs, (images, outputs)))
    backend, reference = Kernels(threads), get_backend("numpy")
    x32, w32, b32, dy32 = (array.astype("f") for array in (x, w, b, dy))
    for w_layout in (rows_first, columns_first):
        w32 = w_layout(w32)
        for rectify, bias in itertools.product((False, True), (None, b32)):
            y = backend.dense_forward(x32, w32, bias, out=nans((images, outputs), "f"), rectify=rectify)
            close(y, reference.dense_forward(x, w, None if bias is None else b, rectify=rectify))
        close(backend.dense_backward_data(dy32, w32, out=nans(x.shape, "f")), reference.dense_backward_data(dy, w))
        into, into_b = w_layout(nans(w.shape, "f")), nans((outputs,), "f")
        for _ in range(2):  # the second call skips the checks
            dw, db = backend.dense_backward_weights(x32, dy32, bias=True, out_w=into, out_b=into_b)
            assert dw is into and db is into_b
            expected = reference.dense_backward_weights(x, dy, bias=True)
            close(dw, expected[0])
            close(db, expected[1])


def test_results_are_allocated_where_none_are_given_and_without_bias_there_is_no_gradient_of_it(random) -> None:
    x, w = random.standard_normal((5, 7)).astype("f"), random.standard_normal((3, 7)).astype("f")
    backend = Kernels(1)
    for _ in range(2):
        y = backend.dense_forward(x, w, None)
        close(backend.dense_backward_data(y, w), y.astype("d") @ w)
        assert backend.dense_backward_weights(x, y, bias=False)[1] is None
        db = backend.dense_backward_weights(x, y, bias=True)[1]
        assert db is not None
        close(db, y.astype("d").sum(0))


def test_a_float64_layer_and_every_other_layout_go_to_the_reference(random) -> None:
    x, w, b = (random.standard_normal(s) for s in ((6, 8), (4, 8), 4))
    backend = Kernels(1)
    y = backend.dense_forward(x, w, b, rectify=True)
    assert y.dtype == np.float64
    np.testing.assert_allclose(y, np.maximum(x @ w.T + b, 0))
    odd = np.zeros((6, 16), "f")[:, ::2]
    odd[...] = x
    close(backend.dense_forward(odd, w.astype("f"), b.astype("f")), x @ w.T + b)
    strided_bias = np.zeros(8, "f")[::2]
    strided_bias[...] = b
    close(backend.dense_forward(x.astype("f"), w.astype("f"), strided_bias), x @ w.T + b)


def test_a_nan_is_not_lost_where_the_result_is_rectified() -> None:
    x, w = np.array([[np.nan, 1.0], [1.0, 1.0]], "f"), -np.ones((3, 2), "f")
    y = Kernels(1).dense_forward(x, w, None, rectify=True)
    assert np.isnan(y[0]).all() and (y[1] == 0).all()


def test_results_repeat_to_the_last_bit_whatever_the_memory_held(random) -> None:
    x, w = random.standard_normal((64, 900)).astype("f"), random.standard_normal((300, 900)).astype("f")
    backend = Kernels(2)
    first = backend.dense_forward(x, w, None).copy()
    assert all((backend.dense_forward(x, w, None) == first).all() for _ in range(3))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda b, x, w: b.dense_forward(x[:, :3], w, None), "x has 3 columns, expected 4"),
        (lambda b, x, w: b.dense_forward(x[0], w, None), "x has shape (4,)"),
        (lambda b, x, w: b.dense_forward(x, w, None, out=x), "out has shape (3, 4), expected (3, 2)"),
        (lambda b, x, w: b.dense_forward(x, w.astype("d"), None), "w is float64 but x is float32"),
        (lambda b, x, w: b.dense_backward_data(x[:, :1], w), "dy has 1 columns, expected 2"),
        (lambda b, x, w: b.dense_backward_weights(x, x[:2, :2], bias=True), "dy has shape (2, 2), expected (3, 2)"),
    ],
)
def test_what_does_not_fit_is_refused_in_the_reference_backend_s_words(call, words) -> None:
    with pytest.raises(OpsError) as caught:
        call(Kernels(1), np.zeros((3, 4), "f"), np.zeros((2, 4), "f"))
    assert words in str(caught.value)


def test_a_destination_that_became_read_only_is_refused_although_its_shape_is_known() -> None:
    x, w, y = np.zeros((3, 4), "f"), np.zeros((2, 4), "f"), np.zeros((3, 2), "f")
    backend = Kernels(1)
    backend.dense_forward(x, w, None, out=y)
    y.flags.writeable = False
    with pytest.raises(OpsError, match="read-only"):
        backend.dense_forward(x, w, None, out=y)
