"""Parts of a net, and shares of a batch, compute the same numbers as the whole net."""

import itertools

import numpy as np
import pytest

from nets import NetError, load_net
from nets.graph.graph import Net
from ops import get_backend
from tests.nets.support import MODELS, backward, images_and_labels, lenet, needs_shared, spec_of


def whole_pass(net, blobs, images, labels, step=0):
    scalars = net.run({"data": images, "label": labels}, blobs, step=step)
    return scalars, backward(net)


def test_lenet_has_the_shapes_and_the_431080_parameters_of_bvlc():
    net = lenet()
    names = ("data", "conv1", "pool1", "conv2", "pool2", "ip1", "ip2", "loss")
    shapes = [net.shape(name) for name in names]
    assert shapes == [
        (64, 1, 28, 28),
        (64, 20, 24, 24),
        (64, 20, 12, 12),
        (64, 50, 8, 8),
        (64, 50, 4, 4),
        (64, 500),
        (64, 10),
        (),
    ]
    assert sum(blob.size for blobs in net.initial_blobs().values() for blob in blobs) == 431_080
    assert [(stage.layer, stage.layers) for stage in net.stages] == [
        ("conv1", ("conv1", "pool1")),
        ("conv2", ("conv2", "pool2")),
        ("ip1", ("ip1", "relu1")),
        ("ip2", ("ip2", "loss")),
    ]
    assert repr(net) == "<Net LeNet TRAIN part=all batch=64 stages=4 parameters=431080>"


def test_our_lenet_is_the_published_one():
    file = MODELS / "lenet" / "lenet_train_test.prototxt"
    if not file.exists():
        pytest.skip("the folder ../shared is not next to this checkout")
    theirs = Net(load_net(file), "TRAIN", ops=get_backend(), input_shape=(1, 28, 28))
    ours = lenet()

    def facts(net):
        return [
            (p.layer, p.name, p.shape, p.filler.type, p.lr_mult, p.decay_mult)
            for ps in net.params.values()
            for p in ps
        ]

    assert facts(theirs) == facts(ours)
    assert [s.layers for s in theirs.stages] == [s.layers for s in ours.stages]


@needs_shared
@pytest.mark.parametrize("phase", ["TRAIN", "TEST"])
def test_published_nets_of_the_supported_kinds_get_their_shapes(phase):
    vgg = Net(
        load_net(MODELS / "vgg16" / "train_val.prototxt"),
        phase,
        ops=get_backend(),
        input_shape=(3, 256, 256),
    )
    assert vgg.shape("pool5")[1:] == (512, 7, 7)
    assert (
        sum(int(np.prod(p.shape)) for params in vgg.params.values() for p in params) == 138_357_544
    )
    assert vgg.boundary == ["label", "pool5"]
    nin = Net(
        load_net(MODELS / "nin_imagenet" / "train_val.prototxt"),
        phase,
        ops=get_backend(),
        input_shape=(3, 256, 256),
    )
    assert nin.boundary == ["label", "pool4"]
    assert nin.shape("pool4")[1:] == (1000, 1, 1)


def test_conv_part_and_fc_part_equal_the_whole_net_to_the_last_bit():
    images, labels = images_and_labels(64)
    whole = lenet()
    conv = lenet(part="conv")
    fc = lenet(part="fc")
    blobs = whole.initial_blobs()
    for part in (conv, fc):
        for layer, arrays in part.initial_blobs().items():
            assert all(np.array_equal(a, b) for a, b in zip(arrays, blobs[layer], strict=True))
    scalars, expected = whole_pass(whole, blobs, images, labels)
    conv.run({"data": images, "label": labels}, blobs)
    assert conv.boundary == fc.boundary == fc.inputs == ["label", "pool2"]
    assert conv.boundary_grads == fc.boundary_grads == ["pool2"]
    assert fc.run({name: conv.blob(name) for name in conv.boundary}, blobs) == scalars
    found = backward(fc)
    conv.set_grad("pool2", fc.grad("pool2"))
    found |= backward(conv)
    assert found.keys() == expected.keys()
    for layer, arrays in expected.items():
        assert all(np.array_equal(a, b) for a, b in zip(found[layer], arrays, strict=True)), layer


@pytest.mark.parametrize("workers", [1, 2, 3, 4])
def test_gradients_of_row_shares_add_up_to_the_gradient_of_the_batch(workers):
    images, labels = images_and_labels(10)
    whole = lenet(batch=10)
    share = lenet(batch=10)
    blobs = whole.initial_blobs()
    scalars, expected = whole_pass(whole, blobs, images, labels)
    cuts = np.linspace(0, 10, workers + 1).astype(int)
    total = {}
    loss = 0.0
    for low, high in itertools.pairwise(cuts):
        share.begin(0, rows=(int(low), int(high)))
        share.feed("data", images[low:high])
        share.feed("label", labels[low:high])
        for stage in share.stages:
            share.load(stage.layer, blobs[stage.layer])
            share.forward(stage)
        loss += share.scalars()["loss"] * (high - low) / 10
        for layer, grads in backward(share).items():
            total[layer] = [
                a + b for a, b in zip(total.get(layer, [0] * len(grads)), grads, strict=True)
            ]
    assert loss == pytest.approx(scalars["loss"], rel=1e-5)
    for layer, grads in expected.items():
        for found, grad in zip(total[layer], grads, strict=True):
            np.testing.assert_allclose(found, grad, rtol=1e-5, atol=1e-5 * np.abs(grad).max())


def reference_step(blobs, images, labels):
    """LeNet in float64 by direct loops over kernel positions, written without `ops`. Returns (loss,
    gradients)."""
    (w1, b1), (w2, b2), (w3, b3), (w4, b4) = (
        blobs[name] for name in ("conv1", "conv2", "ip1", "ip2")
    )

    def conv(x, w, b):
        size = x.shape[2] - 4
        y = np.zeros((len(x), len(w), size, size)) + b[:, None, None]
        for i in range(5):
            for j in range(5):
                y += np.einsum("nchw,kc->nkhw", x[:, :, i : i + size, j : j + size], w[:, :, i, j])
        return y

    def conv_back(x, w, dy):
        size = dy.shape[2]
        dw = np.zeros_like(w)
        dx = np.zeros_like(x)
        for i in range(5):
            for j in range(5):
                window = (slice(None), slice(None), slice(i, i + size), slice(j, j + size))
                dw[:, :, i, j] = np.einsum("nchw,nkhw->kc", x[window], dy)
                dx[window] += np.einsum("nkhw,kc->nchw", dy, w[:, :, i, j])
        return dx, (dw, dy.sum((0, 2, 3)))

    def pool(x):
        return x.reshape(*x.shape[:2], x.shape[2] // 2, 2, x.shape[3] // 2, 2).max((3, 5))

    def pool_back(x, y, dy):
        big = [array.repeat(2, 2).repeat(2, 3) for array in (y, dy)]
        return np.where(x == big[0], big[1], 0)

    c1 = conv(images, w1, b1)
    p1 = pool(c1)
    c2 = conv(p1, w2, b2)
    p2 = pool(c2)
    flat = p2.reshape(len(p2), -1)
    hidden = np.maximum(flat @ w3.T + b3, 0)
    scores = hidden @ w4.T + b4
    prob = np.exp(scores - scores.max(1, keepdims=True))
    prob /= prob.sum(1, keepdims=True)
    rows = np.arange(len(labels))
    loss = -np.log(prob[rows, labels]).mean()
    d4 = prob.copy()
    d4[rows, labels] -= 1
    d4 /= len(labels)
    d3 = (d4 @ w4) * (hidden > 0)
    dc2 = pool_back(c2, p2, (d3 @ w3).reshape(p2.shape))
    dp1, g2 = conv_back(p1, w2, dc2)
    _, g1 = conv_back(images, w1, pool_back(c1, p1, dp1))
    ip1 = (d3.T @ flat, d3.sum(0))
    ip2 = (d4.T @ hidden, d4.sum(0))
    return loss, {"conv1": g1, "conv2": g2, "ip1": ip1, "ip2": ip2}


def test_loss_and_gradients_of_lenet_equal_an_independent_float64_computation():
    images, labels = images_and_labels(3, dtype=np.float64)
    net = lenet(batch=3, dtype=np.float64)
    blobs = net.initial_blobs()
    scalars, found = whole_pass(net, blobs, images, labels)
    loss, expected = reference_step(blobs, images, labels.astype(int))
    assert scalars["loss"] == pytest.approx(loss, rel=1e-12)
    for layer, grads in expected.items():
        for a, b in zip(found[layer], grads, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-14)


def test_arrays_that_travel_are_never_overwritten_by_the_next_pass():
    net = lenet(part="conv", batch=4)
    fc = lenet(part="fc", batch=4)
    blobs = lenet(batch=4).initial_blobs()
    kept = []
    for step in range(2):
        images, labels = images_and_labels(4, seed=step)
        net.run({"data": images, "label": labels}, blobs, step)
        fc.run({name: net.blob(name) for name in net.boundary}, blobs, step)
        grads = backward(fc)
        net.set_grad("pool2", fc.grad("pool2"))
        arrays = [net.blob("pool2"), fc.grad("pool2"), *grads["ip1"], *backward(net)["conv2"]]
        kept.append([(array, array.copy()) for array in arrays])
    assert all(np.array_equal(array, copy) for array, copy in kept[0])
    assert not any(np.shares_memory(a, b) for (a, _), (b, _) in zip(*kept, strict=True))


def test_parameters_and_inputs_are_never_written_to():
    images, labels = images_and_labels(4)
    net = lenet(batch=4)
    blobs = net.initial_blobs()
    for array in (images, labels, *(blob for pair in blobs.values() for blob in pair)):
        array.flags.writeable = False
    whole_pass(net, blobs, images, labels)


def test_gradients_are_written_into_the_given_arrays():
    images, labels = images_and_labels(4)
    net = lenet(batch=4)
    blobs = net.initial_blobs()
    _, expected = whole_pass(net, blobs, images, labels)
    net.run({"data": images, "label": labels}, blobs)
    for stage in reversed(net.stages):
        out = tuple(np.full(param.shape, np.nan, np.float32) for param in net.params[stage.layer])
        result = net.backward(stage, out)
        assert all(a is b for a, b in zip(result, out, strict=True))
        assert all(np.array_equal(a, b) for a, b in zip(out, expected[stage.layer], strict=True))


FAN_OUT = """
layer { name: "d" type: "Input" top: "data" top: "label"
  input_param { shape { dim: 4 dim: 2 dim: 6 dim: 6 } shape { dim: 4 dim: 1 dim: 1 } } }
layer { name: "c" type: "Convolution" bottom: "data" top: "c"
  convolution_param { num_output: 3 kernel_size: 3 weight_filler { type: "xavier" } } }
layer { name: "early" type: "InnerProduct" bottom: "c" top: "early"
  inner_product_param { num_output: 3 weight_filler { type: "xavier" } } }
layer { name: "r" type: "ReLU" bottom: "c" top: "c" }
layer { name: "late" type: "Pooling" bottom: "c" top: "late"
  pooling_param { pool: AVE global_pooling: true } }
layer { name: "l1" type: "SoftmaxWithLoss" bottom: "early" bottom: "label" top: "l1" loss_weight: 0.25 }
layer { name: "l2" type: "SoftmaxWithLoss" bottom: "late" bottom: "label" top: "l2" }
"""


def fan_out_loss(net, blobs, images, labels):
    return net.run({"data": images, "label": labels}, blobs)["loss"]


def test_gradients_of_a_blob_read_by_several_layers_add(tmp_path):
    net = Net(spec_of(tmp_path, FAN_OUT), "TRAIN", ops=get_backend(), dtype=np.float64)
    random = np.random.default_rng(0)
    images = random.standard_normal((4, 2, 6, 6))
    labels = random.integers(0, 3, (4, 1, 1))
    blobs = net.initial_blobs()
    fan_out_loss(net, blobs, images, labels)
    grads = backward(net)
    for layer in ("c", "early"):
        direction = random.standard_normal(blobs[layer][0].shape)
        step = 1e-6
        ends = [
            fan_out_loss(
                net,
                blobs | {layer: (blobs[layer][0] + sign * step * direction, blobs[layer][1])},
                images,
                labels,
            )
            for sign in (1, -1)
        ]
        assert (grads[layer][0] * direction).sum() == pytest.approx(
            (ends[0] - ends[1]) / (2 * step), rel=1e-6
        )


def test_the_total_loss_is_the_weighted_sum_of_all_losses(tmp_path):
    net = Net(spec_of(tmp_path, FAN_OUT), "TRAIN", ops=get_backend())
    images, _ = images_and_labels(4, shape=(2, 6, 6))
    scalars = net.run({"data": images, "label": np.zeros((4, 1, 1))}, net.initial_blobs())
    assert scalars["loss"] == pytest.approx(0.25 * scalars["l1"] + scalars["l2"])


IN_PLACE = """
layer { name: "d" type: "Data" top: "data" top: "label" data_param { batch_size: 6 } }
layer { name: "i" type: "InnerProduct" bottom: "data" top: "i"
  inner_product_param { num_output: 7 weight_filler { type: "xavier" } } }
layer { name: "r" type: "ReLU" bottom: "i" top: "%s" }
layer { name: "x" type: "Dropout" bottom: "%s" top: "%s" dropout_param { dropout_ratio: 0.4 } }
layer { name: "j" type: "InnerProduct" bottom: "%s" top: "j"
  inner_product_param { num_output: 3 weight_filler { type: "xavier" } } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "j" bottom: "label" top: "loss" }
"""


def test_working_in_place_changes_no_number(tmp_path):
    images, labels = images_and_labels(6, shape=(1, 4, 4), classes=3)
    results = []
    for names in (("i", "i", "i", "i"), ("r", "r", "x", "x")):
        net = Net(
            spec_of(tmp_path, IN_PLACE % names),
            "TRAIN",
            ops=get_backend(),
            input_shape=(1, 4, 4),
            seed=3,
        )
        results.append(whole_pass(net, net.initial_blobs(), images, labels, step=5))
    assert results[0][0] == results[1][0]
    for layer, grads in results[0][1].items():
        assert all(np.array_equal(a, b) for a, b in zip(grads, results[1][1][layer], strict=True))


def test_a_dropout_mask_depends_on_seed_step_and_row_only(tmp_path):
    net = Net(
        spec_of(tmp_path, IN_PLACE % ("r", "r", "x", "x")),
        "TRAIN",
        ops=get_backend(),
        input_shape=(1, 4, 4),
    )
    images, labels = images_and_labels(6, shape=(1, 4, 4), classes=3)
    blobs = net.initial_blobs()

    def dropped(step, low, high):
        net.begin(step, rows=(low, high))
        net.feed("data", images[low:high])
        net.feed("label", labels[low:high])
        for stage in net.stages:
            net.load(stage.layer, blobs[stage.layer])
            net.forward(stage)
        return net.blob("x").copy()

    whole = dropped(0, 0, 6)
    np.testing.assert_allclose(
        np.concatenate([dropped(0, 0, 1), dropped(0, 1, 4), dropped(0, 4, 6)]), whole, rtol=1e-6
    )
    assert not np.array_equal(dropped(1, 0, 6), whole)
    kept = net.blob("x") != 0
    np.testing.assert_allclose(net.blob("x")[kept], net.blob("r")[kept] / 0.6, rtol=1e-6)


def test_dropout_does_nothing_in_the_test_phase(tmp_path):
    net = Net(
        spec_of(tmp_path, IN_PLACE % ("r", "r", "x", "x")),
        "TEST",
        ops=get_backend(),
        input_shape=(1, 4, 4),
    )
    images, labels = images_and_labels(6, shape=(1, 4, 4), classes=3)
    net.run({"data": images, "label": labels}, net.initial_blobs())
    assert np.array_equal(net.blob("x"), net.blob("r"))


def test_layers_below_a_frozen_net_are_not_computed_backward(tmp_path):
    frozen = IN_PLACE.replace('top: "i"\n', 'top: "i" param { lr_mult: 0 } param { lr_mult: 0 }\n')
    net = Net(
        spec_of(tmp_path, frozen % ("r", "r", "x", "x")),
        "TRAIN",
        ops=get_backend(),
        input_shape=(1, 4, 4),
    )
    images, labels = images_and_labels(6, shape=(1, 4, 4), classes=3)
    _, grads = whole_pass(net, net.initial_blobs(), images, labels)
    assert not grads["i"][0].any()
    assert grads["j"][0].any()


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (
            lambda net: net.feed("dat", 0),
            "input 'dat': the net has no such input (did you mean 'data'?), it has data, label",
        ),
        (
            lambda net: net.feed("data", np.zeros((4, 1, 28, 27))),
            "input 'data': found shape (4, 1, 28, 27), expected (4, 1, 28, 28)",
        ),
        (
            lambda net: net.load("conv1", [np.zeros((20, 1, 5, 5))]),
            (
                "layer 'conv1': found parameters of shapes [(20, 1, 5, 5)], expected [(20, 1, 5, "
                "5), (20,)]"
            ),
        ),
        (
            lambda net: net.forward(net.stages[0]),
            ("blob 'data': read before it was fed in this pass"),
        ),
        (lambda net: net.begin(0, rows=(2, 5)), "rows: found [2, 5), expected a part of [0, 4)"),
        (
            lambda net: net.blob("pool3"),
            ("blob 'pool3': this part has no such blob (did you mean 'pool2'?)"),
        ),
        (
            lambda net: net.set_grad("label", 0),
            ("gradient of 'label': no gradient crosses here, expected one of: pool2"),
        ),
    ],
)
def test_wrong_use_of_a_net_reports_the_expected_use(act, message):
    net = lenet(batch=4)
    net.begin(0)
    with pytest.raises(NetError) as caught:
        act(net)
    assert str(caught.value) == message


def test_a_label_out_of_range_names_the_layer():
    net = lenet(batch=4)
    images, _ = images_and_labels(4)
    with pytest.raises(NetError, match=r"lenet.prototxt:\d+: layer 'loss': .*label is 11"):
        net.run({"data": images, "label": np.full(4, 11)}, net.initial_blobs())


def test_inputs_of_another_dtype_are_converted():
    net = lenet(batch=4)
    images, labels = images_and_labels(4)
    expected = net.run({"data": images, "label": labels}, net.initial_blobs())
    assert (
        net.run({"data": images.astype(float), "label": labels.astype(int)}, net.initial_blobs())
        == expected
    )
    assert net.blob("data").dtype == net.blob("label").dtype == np.float32
