"""Every published net gets its shapes. Every published solver is read, or refused for a correct
reason."""

import math

import numpy as np
import pytest

from nets import load_net, load_solver
from nets.graph.graph import Net
from ops import get_backend
from tests.nets.support import MODELS, backward, needs_shared

pytestmark = needs_shared
NETS = sorted(
    str(file.relative_to(MODELS))
    for file in MODELS.rglob("*.prototxt")
    if "solver" not in file.name
)
SOLVERS = sorted(
    str(file.relative_to(MODELS)) for file in MODELS.rglob("*.prototxt") if "solver" in file.name
)

# The numbers of learnt parameters, from the papers and from Caffe. Flickr style is CaffeNet with 20
# classes, siamese is LeNet with 2 more outputs.
COUNTS = {
    "bvlc_alexnet": 60_965_224,
    "bvlc_reference_caffenet": 60_965_224,
    "feature_extraction": 60_965_224,
    "vgg16": 138_357_544,
    "lenet/lenet": 431_080,
    "cifar10_quick": 145_578,
    "cifar10_full": 89_578,
    "finetune_flickr_style": 60_965_224 - 4097 * (1000 - 20),
    "mnist_siamese": 431_080 + 2 * 10 + 2,
    "squeezenet_v1.0": 1_248_424,
    "nin_imagenet": 7_595_176,
    "bvlc_googlenet/deploy": 6_998_552,
    "bvlc_googlenet/train_val": 13_378_280,
    "mobilenet_v1": 4_231_976,
    "vgg_cnn_s": 102_908_520,
    "net_surgery/bvlc_caffenet_full_conv": 60_965_224,
}


SHAPES = {
    "hdf5_classification/": (4,), "mnist_siamese/": (2, 28, 28), "mnist_autoencoder/": (1, 28, 28),
    "lenet/": (1, 28, 28), "cifar10_": (3, 32, 32), "resnet20_cifar10/": (3, 32, 32),
}  # fmt: skip


def shape_of(name):
    return next((shape for key, shape in SHAPES.items() if name.startswith(key)), (3, 256, 256))


def net_of(name, phase, **options):
    stages = ("test-on-train",) if "autoencoder" in name else ()
    return Net(
        load_net(MODELS / name),
        phase,
        ops=get_backend(),
        input_shape=shape_of(name),
        stages=stages,
        **options,
    )


@pytest.mark.parametrize("phase", ["TRAIN", "TEST"])
@pytest.mark.parametrize("name", NETS)
def test_every_published_net_gets_its_shapes(name, phase):
    net = net_of(name, phase, batch=2)
    count = sum(
        math.prod(p.shape) for params in net.params.values() for p in params if p.keep is None
    )
    expected = next((value for key, value in COUNTS.items() if key in name), None)
    if expected is not None:
        assert count == expected
    for part in ("conv", "fc"):
        half = net_of(name, phase, batch=2, part=part)
        assert half.boundary == net.boundary


def test_googlenet_has_two_side_losses_of_weight_three_tenths():
    net = net_of("bvlc_googlenet/train_val.prototxt", "TRAIN", batch=2)
    weights = [weight for node in net.nodes for weight in node.layer.loss_weights if weight]
    assert weights == pytest.approx([0.3, 0.3, 1.0])
    assert net.boundary == ["label", "loss1/conv", "loss2/conv", "pool5/7x7_s1"]


@pytest.mark.parametrize("name", SOLVERS)
def test_every_published_solver_is_read_with_its_nets(name):
    solver = load_solver(MODELS / name)
    several = "autoencoder" in name or "consolidated" in name
    assert solver.rate(0) > 0
    assert len(solver.test_iters) == 1 + several
    # a script makes this solver's nets, and they were never published
    if "auto_solver" not in name:
        layers = [
            len(solver.load_net(test).for_phase("TEST" if several else "TRAIN").layers)
            for test in (None, 0)
        ]
        assert min(layers) > 3


DIFFERENTIATED = [
    "resnet20_cifar10/trainval.prototxt",
    "cifar10_full/cifar10_full_train_test.prototxt",
    "mnist_siamese/mnist_siamese_train_test.prototxt",
    "mnist_autoencoder/mnist_autoencoder.prototxt",
    "hdf5_classification/nonlinear_train_val.prototxt",
]


@pytest.mark.parametrize("name", DIFFERENTIATED)
def test_the_gradient_of_a_published_net_is_the_gradient_of_its_loss(name):
    net = net_of(name, "TRAIN", batch=3, dtype=np.float64)
    random = np.random.default_rng(0)
    labels = np.array([1.0, 0.0, 1.0])
    inputs = {n: labels if len(s) == 1 else random.random(s) for n, s in net.input_shapes.items()}
    blobs = {
        layer: tuple(blob + 0.05 * random.standard_normal(blob.shape) for blob in of)
        for layer, of in net.initial_blobs().items()
    }
    net.run(inputs, blobs)
    grads = backward(net)
    for layer in (next(iter(blobs)), list(blobs)[len(blobs) // 2]):
        # a small step, so that no ReLU of a deep net changes its sign
        direction = random.standard_normal(blobs[layer][0].shape)
        step = 1e-7
        direction *= net.params[layer][0].keep is None
        ends = [
            net.run(
                inputs,
                blobs | {layer: (blobs[layer][0] + sign * step * direction, *blobs[layer][1:])},
            )["loss"]
            for sign in (1, -1)
        ]
        learned = float((grads[layer][0] * direction).sum())
        assert learned == pytest.approx((ends[0] - ends[1]) / (2 * step), rel=1e-4, abs=1e-7), layer
