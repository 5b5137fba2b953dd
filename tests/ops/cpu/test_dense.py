"""Dense layers of the CPU backend compared with products in float64: odd shapes, layouts,
destinations full of NaN."""

from __future__ import annotations

import itertools
import tracemalloc

import numpy as np
import pytest

from ops import Array, OpsError
from ops.cpu.team.workspace import Workspace
from tests.ops.conftest import nans
from tests.ops.cpu.conftest import cpu
from tests.ops.cpu.narrow import passes_with_narrow_vectors
from tests.ops.cpu.test_gemm import close, columns_first, rows_first

# images, inputs, outputs
SIZES = [
    (1, 3, 20),
    (7, 50, 97),
    (13, 97, 1),
    (1, 1, 1),
    (13, 20, 3),
    (64, 800, 10),
    (100, 20, 500),
    (8, 3000, 130),
]


def operands(random, sizes: tuple[int, int, int]) -> list[Array]:
    """x, w, b, dy in float32."""
    images, inputs, outputs = sizes
    shapes = ((images, inputs), (outputs, inputs), (outputs,), (images, outputs))
    return [random.standard_normal(shape).astype("f") for shape in shapes]


def exact(*arrays: Array) -> list[Array]:
    return [array.astype("d") for array in arrays]


@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_all_three_products_of_a_layer_agree_with_float64(fast, random, sizes) -> None:
    x, w, b, dy = operands(random, sizes)
    x64, w64, b64, dy64 = exact(x, w, b, dy)
    for layout in (rows_first, columns_first):
        w = layout(w)
        for rectify, bias in itertools.product((False, True), (None, b)):
            y = fast.dense_forward(x, w, bias, out=nans(dy.shape, "f"), rectify=rectify)
            plain = x64 @ w64.T + (0 if bias is None else b64)
            close(y, np.maximum(plain, 0) if rectify else plain)
        close(fast.dense_backward_data(dy, w, out=nans(x.shape, "f")), dy64 @ w64)
        into = layout(nans(w.shape, "f"))
        into_b = nans(b.shape, "f")
        for _ in range(2):  # the second call skips the checks
            dw, db = fast.dense_backward_weights(x, dy, bias=True, out_w=into, out_b=into_b)
            assert dw is into and db is into_b
            close(dw, dy64.T @ x64)
            close(db, dy64.sum(0))
            into[...], into_b[...] = np.nan, np.nan


def test_results_without_destinations_are_allocated_and_without_bias_there_is_no_bias_gradient(
    fast, random
) -> None:
    x, w, _, dy = operands(random, (5, 7, 3))
    for _ in range(2):
        close(fast.dense_forward(x, w, None), x.astype("d") @ w.T)
        close(fast.dense_backward_data(dy, w), dy.astype("d") @ w)
        assert fast.dense_backward_weights(x, dy, bias=False)[1] is None
        db = fast.dense_backward_weights(x, dy, bias=True)[1]
        close(db, dy.astype("d").sum(0))


def test_float64_and_every_other_layout_go_to_the_reference(fast, random) -> None:
    x, w, b, dy = operands(random, (6, 8, 4))
    expected = x.astype("d") @ w.T + b
    y = fast.dense_forward(*exact(x, w, b), rectify=True)
    assert y.dtype == np.float64
    np.testing.assert_allclose(y, np.maximum(expected, 0))
    spread = {
        name: np.zeros((*a.shape[:-1], 2 * a.shape[-1]), "f")[..., ::2]
        for name, a in (("x", x), ("b", b))
    }
    spread["x"][...], spread["b"][...] = x, b
    close(fast.dense_forward(spread["x"], w, b), expected)
    close(fast.dense_forward(x, w, spread["b"]), expected)
    close(fast.dense_backward_weights(spread["x"], dy, bias=True)[0], dy.astype("d").T @ x)


def test_operands_may_be_parts_of_larger_arrays_and_nothing_around_a_result_is_written(
    fast, random
) -> None:
    x, w, b, _ = operands(random, (7, 20, 50))
    block = np.full((9, 60), 77, "f")
    wide = np.full((7, 30), 77, "f")
    wide[:, 4:24] = x
    fast.dense_forward(wide[:, 4:24], w, b, out=block[1:8, 5:55])
    close(block[1:8, 5:55], x.astype("d") @ w.T + b)
    block[1:8, 5:55] = 77
    assert (block == 77).all()


def test_a_nan_is_not_lost_when_the_result_is_rectified(fast) -> None:
    x = np.array([[np.nan, 1.0], [1.0, 1.0]], "f")
    w = -np.ones((3, 2), "f")
    y = fast.dense_forward(x, w, None, rectify=True)
    assert np.isnan(y[0]).all() and (y[1] == 0).all()


def test_results_repeat_to_the_last_bit(fast, random) -> None:
    x, w, _, dy = operands(random, (64, 900, 300))
    first = [
        fast.dense_forward(x, w, None).copy(),
        fast.dense_backward_weights(x, dy, bias=True)[0].copy(),
    ]
    for _ in range(3):
        again = [fast.dense_forward(x, w, None), fast.dense_backward_weights(x, dy, bias=True)[0]]
        assert all((one == other).all() for one, other in zip(first, again, strict=True))


def test_passes_into_given_arrays_allocate_none(random, fast) -> None:
    x, w, b, dy = operands(random, (64, 300, 100))
    y = dy.copy()
    dx = x.copy()
    dw = w.copy()
    db = b.copy()
    label = np.ones(64, "f")

    def passes() -> None:
        fast.dense_forward(x, w, b, out=y, rectify=True)
        fast.softmax_loss_forward(y, label, out=y)
        fast.softmax_loss_backward(y, label, out=y)
        fast.dense_backward_data(y, w, out=dx)
        fast.dense_backward_weights(x, y, bias=True, out_w=dw, out_b=db)

    passes()
    tracemalloc.start()
    try:
        passes()
        assert tracemalloc.get_traced_memory()[1] < 8192  # each of x, w and y is larger
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("sizes", [(7, 50, 97), (64, 300, 10), (8, 3000, 130), (1, 97, 3)], ids=str)
def test_the_scratch_memory_is_known_beforehand_to_the_byte(
    random, monkeypatch, sizes, bias, turned
) -> None:
    backend = cpu(2)
    x, w, b, dy = operands(random, sizes)
    w = columns_first(w) if turned else w
    for training in (False, True):
        monkeypatch.setattr(backend, "workspace", Workspace())
        backend.dense_forward(x, w, b if bias else None)
        if training:
            backend.dense_backward_data(dy, w)
            backend.dense_backward_weights(
                x, dy, bias=bias, out_w=np.empty_like(w), out_b=np.empty_like(b)
            )
        told = backend.dense_scratch(*sizes, training=training, bias=bias, turned=turned)
        assert backend.workspace.size == told


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda b, x, w: b.dense_forward(x[:, :3], w, None), "x has 3 columns, expected 4"),
        (lambda b, x, w: b.dense_forward(x[0], w, None), "x has shape (4,)"),
        (
            lambda b, x, w: b.dense_forward(x, w, None, out=x),
            "out has shape (3, 4), expected (3, 2)",
        ),
        (lambda b, x, w: b.dense_forward(x, w.astype("d"), None), "w is float64 but x is float32"),
        (lambda b, x, w: b.dense_backward_data(x[:, :1], w), "dy has 1 columns, expected 2"),
        (
            lambda b, x, w: b.dense_backward_weights(x, x[:2, :2], bias=True),
            "dy has shape (2, 2), expected (3, 2)",
        ),
    ],
)
def test_operands_that_do_not_fit_are_refused_in_the_reference_backend_s_words(call, words) -> None:
    with pytest.raises(OpsError) as caught:
        call(cpu(1), np.zeros((3, 4), "f"), np.zeros((2, 4), "f"))
    assert words in str(caught.value)


def test_a_destination_that_became_read_only_is_refused_although_its_shape_is_known(fast) -> None:
    x = np.zeros((3, 4), "f")
    w = np.zeros((2, 4), "f")
    y = np.zeros((3, 2), "f")
    fast.dense_forward(x, w, None, out=y)
    y.flags.writeable = False
    with pytest.raises(OpsError, match="read-only"):
        fast.dense_forward(x, w, None, out=y)


@pytest.mark.parametrize("labels", ["f", "i8"])
@pytest.mark.parametrize("shape", [(1, 3), (13, 97), (7, 20, 1), (100, 10)], ids=str)
def test_a_head_s_softmax_loss_agrees_with_float64(fast, random, shape, labels) -> None:
    scores = (5 * random.standard_normal(shape)).astype("f")
    label = random.integers(0, shape[1], (shape[0], *shape[2:]))
    flat = scores.reshape(shape[:2]).astype("d")
    rows = np.arange(shape[0])
    share = np.exp(flat - flat.max(1, keepdims=True))
    share /= share.sum(1, keepdims=True)
    loss, prob = fast.softmax_loss_forward(scores, label.astype(labels), out=nans(shape, "f"))
    assert loss == pytest.approx(-np.log(share[rows, label.reshape(-1)]).mean(), rel=1e-6)
    close(prob.reshape(shape[:2]), share)
    dx = fast.softmax_loss_backward(
        prob, label.astype(labels), loss_weight=0.5, out=nans(shape, "f")
    )
    share[rows, label.reshape(-1)] -= 1
    close(dx.reshape(shape[:2]), 0.5 * share / shape[0])


@pytest.mark.parametrize("wrong", [-1.0, 3.0, 0.5, np.nan, np.inf, 1e30])
def test_a_float_label_without_a_class_is_refused_even_if_another_is_ignored(fast, wrong) -> None:
    scores = np.zeros((2, 3), "f")
    labels = np.array([1, wrong], "f")
    with pytest.raises(OpsError, match="a label is"):
        fast.softmax_loss_forward(scores, labels, ignore_label=2)


@pytest.mark.slow
def test_all_this_holds_with_vectors_of_256_bits() -> None:
    passes_with_narrow_vectors(__file__, "agree or repeat or nan or parts")
