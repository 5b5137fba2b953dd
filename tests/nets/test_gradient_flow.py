"""The start and the path of gradients: weighted tops, shares of rows, layers that pass a gradient
on unchanged."""

import numpy as np
import pytest

from nets.graph.graph import Net
from ops import get_backend
from tests.nets.support import backward, images_and_labels, spec_of

PASSED_ON = """
layer { name: "d" type: "Data" top: "data" top: "label" data_param { batch_size: 4 } }
layer { name: "a" type: "Convolution" bottom: "data" top: "a"
  convolution_param { num_output: 3 kernel_size: 6 weight_filler { type: "xavier" } } }
layer { name: "fa" type: "Flatten" bottom: "a" top: "fa" }
layer { name: "i" type: "InnerProduct" bottom: "data" top: "i"
  inner_product_param { num_output: 3 weight_filler { type: "xavier" } } }
layer { name: "sum" type: "Eltwise" bottom: "fa" bottom: "i" top: "sum" }
layer { name: "j" type: "InnerProduct" bottom: "sum" top: "j"
  inner_product_param { num_output: 3 weight_filler { type: "xavier" } } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "j" bottom: "label" top: "loss" }
"""


def test_a_gradient_that_a_layer_passes_on_by_reference_is_not_overwritten_by_the_next_pass(
    tmp_path,
):
    spec = spec_of(tmp_path, PASSED_ON)
    whole, conv, fc = (
        Net(spec, "TRAIN", ops=get_backend(), input_shape=(1, 6, 6), part=p)
        for p in ("all", "conv", "fc")
    )
    blobs = whole.initial_blobs()
    kept = []
    for step in range(2):
        images, labels = images_and_labels(4, shape=(1, 6, 6), classes=3, seed=step)
        conv.run({"data": images, "label": labels}, blobs, step)
        fc.run({name: conv.blob(name) for name in conv.boundary}, blobs, step)
        backward(fc)
        assert fc.boundary_grads == ["fa"]
        kept.append((fc.grad("fa"), fc.grad("fa").copy()))
    assert np.array_equal(*kept[0])


WEIGHTED = """
layer { name: "d" type: "Data" top: "data" top: "label" data_param { batch_size: 4 } }
layer { name: "c" type: "Convolution" bottom: "data" top: "c" loss_weight: 0.5
  convolution_param { num_output: 2 kernel_size: 3 weight_filler { type: "xavier" } } }
layer { name: "s" type: "Reduction" bottom: "c" top: "s" loss_weight: 0.1
  reduction_param { operation: SUMSQ } }
layer { name: "m" type: "Reduction" bottom: "c" top: "m" loss_weight: 3 reduction_param { operation: MEAN } }
layer { name: "l" type: "SoftmaxWithLoss" bottom: "c" bottom: "map" top: "l" loss_weight: 0 }
"""


def test_any_top_may_be_part_of_the_loss_and_shares_of_rows_add_up(tmp_path):
    text = WEIGHTED.replace(
        'layer { name: "l"',
        'layer { name: "t" type: "DummyData" top: "map" '
        "dummy_data_param { shape { dim: 4 dim: 3 dim: 3 } } }\nlayer { "
        'name: "l"',
    )
    net = Net(
        spec_of(tmp_path, text), "TRAIN", ops=get_backend(), input_shape=(1, 5, 5), dtype=np.float64
    )
    images, labels = images_and_labels(4, shape=(1, 5, 5), dtype=np.float64)
    blobs = net.initial_blobs()
    scalars = net.run({"data": images, "label": labels}, blobs)
    c = net.blob("c")
    assert scalars["loss"] == pytest.approx(0.5 * c.sum() + 0.1 * (c**2).sum() + 3 * c.mean())
    whole = backward(net)["c"]
    np.testing.assert_allclose(whole[1], (0.5 + 0.2 * c + 3 / c.size).sum((0, 2, 3)))
    total = 0
    for low, high in ((0, 1), (1, 4)):
        net.begin(0, rows=(low, high))
        net.feed("data", images[low:high])
        net.feed("label", labels[low:high])
        for stage in net.stages:
            if stage.layer:
                net.load(stage.layer, blobs[stage.layer])
            net.forward(stage)
        total = total + backward(net)["c"][0]
    np.testing.assert_allclose(total, whole[0])
