"""Operations whose destination may be one of their inputs: the result is the same in place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ops import Array, Backend, OpsError, get_backend
from ops.backends.cupy_backend import CupyBackend
from tests.ops.host_cupy import HostCupy

SHAPE = (3, 4, 5, 2)
G = np.linspace(0.5, 2, 4)
STEP = {"rate": 0.1, "decay": 0.01}
LRN = {"size": 3, "alpha": 0.5}
LABELS = np.arange(30).reshape(3, 5, 2) % 4

# (backend, x, other, destination)
CALLS: dict[str, Callable[[Backend, Array, Array, Array | None], Any]] = {
    "relu": lambda b, x, y, out: b.relu_forward(x, 0.1, out=out),
    "relu backward": lambda b, x, y, out: b.relu_backward(x, y, 0.1, out=out),
    "prelu": lambda b, x, y, out: b.prelu_forward(x, G, out=out),
    "prelu backward": lambda b, x, y, out: b.prelu_backward_data(x, y, G, out=out),
    "elu": lambda b, x, y, out: b.elu_forward(x, out=out),
    "elu backward": lambda b, x, y, out: b.elu_backward(x, y, y, out=out),
    "clip": lambda b, x, y, out: b.clip_forward(x, -0.5, 0.7, out=out),
    "clip backward": lambda b, x, y, out: b.clip_backward(x, y, -0.5, 0.7, out=out),
    "swish": lambda b, x, y, out: b.swish_forward(x, 1.5, out=out),
    "swish backward": lambda b, x, y, out: b.swish_backward(x, y, 1.5, out=out),
    "swish backward into x": lambda b, x, y, out: b.swish_backward(y, x, 1.5, out=out),
    "gelu": lambda b, x, y, out: b.gelu_forward(x, out=out),
    "gelu backward": lambda b, x, y, out: b.gelu_backward(x, y, out=out),
    "gelu tanh backward": lambda b, x, y, out: b.gelu_backward(x, y, tanh=True, out=out),
    "hard sigmoid": lambda b, x, y, out: b.hard_sigmoid_forward(x, out=out),
    "hard sigmoid backward": lambda b, x, y, out: b.hard_sigmoid_backward(x, y, out=out),
    "hard swish": lambda b, x, y, out: b.hard_swish_forward(x, out=out),
    "hard swish backward": lambda b, x, y, out: b.hard_swish_backward(x, y, out=out),
    "threshold": lambda b, x, y, out: b.threshold_forward(x, out=out),
    "sigmoid": lambda b, x, y, out: b.sigmoid_forward(x, out=out),
    "sigmoid backward": lambda b, x, y, out: b.sigmoid_backward(x, y, out=out),
    "sigmoid backward into y": lambda b, x, y, out: b.sigmoid_backward(y, x, out=out),
    "tanh": lambda b, x, y, out: b.tanh_forward(x, out=out),
    "tanh backward": lambda b, x, y, out: b.tanh_backward(x, y, out=out),
    "tanh backward into y": lambda b, x, y, out: b.tanh_backward(y, x, out=out),
    "bnll": lambda b, x, y, out: b.bnll_forward(x, out=out),
    "bnll backward": lambda b, x, y, out: b.bnll_backward(x, y, out=out),
    "power": lambda b, x, y, out: b.power_forward(x, 2.0, 3.0, 1.0, out=out),
    "power backward": lambda b, x, y, out: b.power_backward(x, y, 3.0, 2.0, 1.0, out=out),
    "exp": lambda b, x, y, out: b.exp_forward(x, 2.0, 3.0, 1.0, out=out),
    "exp backward": lambda b, x, y, out: b.exp_backward(x, y, 2.0, out=out),
    "log": lambda b, x, y, out: b.log_forward(x, 2.0, 1.0, 9.0, out=out),
    "log backward": lambda b, x, y, out: b.log_backward(x, y, 2.0, 1.0, 9.0, out=out),
    "log backward into x": lambda b, x, y, out: b.log_backward(y, x, 2.0, 1.0, 9.0, out=out),
    "absolute": lambda b, x, y, out: b.absolute_forward(x, out=out),
    "absolute backward": lambda b, x, y, out: b.absolute_backward(x, y, out=out),
    "dropout": lambda b, x, y, out: b.dropout(x, 0.5, 7, out=out),
    "dropped rows": lambda b, x, y, out: b.drop_rows(x, 0.5, 7, out=out),
    "scale": lambda b, x, y, out: b.scale_forward(x, G, G, out=out),
    "bias": lambda b, x, y, out: b.bias_forward(x, G, out=out),
    "eltwise product": lambda b, x, y, out: b.eltwise_forward([x, y], operation="PROD", out=out)[0],
    "eltwise sum": lambda b, x, y, out: b.eltwise_forward([x, y], coeffs=[2, 3], out=out)[0],
    "eltwise maximum": lambda b, x, y, out: b.eltwise_forward([x, y], operation="MAX", out=out)[0],
    "batch norm": lambda b, x, y, out: b.batch_norm_forward(x, out=out)[0],
    "batch norm backward": lambda b, x, y, out: b.batch_norm_backward(x, y, G, out=out),
    "group norm": lambda b, x, y, out: b.group_norm_forward(x, groups=2, out=out)[0],
    "group norm backward": lambda b, x, y, out: b.group_norm_backward(
        x, y, np.outer(G[:3], G[:2]), groups=2, out=out
    ),
    "layer norm": lambda b, x, y, out: b.layer_norm_forward(x, out=out)[0],
    "layer norm backward": lambda b, x, y, out: b.layer_norm_backward(x, y, y[:, 0], out=out),
    "mvn": lambda b, x, y, out: b.mvn_forward(x, out=out)[0],
    "mvn backward": lambda b, x, y, out: b.mvn_backward(x, y, None, out=out),
    "reduction backward": lambda b, x, y, out: b.reduction_backward(
        G[:3], x, operation="SUMSQ", axis=1, out=out
    ),
    "softmax": lambda b, x, y, out: b.softmax_forward(x, out=out),
    "softmax backward": lambda b, x, y, out: b.softmax_backward(x, y, out=out),
    "softmax backward into prob": lambda b, x, y, out: b.softmax_backward(y, x, out=out),
    "lrn": lambda b, x, y, out: b.lrn_forward(x, **LRN, out=out)[0],
    "lrn within": lambda b, x, y, out: b.lrn_forward(x, **LRN, region="WITHIN_CHANNEL", out=out)[0],
    "lrn backward": lambda b, x, y, out: b.lrn_backward(x, y, y, 1 + y * y, **LRN, out=out),
    "cross-entropy backward": lambda b, x, y, out: b.sigmoid_cross_entropy_backward(x, y, out=out),
    "euclidean backward": lambda b, x, y, out: b.euclidean_backward(x, loss_weight=3.0, out=out),
    "hinge backward": lambda b, x, y, out: b.hinge_backward(x, LABELS, norm="L2", out=out),
    "infogain backward": lambda b, x, y, out: b.infogain_backward(
        x, LABELS, np.outer(G, G), out=out
    ),
    "nesterov": lambda b, x, y, out: b.nesterov_update(
        x, y, y * 2, momentum=0.9, **STEP, out_w=out
    )[0],
    "nesterov history": lambda b, x, y, out: b.nesterov_update(
        y, y * 2, x, momentum=0.9, **STEP, out_h=out
    )[1],
    "adagrad": lambda b, x, y, out: b.adagrad_update(x, y, y * y, **STEP, out_w=out)[0],
    "rmsprop history": lambda b, x, y, out: b.rmsprop_update(y, y * 2, x, **STEP, out_h=out)[1],
    "adadelta": lambda b, x, y, out: b.adadelta_update(
        x, y, y * y, y * y, momentum=0.9, **STEP, out_w=out
    )[0],
    "adam": lambda b, x, y, out: b.adam_update(x, y, y, y * y, step=2, **STEP, out_w=out)[0],
    "adam mean": lambda b, x, y, out: b.adam_update(y, y * 2, x, y * y, step=2, **STEP, out_m=out)[
        1
    ],
    "sgdw": lambda b, x, y, out: b.sgdw_update(x, y, y * 2, momentum=0.9, **STEP, out_w=out)[0],
    "nesterovw history": lambda b, x, y, out: b.sgdw_update(
        y, y * 2, x, momentum=0.9, nesterov=True, **STEP, out_h=out
    )[1],
    "adamw": lambda b, x, y, out: b.adamw_update(x, y, y, y * y, step=2, **STEP, out_w=out)[0],
    "adamw mean": lambda b, x, y, out: b.adamw_update(
        y, y * 2, x, y * y, step=2, **STEP, out_m=out
    )[1],
    "lars": lambda b, x, y, out: b.lars_update(x, y, y * 2, momentum=0.9, **STEP, out_w=out)[0],
    "lars history": lambda b, x, y, out: b.lars_update(
        y, y * 2, x, momentum=0.9, **STEP, out_h=out
    )[1],
    "muon": lambda b, x, y, out: b.muon_update(x, y, y * 2, momentum=0.9, **STEP, out_w=out)[0],
    "muon history": lambda b, x, y, out: b.muon_update(
        y, y * 2, x, momentum=0.9, **STEP, out_h=out
    )[1],
    "moving average": lambda b, x, y, out: b.moving_average(x, y, 0.9, out=out),
}


def backends() -> list[Backend]:
    try:
        return [get_backend("numpy"), CupyBackend(xp=HostCupy())]
    except OpsError:
        return [get_backend("numpy")]


@pytest.mark.parametrize("call", CALLS)
def test_a_destination_may_be_the_input_it_replaces(call, random):
    for backend in backends():
        x, y = random.standard_normal((2, *SHAPE))
        x = abs(x) if "history" in call else x
        expected = CALLS[call](backend, x.copy(), y.copy(), None)
        kept = y.copy()
        got = CALLS[call](backend, x, y, x)
        np.testing.assert_allclose(got, expected, rtol=1e-12)
        np.testing.assert_array_equal(y, kept)
        assert got is x
