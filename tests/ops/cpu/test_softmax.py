"""The softmax loss of rows: saturated scores, scores that are NaN, labels outside the classes."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ops import OpsError


def rows(count: int, classes: int, spread: float) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(count)
    x = (spread * rng.standard_normal((count, classes))).astype(np.float32)
    return x, rng.integers(0, classes, count).astype(np.float32)


def loss_of(x: np.ndarray, labels: np.ndarray) -> float:
    """The loss in float64. As in Caffe, a probability is at least the smallest normal float32."""
    total = 0.0
    for row, label in zip(x.astype(np.float64), labels, strict=True):
        shares = np.exp(row - row.max())
        total -= math.log(max(shares[int(label)] / shares.sum(), 1.17549435e-38))
    return total


@pytest.mark.parametrize("spread", [0.01, 3.0, 300.0])
@pytest.mark.parametrize("shape", [(1, 1), (1, 2), (64, 10), (33, 1000), (100, 17)])
def test_the_loss_agrees_with_float64_however_far_the_scores_lie_apart(fast, shape, spread):
    x, labels = rows(*shape, spread)
    found, prob = fast.softmax_loss_forward(x, labels, normalization="NONE")
    assert found == pytest.approx(loss_of(x, labels), rel=2e-6, abs=1e-6 * len(x))
    assert prob.sum(axis=1) == pytest.approx(np.ones(len(x)), abs=1e-6)


def test_a_nan_score_makes_the_loss_nan(fast):
    x, labels = rows(40, 10, 1.0)
    x[39, 3] = np.nan
    assert math.isnan(fast.softmax_loss_forward(x, labels)[0])


@pytest.mark.parametrize("label", [10.0, -1.0, 2.5, np.nan, np.inf, 1e30])
def test_a_label_outside_the_classes_is_refused_and_nothing_is_written_outside(fast, label):
    x, labels = rows(40, 10, 1.0)
    labels[39] = label
    space = np.full((60, 10), 7.0, np.float32)
    for call in (fast.softmax_loss_forward, fast.softmax_loss_backward):
        with pytest.raises(OpsError, match="expected a whole number from 0 to 9"):
            call(x, labels, out=space[10:50])
        assert (space[:10] == 7).all() and (space[50:] == 7).all()


def test_ignored_labels_need_not_be_classes(fast):
    x, labels = rows(9, 5, 1.0)
    labels[::2] = -1
    found, prob = fast.softmax_loss_forward(x, labels, ignore_label=-1)
    assert found == pytest.approx(loss_of(x[1::2], labels[1::2]) / 4, rel=1e-6)
    gradient = fast.softmax_loss_backward(prob, labels, ignore_label=-1)
    assert (gradient[::2] == 0).all() and gradient[1::2].sum(axis=1) == pytest.approx(
        np.zeros(4), abs=1e-6
    )
