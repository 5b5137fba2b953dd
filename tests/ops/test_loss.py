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
