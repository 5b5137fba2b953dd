"""Values that a net on a GPU stores in bfloat16: which ones, their bytes, and the numbers of a pass,
with the kernels of the CuPy backend compiled for the processor."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nets import Net, load_net
from ops import BFLOAT16, OpsError, get_backend
from ops.backends.cupy_backend import CupyBackend
from tests.nets.support import spec_of
from tests.nets.test_joins import layer
from tests.nets.test_memory import check_same, one_pass
from tests.nets.test_storage import (
    AVERAGE,
    CONV,
    DENSE,
    GLOBAL,
    HEAD,
    RESIDUAL,
    block,
    narrow,
    off,
)
from tests.ops.host_cupy import HostCupy

# Swish, since the gradient of a ReLU jumps where rounding moves a number past 0
CONVOLUTIONS = (
    HEAD
    + layer("conv1", "Convolution", "data", "a", CONV)
    + block("a", "a")
    + layer("conv2", "Convolution", "a", "b", CONV)
    + layer("conv3", "Convolution", "b", "c", CONV.replace("bias_term: false", "group: 24"))
    + layer("relu", "ReLU", "c", "c")
    + layer("sum", "Eltwise", "c a", "d")
    + layer("lrn", "LRN", "d", "e")
    + layer("pool", "Pooling", "e", "f", AVERAGE)
    + layer("drop", "Dropout", "f", "f", "dropout_param { dropout_ratio: 0.2 }")
    + layer("mean", "Pooling", "f", "g", GLOBAL)
    + layer("fc", "InnerProduct", "g", "fc", DENSE)
    + layer("loss", "SoftmaxWithLoss", "fc label", "loss")
).replace('type: "ReLU"', 'type: "Swish"')


def net_of(tmp_path: Path, text: str, precision: str, **options) -> Net:
    try:
        ops = CupyBackend(xp=HostCupy(), precision=precision)
    except OpsError as missing:
        pytest.skip(str(missing))
    return Net(spec_of(tmp_path, text), "TRAIN", ops=ops, seed=3, **options)


@pytest.mark.parametrize(
    ("text", "stored"),
    [
        (RESIDUAL, {"first", "a", "b", "c", "e"}),
        (CONVOLUTIONS, {"a", "b", "c", "d", "e", "f"}),
    ],
    ids=["normalised sums", "convolutions"],
)
def test_a_pass_has_nearly_the_numbers_of_float32(
    tmp_path: Path, text: str, stored: set[str]
) -> None:
    assert narrow(net_of(tmp_path, text, "tf32")) == set()
    net = net_of(tmp_path, text, "bf16")
    assert narrow(net) == stored
    expected, gradients = one_pass(net_of(tmp_path, text, "full"), 0)
    scores, found = one_pass(net, 0)
    assert scores["loss"] == pytest.approx(expected["loss"], rel=0.01)
    assert scores != expected
    for ours, theirs in zip(found, gradients, strict=True):
        assert ours.dtype == np.float32
        assert off(ours, theirs) < 0.03
    check_same(net, net_of(tmp_path, text, "bf16", memory="reused"))


def test_resnet_50_takes_at_most_0_6_of_the_bytes_of_float32() -> None:
    sizes = {}
    for precision in ("tf32", "bf16"):
        ops = get_backend("cupy plan", precision=precision)
        net = Net(
            load_net("resnet50"),
            "TRAIN",
            ops=ops,
            batch=32,
            input_shape=(3, 256, 256),
            memory="reused",
        )
        assert net.memory_plan is not None
        sizes[precision] = net.memory_plan.size
        wide = [region for region in net.memory_plan.regions if region.dtype != BFLOAT16]
    assert sizes["bf16"] <= 0.6 * sizes["tf32"]
    # the images of the data layer are float32, and so is what the classifier reads
    assert {len(region.shape) for region in wide if region.key == "top"} <= {2, 4}
