"""BatchNorm's running statistics: Caffe's blobs, changed by the parameter's own update rule."""

import numpy as np
import pytest

from nets import load_solver
from nets.graph.graph import Net
from ops import get_backend
from tests.nets.support import backward, spec_of

NET = """
layer { name: "d" type: "Data" top: "data" top: "label" data_param { batch_size: 6 } }
layer { name: "c" type: "Convolution" bottom: "data" top: "c"
  convolution_param { num_output: 3 kernel_size: 3 weight_filler { type: "xavier" } } }
layer { name: "bn" type: "BatchNorm" bottom: "c" top: "c" batch_norm_param { moving_average_fraction: 0.9 } }
layer { name: "sc" type: "Scale" bottom: "c" top: "c" scale_param { bias_term: true } }
layer { name: "r" type: "ReLU" bottom: "c" top: "c" }
layer { name: "i" type: "InnerProduct" bottom: "c" top: "i"
  inner_product_param { num_output: 4 weight_filler { type: "xavier" } } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "i" bottom: "label" top: "loss" }
"""


def net_of(tmp_path, phase="TRAIN", text=NET):
    return Net(
        spec_of(tmp_path, text), phase, ops=get_backend(), input_shape=(2, 5, 5), dtype=np.float64
    )


def batches(count):
    random = np.random.default_rng(3)
    return [
        (random.standard_normal((6, 2, 5, 5)) * 2 + 1, random.integers(0, 4, 6))
        for _ in range(count)
    ]


def apply(net, blobs, grads, solver, step):
    """Apply all updates except the convolution's, so that its outputs stay comparable."""
    new = dict(blobs)
    for layer in ("bn",):
        pairs = zip(net.params[layer], blobs[layer], grads[layer], strict=True)
        new[layer] = tuple(
            solver.update(net.ops, step, param, w, g, ())[0] for param, w, g in pairs
        )
    return new


@pytest.mark.parametrize("solver_name", ["lenet", "lenet_digits"])
def test_running_statistics_are_caffes_whatever_the_solver(tmp_path, solver_name):
    net = net_of(tmp_path)
    solver = load_solver(solver_name)
    blobs = net.initial_blobs()
    mean = np.zeros(3)
    variance = np.zeros(3)
    weight = 0.0
    for step, (images, labels) in enumerate(batches(3)):
        net.run({"data": images, "label": labels}, blobs, step)
        blobs = apply(net, blobs, backward(net), solver, step)
        w, b = blobs["c"]
        windows = np.lib.stride_tricks.sliding_window_view(images, (3, 3), (2, 3))
        out = np.einsum("nchwij,kcij->nkhw", windows, w) + b[:, None, None]
        count = out.size // 3
        mean = 0.9 * mean + out.mean((0, 2, 3))
        variance = 0.9 * variance + out.var((0, 2, 3)) * count / (count - 1)
        weight = 0.9 * weight + 1
    for found, expected in zip(blobs["bn"], (mean, variance, [weight]), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-6)  # the prototxt holds 0.9 in float32
    test = net_of(tmp_path, "TEST")
    test.run({"data": images, "label": labels}, blobs)
    normal = (out - (mean / weight)[:, None, None]) / np.sqrt(
        (variance / weight)[:, None, None] + 1e-5
    )
    np.testing.assert_allclose(test.blob("c"), np.maximum(normal, 0), rtol=1e-5, atol=1e-7)


def test_the_additions_of_workers_to_the_statistics_sum_to_their_average(tmp_path):
    net = net_of(tmp_path)
    blobs, (images, labels) = net.initial_blobs(), batches(1)[0]
    parts = []
    for low, high in ((0, 2), (2, 6)):
        net.begin(0, rows=(low, high))
        net.feed("data", images[low:high])
        net.feed("label", labels[low:high])
        for stage in net.stages:
            net.load(stage.layer, blobs[stage.layer])
            net.forward(stage)
        parts.append(backward(net)["bn"])
    mean, variance, weight = (a + b for a, b in zip(*parts, strict=True))
    net.run({"data": images, "label": labels}, blobs)
    whole = backward(net)["bn"]
    np.testing.assert_allclose(mean, whole[0])
    assert weight == whole[2] == 1
    assert (variance < whole[1] * 1.3).all()
    assert (variance > whole[1] * 0.7).all()


def test_statistics_are_counted_even_where_no_loss_depends_on_them(tmp_path):
    lonely = NET + 'layer { name: "z" type: "BatchNorm" bottom: "data" top: "z" }'
    net = net_of(tmp_path, text=lonely)
    images, labels = batches(1)[0]
    net.run({"data": images, "label": labels}, net.initial_blobs())
    np.testing.assert_allclose(backward(net)["z"][0], images.mean((0, 2, 3)))


def test_given_statistics_stay_unchanged(tmp_path):
    fixed = NET.replace("moving_average_fraction: 0.9", "use_global_stats: true")
    net = net_of(tmp_path, text=fixed)
    solver = load_solver("lenet")
    images, labels = batches(1)[0]
    blobs = net.initial_blobs() | {
        "bn": (np.array([1.0, 2, 3]), np.array([4.0, 5, 6]), np.array([2.0]))
    }
    net.run({"data": images, "label": labels}, blobs)
    after = apply(net, blobs, backward(net), solver, 0)
    assert all(np.array_equal(a, b) for a, b in zip(after["bn"], blobs["bn"], strict=True))


def test_statistics_have_no_history_and_are_marked_as_not_learned(tmp_path):
    net = net_of(tmp_path)
    solver = load_solver("lenet")
    for param in net.params["bn"]:
        assert (param.lr_mult, param.decay_mult, param.keep) == (0, 0, pytest.approx(0.9))
        assert solver.new_history(net.ops, param) == ()
    assert len(solver.new_history(net.ops, net.params["c"][0])) == 1
