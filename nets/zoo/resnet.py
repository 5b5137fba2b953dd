"""Residual nets (He et al. 2015; Xie et al. 2017). Strides are at the 3 x 3 convolutions, as in
torchvision; the zoo's `resnet50` has them at the first 1 x 1, as in Caffe."""

from __future__ import annotations

from collections.abc import Callable

from nets.definition.builder import NetBuilder
from nets.zoo.modules import Modules

Block = Callable[[Modules, str, str, int, int], tuple[str, int]]


def resnet18(classes: int = 1000, image: int = 224) -> NetBuilder:
    """ResNet-18, 11 689 512 parameters."""
    return _photographs("resnet18", _basic, (2, 2, 2, 2), classes, image)


def resnet34(classes: int = 1000, image: int = 224) -> NetBuilder:
    """ResNet-34, 21 797 672 parameters."""
    return _photographs("resnet34", _basic, (3, 4, 6, 3), classes, image)


def resnet50_tv(classes: int = 1000, image: int = 224) -> NetBuilder:
    """ResNet-50 of torchvision, 25 557 032 parameters."""
    return _photographs("resnet50_tv", _bottleneck(), (3, 4, 6, 3), classes, image)


def resnext50_32x4d(classes: int = 1000, image: int = 224) -> NetBuilder:
    """ResNeXt-50 with 32 groups of 4 channels, 25 028 904 parameters."""
    return _photographs("resnext50_32x4d", _bottleneck(32, 4), (3, 4, 6, 3), classes, image)


def resnet56(classes: int = 10, image: int = 32) -> NetBuilder:
    """ResNet-56 for CIFAR-10 (He et al. 2015, section 4.2), with projections where the size
    changes, 855 770 parameters."""
    net = Modules("resnet56")
    x = net.images(image, 128, mean=(125.307, 122.961, 113.8575), deviation=(62.99, 62.09, 66.70))
    x = net.conv_norm("conv1", "bn1", x, 16, 3, "ReLU")
    x = _stages(net, _basic, x, 16, (9, 9, 9))
    return net.scores("fc", net.mean("avgpool", x), classes)


def _photographs(
    name: str, block: Block, depths: tuple[int, ...], classes: int, image: int
) -> NetBuilder:
    """A net for photographs: a stem that quarters the side, four stages, a dense layer."""
    net = Modules(name)
    x = net.conv_norm("conv1", "bn1", net.images(image, 32), 64, 7, "ReLU", stride=2)
    x = _stages(net, block, net.max_pool("maxpool", x, 3, 2, 1), 64, depths)
    return net.scores("fc", net.mean("avgpool", x), classes)


def _stages(net: Modules, block: Block, x: str, width: int, depths: tuple[int, ...]) -> str:
    """Stages of blocks. Each stage but the first halves the side and doubles the width."""
    inputs = width
    for stage, depth in enumerate(depths):
        for at in range(depth):
            name = f"layer{stage + 1}.{at}"
            stride = 2 if stage and not at else 1
            shortcut, channels = x, width << stage
            x, outputs = block(net, name, x, channels, stride)
            if stride > 1 or outputs != inputs:
                down = f"{name}.downsample"
                shortcut = net.conv_norm(
                    f"{down}.0", f"{down}.1", shortcut, outputs, 1, stride=stride
                )
            x = net.act("ReLU", net.add(name, x, shortcut))
            inputs = outputs
    return x


def _basic(net: Modules, name: str, x: str, channels: int, stride: int) -> tuple[str, int]:
    """Two 3 x 3 convolutions. Returns the branch and its number of channels."""
    x = net.conv_norm(f"{name}.conv1", f"{name}.bn1", x, channels, 3, "ReLU", stride=stride)
    return net.conv_norm(f"{name}.conv2", f"{name}.bn2", x, channels, 3), channels


def _bottleneck(groups: int = 1, width: int = 64) -> Block:
    """A 1 x 1, a 3 x 3 of `groups` and a 1 x 1 convolution. `width`: the channels of a group in the
    first stage."""

    def block(net: Modules, name: str, x: str, channels: int, stride: int) -> tuple[str, int]:
        inner = channels * width // 64 * groups
        x = net.conv_norm(f"{name}.conv1", f"{name}.bn1", x, inner, 1, "ReLU")
        x = net.conv_norm(
            f"{name}.conv2", f"{name}.bn2", x, inner, 3, "ReLU", stride=stride, group=groups
        )
        return net.conv_norm(f"{name}.conv3", f"{name}.bn3", x, 4 * channels, 1), 4 * channels

    return block
