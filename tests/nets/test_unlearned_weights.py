"""A weight whose rate is 0 keeps its value, so its gradient is not computed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nets import Net
from ops import get_backend
from ops.errors import Array
from tests.nets.support import backward, images_and_labels, spec_of

NET = """
layer { name: "data" type: "Input" top: "data" top: "label"
        input_param { shape { dim: 6 dim: 3 dim: 8 dim: 8 } shape { dim: 6 } } }
layer { name: "below" type: "Convolution" bottom: "data" top: "below"
        convolution_param { num_output: 5 kernel_size: 3 weight_filler { type: "xavier" } } }
layer { name: "conv" type: "Convolution" bottom: "below" top: "conv" RATES
        convolution_param { num_output: 4 kernel_size: 3 weight_filler { type: "xavier" } } }
layer { name: "wider" type: "Deconvolution" bottom: "conv" top: "wider" RATES
        convolution_param { num_output: 3 kernel_size: 2 weight_filler { type: "xavier" } } }
layer { name: "dense" type: "InnerProduct" bottom: "wider" top: "dense" RATES
        inner_product_param { num_output: 7 weight_filler { type: "xavier" } } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "dense" bottom: "label" top: "loss" }
"""
FIXED = "param { lr_mult: 0 } param { lr_mult: 2 }"


def gradients(folder: Path, rates: str, *, of_weights: bool = True) -> dict[str, list[Array]]:
    """The gradients of all parameters. Without `of_weights`, only the first layer may compute one
    of a weight."""
    ops = get_backend("cpu", threads=1)
    if not of_weights:
        of_first, first = ops.conv_backward_weights, (5, 3, 3, 3)

        def only_first(
            x: Array, dy: Array, geometry: object, shape: object, **more: object
        ) -> object:
            assert shape == first
            return of_first(x, dy, geometry, shape, **more)  # type: ignore[arg-type]

        def never(*arguments: object, **named: object) -> None:
            raise AssertionError("the gradient of a weight that does not learn")

        ops.conv_backward_weights = only_first  # type: ignore[method-assign,assignment]
        ops.deconv_backward_weights = never  # type: ignore[method-assign,assignment]
        ops.dense_backward_weights = never  # type: ignore[method-assign,assignment]
    spec = spec_of(folder, NET.replace("RATES", rates))
    net = Net(spec, "TRAIN", ops=ops, seed=1)
    images, labels = images_and_labels(6, shape=(3, 8, 8), classes=7)
    net.run({"data": images, "label": labels}, net.initial_blobs())
    return {layer: [array.copy() for array in of] for layer, of in backward(net).items()}


def test_only_gradients_that_are_used_are_computed_and_they_stay_the_same(tmp_path: Path) -> None:
    expected = gradients(tmp_path, "")
    found = gradients(tmp_path, FIXED, of_weights=False)
    for layer, (of_weight, of_bias) in expected.items():
        np.testing.assert_allclose(found[layer][1], of_bias, rtol=1e-5, atol=1e-7)
        if layer == "below":
            np.testing.assert_array_equal(found[layer][0], of_weight)
        else:
            assert of_weight.any()
            assert found[layer][0].shape == of_weight.shape
            assert not found[layer][0].any()


@pytest.mark.parametrize("layer", ["conv", "dense"])
def test_zeros_overwrite_what_a_buffer_held(tmp_path: Path, layer: str) -> None:
    spec = spec_of(tmp_path, NET.replace("RATES", FIXED))
    net = Net(spec, "TRAIN", ops=get_backend("cpu", threads=1), seed=1)
    images, labels = images_and_labels(6, shape=(3, 8, 8), classes=7)
    net.run({"data": images, "label": labels}, net.initial_blobs())
    buffers = {
        name: tuple(np.full(param.shape, np.nan, np.float32) for param in params)
        for name, params in net.params.items()
    }
    for stage in reversed(net.stages):
        net.backward(stage, buffers.get(stage.layer or ""))
    assert not buffers[layer][0].any()
    assert np.isfinite(buffers[layer][1]).all()
    assert buffers[layer][1].any()
