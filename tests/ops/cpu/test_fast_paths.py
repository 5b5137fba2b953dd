"""The contract again, where the CPU backend must not fall back: the reference's functions are
disabled.

Some cases run with every result written past the caches, as otherwise only large results are.
"""

from __future__ import annotations

import numpy as np
import pytest

from ops import OpsError, get_backend
from ops.cpu.elementwise import pooling
from ops.cpu.team import operands, streams
from ops.cpu.team.image_layout import empty_images
from ops.cpu.team.operands import kind_of
from ops.geometry import ConvGeometry
from ops.reference import (
    activation,
    broadcast,
    eltwise,
    fused,
    gates,
    loss,
    lrn,
    normalise,
    philox,
    pool,
    rearrange,
    reduction,
    row_norm,
    update,
)
from tests.contracts.test_backends import (
    compare,
    destinations,
    placed,
    prepared,
    tolerance,
    upstream,
)
from tests.ops.cases import CASES
from tests.ops.cases.case import Outs
from tests.ops.conftest import channels_last
from tests.ops.cpu.conftest import cpu

REPLACED = [
    (activation, "relu_forward relu_backward clip_forward clip_backward"),
    (
        broadcast,
        ("scale_forward scale_backward_data scale_backward_weights bias_forward bias_backward"),
    ),
    (eltwise, "forward backward"),
    (fused, "norm_scale_forward norm_scale_backward rectified_sums"),
    (
        gates,
        (
            "swish_forward swish_backward gelu_forward gelu_backward hard_sigmoid_forward "
            "hard_sigmoid_backward hard_swish_forward hard_swish_backward"
        ),
    ),
    (loss, "softmax_forward loss_forward loss_backward"),
    (lrn, "forward backward"),
    (normalise, "batch_norm_forward batch_norm_backward"),
    (philox, "dropout"),
    (pool, "forward backward"),
    (rearrange, "flatten unflatten copy"),
    (reduction, "channel_sums"),
    (
        row_norm,
        "group_norm_forward group_norm_backward layer_norm_forward layer_norm_backward",
    ),
    (update, "sgd nesterov adagrad rmsprop adam add"),
]
BEGINNINGS = (
    "relu",
    "clip",
    "swish",
    "gelu",
    "hard s",
    "dropout",
    "eltwise SUM",
    "add",
    "scale (3,) from axis 1",
    "bias (3,) from axis 1",
    "norm, scale",
    "rectified sums",
    "batch norm",
    "group norm (7, 6, 4, 5)",
    "layer norm (7, 6, 4, 5)",
    "layer norm (5, 8)",
    "pooling",
    "flatten (7, 3",
    "flatten (2",
    "flatten (3",
    "flatten (1, 97",
    "sums per channel (7",
    "sgd",
    "nesterov",
    "adagrad",
    "rmsprop",
    "adam",
    "softmax loss (1,",
    "softmax loss (13",
)
# these operations write to their histories
UPDATES = ("sgd", "nesterov", "adagrad", "rmsprop", "adam")
CHOSEN = [
    c
    for c in CASES
    if c.name.startswith(BEGINNINGS) or (c.name.startswith("LRN") and "ACROSS" in c.name)
]


@pytest.fixture
def alone(monkeypatch):
    """Disable the reference, so that a fallback fails."""

    def refuse(*arguments, **options):
        raise AssertionError("the reference was called")

    for module, names in REPLACED:
        for name in names.split():
            monkeypatch.setattr(module, name, refuse)


@pytest.fixture(params=["into the caches", "past the caches"])
def way(request, monkeypatch):
    if request.param == "past the caches":
        for module in (operands, streams, pooling):
            monkeypatch.setattr(module, "LARGE", 1)
    return request.param


def contract_in_place(case, backend, layout) -> None:
    host, arrays = prepared(backend, case, np.float32, layout)
    if not case.name.startswith(UPDATES):
        for array in arrays.values():
            array.flags.writeable = False  # arrays of a message are read-only too
    expected = case.reference(host)
    results = case.forward(backend, arrays, Outs())
    outs = destinations(backend, results, layout, case.no_out)
    again = case.forward(backend, arrays, outs)
    compare(backend, again, expected, tolerance(case, np.float32))
    if case.backward is not None:
        dy = upstream(case, results[0], np.float32)
        dy = dy if isinstance(dy, float) else placed(backend, dy, layout)
        gradients = case.backward(backend, arrays, dy, Outs())
        given = case.backward(
            backend, arrays, dy, destinations(backend, tuple(gradients), layout, case.no_out_back)
        )
        compare(backend, tuple(given), tuple(gradients), 1e-6)


def test_the_cases_are_all_there():
    assert len(CHOSEN) > 100


@pytest.mark.parametrize("case", CHOSEN, ids=str)
def test_channels_last_images_never_fall_back(case, alone, way):
    for threads in (1, 2):
        contract_in_place(case, cpu(threads), channels_last)


def test_cases_beyond_the_kernels_are_still_computed_by_the_reference(fast, monkeypatch):
    seen = []
    right = activation.relu_forward
    monkeypatch.setattr(activation, "relu_forward", lambda *a: seen.append(a) or right(*a))
    x = np.array([[-1.0, 2.0]])
    assert fast.relu_forward(x).tolist() == [[0.0, 2.0]]
    assert len(seen) == 1


@pytest.mark.parametrize("written", ["y", "dx", "dw", "db"])
def test_a_convolution_computed_before_still_refuses_a_read_only_destination(written: str) -> None:
    ops = get_backend("cpu", threads=1)
    geometry = ConvGeometry(kernel=(3, 3))
    x, dx = (empty_images((2, 16, 6, 6)) for _ in range(2))
    y, dy = (empty_images((2, 8, 4, 4)) for _ in range(2))
    x[...] = dy[...] = 1
    w = np.ones((8, 16, 3, 3), np.float32)
    dw, db = np.empty_like(w), np.empty(8, np.float32)

    def compute() -> None:
        ops.conv_forward(x, w, None, geometry, y)
        ops.conv_backward_data(dy, w, geometry, x.shape, dx)
        ops.conv_backward_weights(x, dy, geometry, w.shape, bias=True, out_w=dw, out_b=db)

    compute()
    compute()
    {"y": y, "dx": dx, "dw": dw, "db": db}[written].flags.writeable = False
    with pytest.raises(OpsError, match="read-only"):
        compute()


def test_arrays_that_differ_in_alignment_alone_are_of_two_kinds() -> None:
    memory = np.zeros(80, np.uint8)
    start = -memory.ctypes.data % 8
    even, odd, far = (memory[start + at : start + at + 64].view(np.float32) for at in (0, 1, 8))
    assert kind_of(even) == kind_of(far)  # what was decided for one holds for the other
    assert kind_of(even) != kind_of(odd)  # no kernel takes it
