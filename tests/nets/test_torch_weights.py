"""The zoo's nets in Python beside torchvision's, with the same random weights: scores, numbers of
parameters, gradients, and weights that return to torch bit for bit."""

from dataclasses import replace

import numpy as np
import pytest

from nets import Net, load_net
from nets.files.torch_names import from_torch
from nets.files.weights import load_weights, match, write_weights
from ops import get_backend
from tests.helpers.torch_zoo import timm, torchvision_models
from tests.nets.support import backward

SIDES = {
    "resnet18": 64,
    "mobilenet_v3_small": 64,
    "resnet34": 64,
    "resnet50_tv": 64,
    "resnext50_32x4d": 64,
    "resnet56": 32,
    "vgg16_bn": 32,
    "densenet121": 64,
    "mobilenet_v2_tv": 64,
    "mobilenet_v3_large": 64,
    "efficientnet_b0": 64,
    "regnet_y_400mf": 64,
    "convnext_tiny": 64,
}
ROWS = 2
FEW = pytest.mark.few("[resnet18]", "[mobilenet_v3_small]")
DROPPING = ("Dropout", "StochasticDepth")


def built(models, name):
    """The net of torchvision that has our net's name, or, for CIFAR, is made of its blocks."""
    if name != "resnet56":
        return getattr(models, name.removesuffix("_tv"))(weights=None)
    import torch
    from torchvision.models.resnet import BasicBlock

    made = models.ResNet(BasicBlock, [9, 9, 9, 1], num_classes=10)
    made.conv1 = torch.nn.Conv2d(3, 16, 3, padding=1, bias=False)
    made.bn1 = torch.nn.BatchNorm2d(16)
    made.maxpool = made.layer4 = torch.nn.Identity()
    made.inplanes = 16
    for at, (width, stride) in enumerate(((16, 1), (32, 2), (64, 2)), 1):
        setattr(made, f"layer{at}", made._make_layer(BasicBlock, width, 9, stride))
    made.fc = torch.nn.Linear(64, 10)
    return made


def peer_of(name, seed=0):
    """torch's net with random weights and running statistics."""
    models = torchvision_models()
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(seed)
    net = built(models, name)
    with torch.no_grad():
        for key, value in net.state_dict().items():
            if key.endswith("running_mean"):
                value.normal_(0, 0.1)
            elif key.endswith("running_var"):
                value.uniform_(0.5, 1.5)
            elif key.endswith("layer_scale"):
                value.uniform_(0.1, 0.5)
            elif value.is_floating_point() and value.ndim == 1:
                value.add_(0.1 * torch.randn_like(value))
    return net


def state_of(peer):
    return {key: value.numpy().copy() for key, value in peer.state_dict().items()}


def without_dropping(spec):
    """The net with ratios of 0 in the layers that draw random numbers."""
    layers = []
    for layer in spec.layers:
        proto = type(layer.proto)()
        proto.CopyFrom(layer.proto)
        if proto.type in DROPPING:
            proto.type = "StochasticDepth"  # which allows a ratio of 0
            proto.dropout_param.dropout_ratio = 0
        layers.append(replace(layer, proto=proto))
    return replace(spec, layers=tuple(layers))


def net_of(name, phase, **options):
    side = SIDES[name]
    return Net(
        without_dropping(load_net(f"{name}(image={side})")),
        phase,
        ops=get_backend("numpy"),
        input_shape=(3, side, side),
        batch=ROWS,
        seed=1,
        **options,
    )


def images_of(name, dtype=np.float32):
    side = SIDES[name]
    return np.random.default_rng(0).standard_normal((ROWS, 3, side, side)).astype(dtype)


def scores_of(peer, images):
    import torch

    with torch.no_grad():
        return peer.eval()(torch.from_numpy(images)).numpy()


@FEW
@pytest.mark.parametrize("name", SIDES)
def test_the_scores_are_torchs(name):
    peer = peer_of(name)
    net = net_of(name, "TEST")
    found = match(from_torch(state_of(peer), net.spec.layers).weights, net.params, "state")
    assert (found.missing, found.extra) == ((), ())
    images = images_of(name)
    net.run({"data": images, "label": np.zeros(ROWS)}, found.blobs)
    scores = net.blob(net.spec.layers[-1].proto.bottom[0])
    expected = scores_of(peer, images)
    assert np.abs(scores - expected).max() < 1e-4 * np.abs(expected).max()


@FEW
@pytest.mark.parametrize("name", SIDES)
def test_the_gradients_are_torchs(name):
    peer = peer_of(name).double().train()
    import torch

    for module in peer.modules():
        if type(module).__name__ in DROPPING:
            module.p = 0.0
    net = net_of(name, "TRAIN", dtype=np.dtype(np.float64))
    blobs = match(from_torch(state_of(peer), net.spec.layers).weights, net.params, "state").blobs
    images = images_of(name, np.float64)
    labels = np.array([1, 2])
    net.run({"data": images, "label": labels}, blobs)
    ours = backward(net)
    torch.nn.functional.cross_entropy(
        peer(torch.from_numpy(images)), torch.from_numpy(labels)
    ).backward()
    theirs = {key: value.grad.numpy() for key, value in peer.named_parameters()}
    kinds = {layer.proto.name: layer.proto.type for layer in net.spec.layers}
    expected = from_torch(theirs, net.spec.layers).weights
    learnt = {layer for layer in net.params if kinds[layer] != "BatchNorm"}
    assert learnt == expected.keys()
    for layer in learnt:
        for mine, other in zip(ours[layer], expected[layer], strict=True):
            largest = np.abs(other).max()
            assert np.abs(mine - other.reshape(mine.shape)).max() <= 1e-3 * largest + 1e-12, layer


@FEW
@pytest.mark.parametrize("name", SIDES)
def test_weights_that_return_to_torch_have_the_same_bits(name, tmp_path):
    peer = peer_of(name)
    import torch
    from safetensors.torch import load_file, save_file

    save_file(peer.state_dict(), tmp_path / "theirs.safetensors")
    net = net_of(name, "TRAIN")
    layers = net.spec.layers
    found = load_weights(tmp_path / "theirs.safetensors", net.params, layers)
    write_weights(tmp_path / "checkpoint.safetensors", found.blobs, net.spec)
    kept = load_weights(tmp_path / "checkpoint.safetensors", net.params, layers)
    for file, read in (("ours.safetensors", load_file), ("ours.pth", torch.load)):
        write_weights(tmp_path / file, kept.blobs, net.spec, torch=True)
        back = read(tmp_path / file)
        expected = {
            key: value
            for key, value in peer.state_dict().items()
            if not key.endswith("num_batches_tracked")
        }
        assert back.keys() == expected.keys()
        assert all(torch.equal(back[key], value) for key, value in expected.items())
        other = peer_of(name, seed=1)
        other.load_state_dict(back, strict=True)
        assert (scores_of(other, images_of(name)) == scores_of(peer, images_of(name))).all()


TIMM = {
    "resnet18": "resnet18",
    "mobilenet_v3_small": "mobilenetv3_small_100",
    "efficientnet_b0": "efficientnet_b0",
    "convnext_tiny": "convnext_tiny",
    "regnet_y_400mf": "regnety_004",
    "mobilenet_v2_tv": "mobilenetv2_100",
    "mobilenet_v3_large": "mobilenetv3_large_100",
    "vgg16_bn": "vgg16_bn",
    "densenet121": "densenet121",
    "resnet50_tv": "resnet50",
}


@FEW
@pytest.mark.parametrize("name", TIMM)
def test_timms_names_give_timms_scores(name):
    made = timm().create_model(TIMM[name]).eval()
    for module in made.modules():
        if name.startswith("mobilenet_v3") and hasattr(module, "eps"):
            module.eps = 1e-3  # torchvision's; the file does not have it
    net = net_of(name, "TEST")
    found = match(from_torch(state_of(made), net.spec.layers).weights, net.params, "state")
    assert (found.missing, found.extra) == ((), ())
    images = images_of(name)
    net.run({"data": images, "label": np.zeros(ROWS)}, found.blobs)
    scores = net.blob(net.spec.layers[-1].proto.bottom[0])
    expected = scores_of(made, images)
    assert np.abs(scores - expected).max() < 1e-4 * np.abs(expected).max()
