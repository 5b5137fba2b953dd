"""Convolution of the CPU backend with a `b_p`: the result is the same for any number of images at
once and any number of threads."""

from __future__ import annotations

import numpy as np
import pytest

from ops import ConvGeometry, OpsError, get_backend
from ops.cpu.conv.lowered import Lane
from tests.ops.conftest import nans
from tests.ops.cpu.test_gemm import close

# geometry, x, outputs
CASES = [
    (ConvGeometry((3, 3), pad=(1, 1)), (7, 3, 9, 8), 20),
    (ConvGeometry((5, 5), pad=(2, 2), groups=2), (13, 6, 9, 8), 4),
    (ConvGeometry((4, 3), stride=(3, 2)), (5, 3, 13, 11), 7),
    (ConvGeometry((1, 1)), (1, 20, 3, 3), 50),
]


@pytest.mark.parametrize("b_p", [1, 2, 3, 100])
@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_all_passes_agree_with_float64(random, case, threads, b_p) -> None:
    geometry, in_shape, outputs = case
    backend = get_backend("cpu", b_p=b_p, threads=threads)
    reference = get_backend("numpy")
    w_shape = (outputs, in_shape[1] // geometry.groups, *geometry.kernel)
    x, w, b = (random.standard_normal(shape) for shape in (in_shape, w_shape, (outputs,)))
    y = reference.conv_forward(x, w, b, geometry, rectify=True)
    dy = random.standard_normal(y.shape)
    x32, w32, b32, dy32 = (a.astype("f") for a in (x, w, b, dy))
    for given in (False, True):
        into, back = (nans(y.shape, "f"), nans(in_shape, "f")) if given else (None, None)
        sums = {"out_w": nans(w_shape, "f"), "out_b": nans((outputs,), "f")} if given else {}
        close(backend.conv_forward(x32, w32, b32, geometry, into, rectify=True), y)
        dx = backend.conv_backward_data(dy32, w32, geometry, in_shape, back)
        close(dx, reference.conv_backward_data(dy, w, geometry, in_shape))
        found = backend.conv_backward_weights(x32, dy32, geometry, w_shape, bias=True, **sums)
        for one, other in zip(
            found, reference.conv_backward_weights(x, dy, geometry, w_shape, bias=True), strict=True
        ):
            close(one, other)


@pytest.mark.parametrize(
    ("b_p", "threads", "parts"), [(1, 2, [7]), (2, 2, [3, 4]), (5, 3, [2, 2, 3]), (9, 9, [1] * 7)]
)
def test_each_thread_has_its_images_and_b_p_1_leaves_the_lowering_to_one(
    monkeypatch, b_p, threads, parts
) -> None:
    backend = get_backend("cpu", b_p=b_p, threads=threads)
    geometry = ConvGeometry((2, 2))
    lowered = {}
    multiply = Lane.matmul

    def counted(lane, a, b, out=None):
        lowered[lane] = lowered.get(lane, 0) + b.shape[1] // 4
        return multiply(lane, a, b, out)

    monkeypatch.setattr(Lane, "matmul", counted)
    backend.conv_forward(np.ones((7, 1, 3, 3), "f"), np.ones((1, 1, 2, 2), "f"), None, geometry)
    assert sorted(lowered.values()) == parts


def test_a_mistake_is_reported_for_the_whole_batch() -> None:
    backend = get_backend("cpu", b_p=2, threads=2)
    with pytest.raises(OpsError, match=r"out has shape \(4, 1, 3, 3\), expected \(4, 1, 2, 2\)"):
        x = np.ones((4, 1, 3, 3), "f")
        backend.conv_forward(x, np.ones((1, 1, 2, 2), "f"), None, ConvGeometry((2, 2)), x)
