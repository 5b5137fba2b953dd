"""The errors of the operations of Caffe's further layers: each reports the found and the expected
values."""

from __future__ import annotations

import numpy as np
import pytest

from ops import Backend, ConvGeometry, OpsError, PoolGeometry
from ops.reference.recurrent import LstmGradients

X = np.ones((2, 4, 6, 6))
COLUMN = np.ones(4)
X_F = X.astype("f")
SEQUENCE = np.ones((3, 2, 5))
G = ConvGeometry((3, 3), groups=2)
W = np.ones((4, 3, 3, 3))
STOCHASTIC = PoolGeometry((2, 2), (2, 2), mode="STOCHASTIC")
CONT = np.ones((3, 2))
W_X = np.ones((8, 5))
W_H = np.ones((8, 2))
HINT = "did you mean"


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda b: b.deconv_forward(X, W[:3], None, G), ["deconv_forward", "(3, 3, 3, 3)", "4 channels"]),
        (lambda b: b.deconv_forward(X, W, COLUMN, G), ["b has shape (4,)", "expected (6,)"]),
        (lambda b: b.deconv_forward(X, W, None, G, out=X), ["out has shape", "expected (2, 6, 8, 8)"]),
        (lambda b: b.deconv_backward_data(X, W, G, X.shape), ["deconv_backward_data", "expected (2, 6, 8, 8)"]),
        (lambda b: b.deconv_backward_weights(X, X, G, W.shape, bias=True), ["deconv_backward_weights: dy"]),
        (lambda b: ConvGeometry((1, 1), pad=(3, 3)).transposed_shape((1, 1, 2, 2), 1), ["-4 x -4 pixels"]),
        (lambda b: PoolGeometry((2, 2), pad=(1, 1), mode="STOCHASTIC"), ["STOCHASTIC", "no padding"]),
        (lambda b: b.pool_forward(X, STOCHASTIC, uniforms=X), ["uniforms", "expected (2, 4, 3, 3)"]),
        (lambda b: b.pool_backward(X[:, :, :3, :3], STOCHASTIC, X.shape), ["argmax is missing"]),
        (lambda b: b.depthwise_forward(X, W[:, :2], None, G), ["depthwise_forward: groups is 2", "expected 4"]),
        (lambda b: b.depthwise_forward(X, W, None, G), ["depthwise_forward: weights have shape"]),
        (lambda b: b.depthwise_backward_data(X, W, G, X.shape), ["depthwise_backward_data: weights"]),
        (lambda b: b.depthwise_backward_weights(X, X, G, W.shape, bias=True), ["depthwise_backward_weights: w"]),
        (lambda b: b.adaptive_pool_forward(X, (0, 2)), ["sizes are (0, 2)", "positive sizes"]),
        (lambda b: b.adaptive_pool_backward(X, (2, 3, 9, 9)), ["(2, 3, 9, 9)", "expected (2, 4, H, W)"]),
        (lambda b: b.lrn_forward(X, size=4), ["size is 4", "odd"]),
        (lambda b: b.lrn_forward(X, region="WITHIN_CHANNELS"), ["region", HINT]),
        (lambda b: b.lrn_forward(X, scale=X_F), ["scale is float32", "float64"]),
        (lambda b: b.lrn_backward(X, X, X, X[:1]), ["scale has shape (1, 4, 6, 6)"]),
        (lambda b: b.prelu_forward(X, np.ones(3)), ["slope has shape (3,)", "(4,) or one element"]),
        (lambda b: b.prelu_forward(np.ones(3), np.ones(1)), ["x has shape (3,)", "(N, C, ...)"]),
        (lambda b: b.sigmoid_backward(X, X_F), ["y is float32", "float64"]),
        (lambda b: b.exp_forward(X, base=0.0), ["base is 0.0", "positive", "-1 for e"]),
        (lambda b: b.log_forward(X, base=1.0), ["base is 1"]),
        (lambda b: b.dropout(X, 0.5, -1), ["key is -1", "from 0 to 2^64 - 1"]),
        (lambda b: b.dropout(X, 1.0, 0), ["ratio is 1.0", "less than 1"]),
        (lambda b: b.dropout(X, 0.5, 0, 2**32), ["first is 4294967296"]),
        (lambda b: b.scale_forward(X, np.ones(3)), ["gamma has shape (3,)", "(2, 4, 6, 6)"]),
        (lambda b: b.scale_forward(X, COLUMN, COLUMN[:2]), ["beta has shape (2,)", "(4,)"]),
        (lambda b: b.bias_forward(X, COLUMN, axis=4), ["axis is 4", "-4 to 3"]),
        (lambda b: b.bias_backward(X, (6,), axis=1), ["(6,)", "(2, 4, 6, 6)"]),
        (lambda b: b.batch_norm_forward(X, statistics=(COLUMN, COLUMN[:2])), ["variance has shape (2,)", "(4,)"]),
        (lambda b: b.batch_norm_forward(X[:0]), ["no empty axis"]),
        (lambda b: b.group_norm_forward(X, groups=3), ["groups is 3", "a divisor of 4 channels"]),
        (lambda b: b.group_norm_backward(X, X, COLUMN, groups=2), ["inverse has shape (4,)", "expected (2, 2)"]),
        (lambda b: b.layer_norm_forward(COLUMN), ["x has shape (4,)", "(N, C, ...)"]),
        (lambda b: b.layer_norm_forward(X, axis=4), ["layer_norm_forward: axis is 4"]),
        (lambda b: b.layer_norm_backward(X, X, X), ["inverse has shape", "expected (2, 6, 6)"]),
        (lambda b: b.mvn_backward(X, X, X), ["deviation has shape", "expected (2, 4, 1, 1)"]),
        (lambda b: b.eltwise_forward([]), ["no inputs"]),
        (lambda b: b.eltwise_forward([X, X[:1]]), ["input 1 has shape (1, 4, 6, 6)"]),
        (lambda b: b.eltwise_forward([X, X], coeffs=[1]), ["1 coeffs for 2 inputs"]),
        (lambda b: b.eltwise_forward([X, X], operation="PROD", coeffs=[1, 1]), ["coeffs are given with PROD"]),
        (lambda b: b.eltwise_backward(X, [X, X], operation="MAX"), ["which is None", "int32"]),
        (lambda b: b.eltwise_backward(X, [X, X], outs=[X]), ["1 outs for 2 inputs"]),
        (lambda b: b.reduction_forward(X, operation="MIN"), ["operation is 'MIN'", "'ASUM'"]),
        (lambda b: b.reduction_backward(X, X, axis=1), ["dy has shape", "expected (2,)"]),
        (lambda b: b.arg_max(X, top_k=7, axis=3), ["top_k is 7", "1 to 6"]),
        (lambda b: b.arg_max(X, out=X), ["out has shape", "expected (2, 1, 1)"]),
        (lambda b: b.softmax_backward(X, X, axis=9), ["axis is 9"]),
        (lambda b: b.sigmoid_cross_entropy_forward(X, X, normalization="ALL"), ["normalization is 'ALL'"]),
        (lambda b: b.euclidean_forward(X[:0], X[:0]), ["N at least 1"]),
        (lambda b: b.hinge_forward(X[:, :, 0, 0], np.array([0, 4])), ["a label is 4", "0 to 3"]),
        (lambda b: b.hinge_forward(X, np.zeros((2, 6, 6)), norm="L3"), ["norm is 'L3'"]),
        (lambda b: b.contrastive_forward(X, X, COLUMN), ["expected 2 axes (N, C)"]),
        (lambda b: b.contrastive_backward(X[:, :, 0, 0], COLUMN), ["similar has shape (4,)", "(2,)"]),
        (lambda b: b.infogain_forward(X[:, :, 0, 0], np.zeros(2), X[0]), ["matrix has shape", "expected (4, 4)"]),
        (lambda b: b.multinomial_logistic_forward(X, np.zeros(3)), ["labels have shape (3,)"]),
        (lambda b: b.embed_forward(np.array([0, 8]), W_X), ["an index is 8", "0 to 7"]),
        (lambda b: b.embed_forward(np.array([0.5]), W_X), ["an index is 0.5"]),
        (lambda b: b.embed_backward_weights(np.zeros(2), W_X, (8, 5), bias=True), ["dy has shape (8, 5)", "(2, 5)"]),
        (lambda b: b.lstm_forward(SEQUENCE, CONT, W_X, None, W_H[:6]), ["w_h has shape (6, 2)", "(8, 2)"]),
        (lambda b: b.lstm_forward(SEQUENCE, CONT[:2], W_X, None, W_H), ["cont has shape (2, 2)", "(3, 2)"]),
        (lambda b: b.lstm_forward(SEQUENCE[:0], CONT[:0], W_X, None, W_H), ["at least one step"]),
        (lambda b: b.lstm_forward(SEQUENCE, CONT, W_X, None, W_H, h0=CONT), ["h0 has shape (3, 2)", "(2, 2)"]),
        (
            lambda b: b.lstm_backward(
                np.ones((3, 2, 2)), b.lstm_forward(SEQUENCE, CONT, W_X, None, W_H), SEQUENCE, CONT, W_X, W_H,
                out=LstmGradients(b=COLUMN),
            ),
            ["out.b has shape (4,)", "(8,)"],
        ),
        (
            lambda b: b.rnn_forward(SEQUENCE, CONT, W_X[:2], None, W_H[:2], W_X, None),
            ["w_o has shape (8, 5)", "(8, 2)"],
        ),
        (lambda b: b.adam_update(X, X, X, X, rate=1.0, step=0), ["step_number is 0", "at least 1"]),
        (lambda b: b.adagrad_update(X, X, X_F, rate=1.0), ["history is float32"]),
        (lambda b: b.nesterov_update(X, X, X, rate=1.0, momentum=0.9, out_h=X_F), ["out of history is float32"]),
        (lambda b: b.sgd_update(X, X, X, rate=1, momentum=0, decay=1, regularization="L3"), ["'L3'", "'L1', 'L2'"]),
        (lambda b: b.l2_norm_squared(np.ones(3, int)), ["x is int64"]),
    ],
)  # fmt: skip
def test_an_operation_refuses_malformed_input_and_reports_the_found_values(
    call, words, backend: Backend
):
    with pytest.raises(OpsError) as caught:
        call(backend)
    for word in words:
        assert word in str(caught.value)
