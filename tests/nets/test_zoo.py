"""Every net of the zoo loads with its solver and has the published shapes and sizes."""

import math

import numpy as np
import pytest

from nets import Net, NetError, load_net, load_solver
from nets.data import Batches, Transform, batch_of_net, open_source
from nets.definition.spec import ZOO
from nets.definition.zoo import NETS as IN_PYTHON
from ops import get_backend
from roles.learning.parameter_store import ParameterStore
from tests.nets.support import MODELS, backward, needs_shared

FILES = (file.stem for file in ZOO.glob("*.prototxt") if not file.stem.endswith("_solver"))
NETS = sorted({*FILES, *IN_PYTHON})
SOLVERS = sorted(file.stem for file in ZOO.glob("*_solver.prototxt"))
IMAGES = {
    "lenet": (1, 28, 28),
    "cifar10_quick": (3, 32, 32),
    "cifar10_full": (3, 32, 32),
    "resnet20": (3, 32, 32),
    "resnet56": (3, 32, 32),
    "airbench94": (3, 32, 32),
}

# LeCun et al. and BVLC; Krizhevsky; Lin et al.; Szegedy et al.; Simonyan and Zisserman; He et al.;
# Howard et al.; Sandler et al.
# The running statistics of BatchNorm (mean, variance, a factor) are counted separately.
PARAMETERS = {
    "lenet": 431_080,
    "cifar10_quick": 145_578,
    "cifar10_full": 89_578,
    "caffenet": 60_965_224,
    "alexnet": 60_965_224,
    "alexnet_owt": 61_100_840,
    "nin": 7_595_176,
    "googlenet": 13_378_280,
    "vgg16": 138_357_544,
    "vgg19": 143_667_240,
    "resnet20": 273_258,
    "resnet50": 25_557_032,
    "resnet18": 11_689_512,
    "resnet34": 21_797_672,
    "resnet50_tv": 25_557_032,
    "resnet56": 855_770,
    "resnext50_32x4d": 25_028_904,
    "vgg16_bn": 138_365_992,
    "densenet121": 7_978_856,
    "mobilenet_v2_tv": 3_504_872,
    "mobilenet_v3_small": 2_542_856,
    "mobilenet_v3_large": 5_483_032,
    "efficientnet_b0": 5_288_548,
    "regnet_y_400mf": 4_344_144,
    "convnext_tiny": 28_589_128,
    "airbench94": 1_971_640 + 1152,  # the scales of its norms, which do not learn
    "mobilenet_v1": 4_231_976,
    "mobilenet_v2": 3_504_872,
    "char_lstm": 65 * 64 + 4 * 256 * (64 + 256 + 1) + 65 * 257,
}

PUBLISHED = {
    "lenet": "lenet/lenet_train_test",
    "cifar10_quick": "cifar10_quick/cifar10_quick_train_test",
    "cifar10_full": "cifar10_full/cifar10_full_train_test",
    "caffenet": "bvlc_reference_caffenet/train_val",
    "alexnet": "bvlc_alexnet/train_val",
    "googlenet": "bvlc_googlenet/train_val",
    "nin": "nin_imagenet/train_val",
    "vgg16": "vgg16/train_val",
    "resnet20": "resnet20_cifar10/trainval",
}


def net_of(source, name, phase="TRAIN", **options):
    return Net(
        load_net(source),
        phase,
        ops=get_backend(),
        input_shape=IMAGES.get(name, (3, 256, 256)),
        **options,
    )


def learnt(net):
    """The number of learnable values, without BatchNorm's running statistics."""
    kinds = {layer.proto.name: layer.proto.type for layer in net.spec.layers}
    params = (p for layer, mine in net.params.items() for p in mine if kinds[layer] != "BatchNorm")
    return sum(math.prod(param.shape) for param in params)


def tops(net):
    """The shape of the first top of each layer with parameters."""
    return {
        layer.proto.name: net.shape(layer.proto.top[0])
        for layer in net.spec.layers
        if layer.proto.name in net.params
    }


@pytest.mark.parametrize("name", NETS)
def test_every_net_has_its_known_number_of_parameters_in_both_phases(name):
    assert [learnt(net_of(name, name, phase)) for phase in ("TRAIN", "TEST")] == [
        PARAMETERS[name]
    ] * 2


def test_a_mistake_in_a_net_in_python_names_the_net_not_the_zoos_own_code():
    name = "vgg16_bn(classes=10)"
    with pytest.raises(NetError) as caught:
        Net(load_net(name), "TEST", ops=get_backend("numpy"), batch=1, input_shape=(1, 2, 8, 8))
    assert all(problem.startswith(f"{name}: layer '") for problem in caught.value.problems)


def test_one_tower_has_the_papers_share_of_parameters_more():
    assert PARAMETERS["alexnet_owt"] / PARAMETERS["alexnet"] - 1 == pytest.approx(0.002, abs=0.0005)


@pytest.mark.parametrize("name", SOLVERS)
def test_every_solver_loads_with_its_net(name):
    solver = load_solver(name)
    assert solver.load_net().path.stem in NETS
    assert batch_of_net(solver.load_net(), "TRAIN") > 0
    assert solver.max_iter > 0 < solver.rate(solver.max_iter - 1) <= solver.rate(0)


def test_one_weird_tricks_own_solver_cuts_the_rate_at_each_quarter_of_90_epochs():
    solver = load_solver("alexnet_owt_paper")
    assert solver.max_iter * 128 / 1_281_167 == pytest.approx(90, rel=1e-6)
    for quarter in range(4):
        expected = 0.01 * 250 ** (-quarter / 3)
        first = math.ceil(quarter * solver.max_iter / 4)
        last = (quarter + 1) * solver.max_iter // 4 - 1
        assert [solver.rate(first), solver.rate(last)] == pytest.approx([expected] * 2, rel=1e-6)


@pytest.mark.parametrize("name", NETS)
def test_every_net_has_a_solver(name):
    assert f"{name}_solver" in SOLVERS


@needs_shared
@pytest.mark.parametrize("name", PUBLISHED)
def test_the_shapes_and_multipliers_equal_the_published_net(name):
    ours, theirs = (
        net_of(s, name, batch=4) for s in (name, MODELS / f"{PUBLISHED[name]}.prototxt")
    )
    assert list(ours.params) == list(theirs.params)
    for layer, params in theirs.params.items():
        assert [p.shape for p in ours.params[layer]] == [p.shape for p in params], layer
        # the published version gives biases the multipliers of weights; ours follows the other nets
        if name != "vgg16":
            assert [(p.lr_mult, p.decay_mult) for p in ours.params[layer]] == [
                (p.lr_mult, p.decay_mult) for p in params
            ], layer
    assert tops(ours) == tops(theirs)


@pytest.mark.parametrize(
    ("name", "classes"), [("cifar10_quick", 10), ("cifar10_full", 10), ("nin", 1000)]
)
def test_the_loss_of_an_untrained_net_is_the_logarithm_of_its_number_of_classes(name, classes):
    net = net_of(name, name, batch=2)
    rng = np.random.default_rng(0)
    images = rng.standard_normal(net.input_shapes["data"]).astype(np.float32)
    loss = net.run({"data": images, "label": np.zeros(2)}, net.initial_blobs())["loss"]
    assert loss == pytest.approx(math.log(classes), rel=0.1)


@pytest.mark.slow
def test_the_character_net_takes_the_text_source_and_learns(tmp_path):
    alphabet = "".join(chr(at) for at in range(33, 98))
    (tmp_path / "t.txt").write_text(alphabet * 70, "utf-8")
    spec = load_net("char_lstm")
    solver = load_solver("char_lstm")
    ops = get_backend()
    source = open_source({"format": "text", "source": "t.txt"}, tmp_path)
    batch = batch_of_net(spec, "TRAIN")
    batches = Batches(
        source, Transform.of_net(spec, "TRAIN"), batch, shuffle=True, seed=0, train=True
    )
    net = Net(spec, "TRAIN", ops=ops, input_shape=source.shape)
    store = ParameterStore(net.params, net.initial_blobs(), solver, ops)
    losses = []
    for step in range(25):
        blobs = {layer: store.read(layer) for layer in net.params}
        losses.append(
            net.run(dict(zip(net.inputs, batches.read(step, 0, batch), strict=True)), blobs, step)[
                "loss"
            ]
        )
        for layer, grads in backward(net).items():
            store.apply(layer, grads)
    assert losses[0] == pytest.approx(math.log(65), rel=0.05)
    assert losses[-1] < losses[0] - 0.3
