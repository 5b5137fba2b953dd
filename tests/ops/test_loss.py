"""The softmax loss and accuracy at extreme values, and the inputs that they refuse."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ops import Backend, OpsError


def test_softmax_stays_finite_for_huge_scores_and_the_loss_is_cut_as_in_caffe(backend: Backend):
    scores = np.array([[1e4, 0.0, -1e4]], np.float32)
    np.testing.assert_array_equal(backend.softmax_forward(scores), [[1, 0, 0]])
    loss, _ = backend.softmax_loss_forward(scores, np.array([2]))
    assert loss == pytest.approx(87.3365, abs=1e-3)


def test_a_batch_of_ignored_labels_costs_nothing_and_gives_no_gradient(backend: Backend):
    labels = np.array([7, 7])
    loss, prob = backend.softmax_loss_forward(np.ones((2, 3)), labels, ignore_label=7)
    assert loss == 0
    np.testing.assert_array_equal(
        backend.softmax_loss_backward(prob, labels, ignore_label=7), np.zeros((2, 3))
    )


def test_a_nan_at_an_ignored_label_stays_out_of_loss_and_gradient(backend: Backend):
    scores = np.array([[np.nan, 1.0], [0.0, 0.0]])
    labels = np.array([9, 0])
    loss, prob = backend.softmax_loss_forward(scores, labels, ignore_label=9)
    assert loss == pytest.approx(math.log(2))
    np.testing.assert_allclose(
        backend.softmax_loss_backward(prob, labels, ignore_label=9), [[0.0, 0.0], [-0.5, 0.5]]
    )


def test_accuracy_counts_nan_as_wrong_and_is_nan_where_no_label_counts(backend: Backend):
    assert backend.accuracy(np.array([[np.nan, 1.0], [2.0, 1.0]]), np.array([0, 0])) == 0.5
    assert math.isnan(backend.accuracy(np.ones((1, 2)), np.array([5]), ignore_label=5))


def test_the_loss_of_soft_labels_cuts_no_probability(backend: Backend):
    scores = np.array([[1e4, 0.0, -1e4]], np.float32)
    labels = np.array([[0.5, 0.25, 0.25]], np.float32)
    loss, prob = backend.soft_loss_forward(scores, labels)
    assert loss == pytest.approx(0.25 * 1e4 + 0.25 * 2e4)
    np.testing.assert_array_equal(prob, [[1, 0, 0]])


def test_without_smoothing_the_loss_of_classes_is_the_softmax_loss(backend: Backend):
    scores = np.random.default_rng(3).standard_normal((5, 4))
    labels = np.array([0, 3, 1, 1, 2])
    ours, prob = backend.soft_loss_forward(scores, labels, ignore_label=1)
    plain, same = backend.softmax_loss_forward(scores, labels, ignore_label=1)
    assert ours == pytest.approx(plain, rel=1e-14)
    np.testing.assert_array_equal(prob, same)
    np.testing.assert_allclose(
        backend.soft_loss_backward(prob, labels, ignore_label=1),
        backend.softmax_loss_backward(prob, labels, ignore_label=1),
        rtol=1e-14,
    )


@pytest.mark.parametrize("soft", [False, True])
@pytest.mark.parametrize("ignore", [None, 1])
def test_a_verdict_has_the_loss_and_the_divisor_and_gives_the_same_gradient(
    soft, ignore, backend: Backend
):
    random = np.random.default_rng(3)
    scores = random.standard_normal((5, 4, 2))
    labels = random.integers(0, 4, (5, 2))
    if soft:
        labels = random.random((5, 4, 2))
        labels /= labels.sum(axis=1, keepdims=True)
        ignore = None
    given = {"smoothing": 0.2, "ignore_label": ignore}
    loss, prob = backend.soft_loss_forward(scores, labels, **given)
    verdict = np.zeros(3)
    assert backend.soft_loss_forward(scores, labels, **given, verdict=verdict)[0] == 0
    counted = 10 if ignore is None else int((labels != ignore).sum())
    assert verdict.tolist() == [pytest.approx(loss), pytest.approx(math.nan, nan_ok=True), counted]
    np.testing.assert_allclose(
        backend.soft_loss_backward(prob, labels, **given, verdict=verdict),
        backend.soft_loss_backward(prob, labels, **given),
    )


@pytest.mark.parametrize(
    ("row", "told"), [([0.5, 0.2, 0.2], 0.9), ([1.5, -0.5, 0], -0.5), ([np.nan, 0, 1], -1)]
)
def test_a_verdict_names_labels_that_are_no_probabilities(row, told, backend: Backend):
    verdict = np.zeros(3)
    backend.soft_loss_forward(np.zeros((2, 3)), np.array([[0, 1, 0], row]), verdict=verdict)
    assert verdict[1] == pytest.approx(told)


S = np.zeros((2, 3))
L = np.array([0, 2])


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
        (lambda b: b.soft_loss_forward(S, L[:1]), ["labels have shape (1,)", "expected (2,)"]),
        (lambda b: b.soft_loss_forward(S, L + 1, smoothing=0.1), ["a label is 3", "0 to 2"]),
        (lambda b: b.soft_loss_forward(S, L * np.nan), ["a label is nan"]),
        (lambda b: b.soft_loss_forward(S, L, smoothing=1.0), ["smoothing is 1.0", "less than 1"]),
        (lambda b: b.soft_loss_forward(S, S + 0.3), ["found the sum 0.9", "probabilities"]),
        (lambda b: b.soft_loss_forward(S, S - 0.5), ["found the number -0.5", "at least 0"]),
        (lambda b: b.soft_loss_forward(S, S * np.nan), ["found the sum nan"]),
        (lambda b: b.soft_loss_forward(S, S + 1 / 3, ignore_label=0), ["ignore_label is 0"]),
        (lambda b: b.softmax_forward(S[0]), ["axis is 1", "from -1 to 0"]),
        (lambda b: b.softmax_forward(S[:, :0]), ["(2, 0)", "no empty axis"]),
        (lambda b: b.softmax_loss_backward(S, L, out=S[:1]), ["out has shape (1, 3)"]),
        (lambda b: b.accuracy(S, L, top_k=4), ["top_k is 4", "1 to 3"]),
    ],
)
def test_losses_refuse_malformed_input_and_report_the_found_values(call, words, backend: Backend):
    with pytest.raises(OpsError) as caught:
        call(backend)
    for word in words:
        assert word in str(caught.value)
