"""Softmax, its loss and accuracy against loops over single examples."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ops import Array, Backend, OpsError
from ops.gradcheck import check_gradient
from tests.ops.conftest import nans, strided

SHAPES = [(1, 2), (13, 10), (3, 4, 2, 5)]
NORMALIZATIONS = ["VALID", "FULL", "BATCH_SIZE", "NONE"]


def examples(scores: Array, labels: Array):
    """(position, list of class scores, label) per label."""
    for at in np.ndindex(labels.shape):
        yield at, [float(scores[(at[0], c, *at[1:])]) for c in range(scores.shape[1])], int(labels[at])


def probabilities(scores: list[float]) -> list[float]:
    powers = [math.exp(s - max(scores)) for s in scores]
    return [p / sum(powers) for p in powers]


def divisor(labels: Array, ignore: int | None, normalization: str) -> float:
    counted = sum(int(v) != ignore for v in labels.flat)
    return {"VALID": max(counted, 1), "FULL": labels.size, "BATCH_SIZE": len(labels), "NONE": 1}[normalization]


def draw(random: np.random.Generator, shape: tuple[int, ...], dtype: object = np.float64) -> tuple[Array, Array]:
    labels = random.integers(0, shape[1], (shape[0], *shape[2:]))
    return (3 * random.standard_normal(shape)).astype(dtype), labels


@pytest.mark.parametrize("normalization", NORMALIZATIONS)
@pytest.mark.parametrize("ignore", [None, 1, 255])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("shape", SHAPES)
def test_softmax_loss_and_gradient_equal_their_definition(
    shape, dtype, ignore, normalization, random, backend: Backend
):
    scores, labels = draw(random, shape, dtype)
    if ignore == 255:
        labels[0] = 255
    share = 1 / divisor(labels, ignore, normalization)
    prob, grad, total = np.zeros(shape), np.zeros(shape), 0.0
    for at, row, label in examples(scores, labels):
        p = probabilities(row)
        where = (at[0], slice(None), *at[1:])
        prob[where] = p
        if label != ignore:
            total -= math.log(p[label]) * share
            grad[where] = [(v - (c == label)) * share * 0.5 for c, v in enumerate(p)]
    options = {"ignore_label": ignore, "normalization": normalization}
    out, tolerance = strided(nans(shape, dtype)), 1e-12 if dtype == np.float64 else 1e-6
    for given in (labels, labels.astype(np.float32), labels[:, None]):
        loss, got = backend.softmax_loss_forward(strided(scores), given, out=out, **options)
        assert got is out and isinstance(loss, float)
        assert loss == pytest.approx(total, rel=1e-5)
        np.testing.assert_allclose(got, prob, atol=tolerance)
        into = strided(nans(shape, dtype))
        back = backend.softmax_loss_backward(got, given, loss_weight=0.5, out=into, **options)
        assert back is into
        np.testing.assert_allclose(back, grad, atol=tolerance)
        np.testing.assert_allclose(got, prob, atol=tolerance)
    backend.softmax_loss_backward(out, labels, loss_weight=0.5, out=out, **options)
    np.testing.assert_allclose(out, grad, atol=tolerance)


def test_softmax_stays_finite_for_huge_scores_and_the_loss_is_cut_as_in_caffe(backend: Backend):
    scores = np.array([[1e4, 0.0, -1e4]], np.float32)
    np.testing.assert_array_equal(backend.softmax_forward(scores), [[1, 0, 0]])
    loss, _ = backend.softmax_loss_forward(scores, np.array([2]))
    assert loss == pytest.approx(87.3365, abs=1e-3)


def test_a_batch_of_ignored_labels_costs_nothing_and_gives_no_gradient(backend: Backend):
    labels = np.array([7, 7])
    loss, prob = backend.softmax_loss_forward(np.ones((2, 3)), labels, ignore_label=7)
    assert loss == 0
    np.testing.assert_array_equal(backend.softmax_loss_backward(prob, labels, ignore_label=7), np.zeros((2, 3)))


def test_a_nan_at_an_ignored_label_stays_out_of_loss_and_gradient(backend: Backend):
    scores, labels = np.array([[np.nan, 1.0], [0.0, 0.0]]), np.array([9, 0])
    loss, prob = backend.softmax_loss_forward(scores, labels, ignore_label=9)
    assert loss == pytest.approx(math.log(2))
    np.testing.assert_allclose(backend.softmax_loss_backward(prob, labels, ignore_label=9), [[0.0, 0.0], [-0.5, 0.5]])


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("normalization", NORMALIZATIONS)
def test_softmax_loss_gradient_passes_the_directional_check(shape, normalization, random, backend: Backend):
    scores, labels = draw(random, shape)
    options = {"ignore_label": 0, "normalization": normalization}

    def forward(scores: Array) -> Array:
        return np.array([backend.softmax_loss_forward(scores, labels, **options)[0]])

    def backward(dy: Array, scores: Array) -> tuple[Array]:
        prob = backend.softmax_forward(scores)
        return (backend.softmax_loss_backward(prob, labels, loss_weight=dy[0], **options),)

    check_gradient(forward, backward, scores)


@pytest.mark.parametrize("top_k", [1, 2])
@pytest.mark.parametrize("ignore", [None, 1])
@pytest.mark.parametrize("shape", SHAPES)
def test_accuracy_counts_a_tie_against_the_label_as_caffe_does(shape, ignore, top_k, random, backend: Backend):
    scores = random.integers(0, 4, shape).astype(np.float32)  # many ties
    _, labels = draw(random, shape)
    labels[0] = 0
    hits = [
        sum(s >= row[label] for s in row) - 1 < top_k for _, row, label in examples(scores, labels) if label != ignore
    ]
    got = backend.accuracy(strided(scores), labels, top_k=top_k, ignore_label=ignore)
    assert got == pytest.approx(sum(hits) / len(hits))


def test_accuracy_counts_nan_as_wrong_and_is_nan_where_no_label_counts(backend: Backend):
    assert backend.accuracy(np.array([[np.nan, 1.0], [2.0, 1.0]]), np.array([0, 0])) == 0.5
    assert math.isnan(backend.accuracy(np.ones((1, 2)), np.array([5]), ignore_label=5))


S, L = np.zeros((2, 3)), np.array([0, 2])


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda b: b.softmax_loss_forward(S, L[:1]), ["labels have shape (1,)", "expected (2,)"]),
        (lambda b: b.softmax_loss_forward(S, L + 1), ["a label is 3", "0 to 2"]),
        (lambda b: b.softmax_loss_forward(S, L - 1), ["a label is -1"]),
        (lambda b: b.softmax_loss_forward(S, L + 0.5), ["a label is 0.5", "whole number"]),
        (lambda b: b.softmax_loss_forward(S, L * np.nan), ["a label is nan"]),
        (
            lambda b: b.softmax_loss_forward(S, L, normalization="VALIDD"),
            ["'VALIDD'", "did you mean 'VALID'"],
        ),
        (lambda b: b.softmax_forward(S[0]), ["axis is 1", "from -1 to 0"]),
        (lambda b: b.softmax_forward(S[:, :0]), ["(2, 0)", "no empty axis"]),
        (lambda b: b.softmax_loss_backward(S, L, out=S[:1]), ["out has shape (1, 3)"]),
        (lambda b: b.accuracy(S, L, top_k=4), ["top_k is 4", "1 to 3"]),
    ],
)
def test_losses_refuse_malformed_input_and_say_what_they_found(call, words, backend: Backend):
    with pytest.raises(OpsError) as caught:
        call(backend)
    for word in words:
        assert word in str(caught.value)
