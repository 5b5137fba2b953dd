"""Nets of inverted residual blocks: an expansion, a depthwise convolution, a gate and a projection
(Sandler et al. 2018; Howard et al. 2019; Tan and Le 2019)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nets.definition.builder import NetBuilder
from nets.zoo.modules import Modules

SMALL_BATCH = 64  # of training, in the data layers
# expansion, kernel, channels, blocks, stride of the first block (Tan and Le 2019, table 1)
STAGES_B0 = (
    (1, 3, 16, 1, 1),
    (6, 3, 24, 2, 2),
    (6, 5, 40, 2, 2),
    (6, 3, 80, 3, 2),
    (6, 5, 112, 3, 1),
    (6, 5, 192, 4, 2),
    (6, 3, 320, 1, 1),
)
DROPPED_B0 = 0.2  # the ratio of stochastic depth grows to this
# expansion, channels, blocks, stride of the first block (Sandler et al. 2018, table 2)
STAGES_V2 = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)
RE, HS = "ReLU", "HardSwish"
# kernel, expanded channels, channels, squeeze and excitation, activation, stride (Howard et al.
# 2019, tables 1 and 2)
BLOCKS_LARGE = (
    (3, 16, 16, False, RE, 1),
    (3, 64, 24, False, RE, 2),
    (3, 72, 24, False, RE, 1),
    (5, 72, 40, True, RE, 2),
    (5, 120, 40, True, RE, 1),
    (5, 120, 40, True, RE, 1),
    (3, 240, 80, False, HS, 2),
    (3, 200, 80, False, HS, 1),
    (3, 184, 80, False, HS, 1),
    (3, 184, 80, False, HS, 1),
    (3, 480, 112, True, HS, 1),
    (3, 672, 112, True, HS, 1),
    (5, 672, 160, True, HS, 2),
    (5, 960, 160, True, HS, 1),
    (5, 960, 160, True, HS, 1),
)
BLOCKS_SMALL = (
    (3, 16, 16, True, RE, 2),
    (3, 72, 24, False, RE, 2),
    (3, 88, 24, False, RE, 1),
    (5, 96, 40, True, HS, 2),
    (5, 240, 40, True, HS, 1),
    (5, 240, 40, True, HS, 1),
    (5, 120, 48, True, HS, 1),
    (5, 144, 48, True, HS, 1),
    (5, 288, 96, True, HS, 2),
    (5, 576, 96, True, HS, 1),
    (5, 576, 96, True, HS, 1),
)


@dataclass(frozen=True)
class Inverted:
    """An inverted residual block. `inside`: the names of its modules begin with this. `squeezed`:
    the channels between the layers of its gate; 0: no gate. `flat`: its last convolution has no
    module around it."""

    name: str
    inside: str
    inputs: int
    expanded: int
    outputs: int
    kernel: int
    stride: int
    act: str
    squeezed: int = 0
    gate: str = "Sigmoid"
    squeeze_act: str = "ReLU"
    dropped: float = 0.0
    flat: bool = False

    def add(self, net: Modules, x: str) -> str:
        """Add the block's layers."""
        shortcut = x
        at = 0
        if self.expanded != self.inputs:
            x = self._conv(net, at, x, self.expanded, 1, self.act)
            at += 1
        more = {"stride": self.stride, "group": self.expanded}
        x = self._conv(net, at, x, self.expanded, self.kernel, self.act, **more)
        at += 1
        if self.squeezed:
            name = f"{self.inside}.{at}"
            acts = self.squeeze_act, self.gate
            x = net.squeeze_excitation(name, x, self.expanded, self.squeezed, *acts)
            at += 1
        if self.flat:
            names = f"{self.inside}.{at}", f"{self.inside}.{at + 1}"
            x = net.conv_norm(*names, x, self.outputs, 1)
        else:
            x = self._conv(net, at, x, self.outputs, 1)
        if self.stride > 1 or self.inputs != self.outputs:
            return x
        return net.add(self.name, net.skip(f"{self.name}/depth", x, self.dropped), shortcut)

    def _conv(
        self, net: Modules, at: int, x: str, outputs: int, kernel: int, act: str = "", **more: int
    ) -> str:
        name = f"{self.inside}.{at}"
        return net.conv_norm(f"{name}.0", f"{name}.1", x, outputs, kernel, act, **more)


def mobilenet_v2_tv(classes: int = 1000, image: int = 224) -> NetBuilder:
    """MobileNetV2 of torchvision, with the paper's ReLU6, 3 504 872 parameters."""
    net = Modules("mobilenet_v2_tv")
    x = _stem(net, image, 32, "ReLU6")
    inputs = 32
    number = 0
    for expansion, outputs, count, stride in STAGES_V2:
        for at in range(count):
            number += 1
            name = f"features.{number}"
            expanded = inputs * expansion
            move = stride if not at else 1
            x = Inverted(
                name, f"{name}.conv", inputs, expanded, outputs, 3, move, "ReLU6", flat=True
            ).add(net, x)
            inputs = outputs
    x = net.conv_norm("features.18.0", "features.18.1", x, 1280, 1, "ReLU6")
    x = net.dropout("classifier.0", net.mean("avgpool", x), 0.2)
    return net.scores("classifier.1", x, classes)


def mobilenet_v3_large(classes: int = 1000, image: int = 224) -> NetBuilder:
    """MobileNetV3-Large, 5 483 032 parameters."""
    return _version3("mobilenet_v3_large", BLOCKS_LARGE, 960, 1280, classes, image)


def mobilenet_v3_small(classes: int = 1000, image: int = 224) -> NetBuilder:
    """MobileNetV3-Small, 2 542 856 parameters."""
    return _version3("mobilenet_v3_small", BLOCKS_SMALL, 576, 1024, classes, image)


def efficientnet_b0(classes: int = 1000, image: int = 224) -> NetBuilder:
    """EfficientNet-B0, 5 288 548 parameters."""
    net = Modules("efficientnet_b0", keep=0.9)
    x = _stem(net, image, 32, "SiLU")
    inputs = 32
    total = sum(count for _, _, _, count, _ in STAGES_B0)
    done = 0
    for stage, (expansion, kernel, outputs, count, stride) in enumerate(STAGES_B0, 1):
        for at in range(count):
            name = f"features.{stage}.{at}"
            x = Inverted(
                name,
                f"{name}.block",
                inputs,
                inputs * expansion,
                outputs,
                kernel,
                1 if at else stride,
                "SiLU",
                squeezed=inputs // 4,
                squeeze_act="SiLU",
                dropped=DROPPED_B0 * done / total,
            ).add(net, x)
            inputs = outputs
            done += 1
    x = net.conv_norm("features.8.0", "features.8.1", x, 1280, 1, "SiLU")
    x = net.dropout("classifier.0", net.mean("avgpool", x), 0.2)
    return net.scores("classifier.1", x, classes)


def _version3(
    name: str,
    blocks: Sequence[tuple[int, int, int, bool, str, int]],
    last: int,
    hidden: int,
    classes: int,
    image: int,
) -> NetBuilder:
    net = Modules(name, eps=1e-3, keep=0.99)
    x = _stem(net, image, 16, HS)
    inputs = 16
    for at, (kernel, expanded, outputs, gated, act, stride) in enumerate(blocks, 1):
        of = f"features.{at}"
        squeezed = _divisible(expanded // 4) if gated else 0
        x = Inverted(
            of,
            f"{of}.block",
            inputs,
            expanded,
            outputs,
            kernel,
            stride,
            act,
            squeezed,
            "HardSigmoid",
        ).add(net, x)
        inputs = outputs
    end = f"features.{len(blocks) + 1}"
    x = net.conv_norm(f"{end}.0", f"{end}.1", x, last, 1, HS)
    x = net.act(HS, net.dense("classifier.0", net.mean("avgpool", x), hidden))
    return net.scores("classifier.3", net.dropout("classifier.2", x, 0.2), classes)


def _stem(net: Modules, image: int, channels: int, act: str) -> str:
    x = net.images(image, SMALL_BATCH)
    return net.conv_norm("features.0.0", "features.0.1", x, channels, 3, act, stride=2)


def _divisible(channels: int) -> int:
    """The nearest multiple of 8, at least 8 and at least nine tenths of `channels`."""
    found = max(8, (channels + 4) // 8 * 8)
    return found if found >= 0.9 * channels else found + 8
