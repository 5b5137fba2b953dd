"""Nets whose layers read the results of all layers before them (Huang et al. 2017)."""

from __future__ import annotations

from nets.definition.builder import NetBuilder
from nets.zoo.modules import Modules

GROWTH = 32  # channels that each layer adds
DEPTHS = (6, 12, 24, 16)


def densenet121(classes: int = 1000, image: int = 224) -> NetBuilder:
    """DenseNet-121, 7 978 856 parameters."""
    net = Modules("densenet121")
    x = net.conv_norm(
        "features.conv0", "features.norm0", net.images(image, 32), 64, 7, "ReLU", stride=2
    )
    x = net.max_pool("features.pool0", x, 3, 2, 1)
    channels = 64
    for block, depth in enumerate(DEPTHS, 1):
        for at in range(1, depth + 1):
            name = f"features.denseblock{block}.denselayer{at}"
            x = str(net.net.layer("Concat", name, x, _layer(net, name, x)))
        channels += GROWTH * depth
        if block < len(DEPTHS):
            channels //= 2
            x = _halved(net, f"features.transition{block}", x, channels)
    x = net.act("ReLU", net.norm("features.norm5", x, apart=True))
    return net.scores("classifier", net.mean("avgpool", x), classes)


def _layer(net: Modules, name: str, x: str) -> str:
    """The channels that a layer adds."""
    x = net.act("ReLU", net.norm(f"{name}.norm1", x, apart=True))
    x = net.conv_norm(f"{name}.conv1", f"{name}.norm2", x, 4 * GROWTH, 1, "ReLU")
    return net.conv(f"{name}.conv2", x, GROWTH, 3)


def _halved(net: Modules, name: str, x: str, channels: int) -> str:
    """Half of the channels, in a plane of half the side."""
    x = net.act("ReLU", net.norm(f"{name}.norm", x, apart=True))
    x = net.conv(f"{name}.conv", x, channels, 1)
    return str(net.net.layer("Pooling", f"{name}.pool", x, pool="AVE", kernel_size=2, stride=2))
