"""RegNet (Radosavovic et al. 2020): stages of bottlenecks whose widths grow in a quantised line,
with squeeze and excitation."""

from __future__ import annotations

from nets.definition.builder import NetBuilder
from nets.zoo.modules import Modules

# widths and depths that table 8 of the paper gives for 400 million multiplications
WIDTHS = (48, 104, 208, 440)
DEPTHS = (1, 3, 6, 6)
GROUP = 8  # channels


def regnet_y_400mf(classes: int = 1000, image: int = 224) -> NetBuilder:
    """RegNetY of 400 million multiplications, 4 344 144 parameters."""
    net = Modules("regnet_y_400mf")
    x = net.conv_norm("stem.0", "stem.1", net.images(image, 64), 32, 3, "ReLU", stride=2)
    inputs = 32
    for stage, (width, depth) in enumerate(zip(WIDTHS, DEPTHS, strict=True), 1):
        for at in range(depth):
            name = f"trunk_output.block{stage}.block{stage}-{at}"
            x = _block(net, name, x, inputs, width, 1 if at else 2)
            inputs = width
    return net.scores("fc", net.mean("avgpool", x), classes)


def _block(net: Modules, name: str, x: str, inputs: int, width: int, stride: int) -> str:
    shortcut = x
    if inputs != width or stride > 1:
        proj = f"{name}.proj"
        shortcut = net.conv_norm(f"{proj}.0", f"{proj}.1", x, width, 1, stride=stride)
    f = f"{name}.f"
    x = net.conv_norm(f"{f}.a.0", f"{f}.a.1", x, width, 1, "ReLU")
    x = net.conv_norm(
        f"{f}.b.0", f"{f}.b.1", x, width, 3, "ReLU", stride=stride, group=width // GROUP
    )
    x = net.squeeze_excitation(f"{f}.se", x, width, round(inputs / 4))
    x = net.conv_norm(f"{f}.c.0", f"{f}.c.1", x, width, 1)
    return net.act("ReLU", net.add(name, x, shortcut))
