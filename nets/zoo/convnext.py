"""ConvNeXt (Liu et al. 2022): residual blocks of a depthwise convolution, a LayerNorm and two dense
layers at each place, with stochastic depth."""

from __future__ import annotations

from nets.definition.builder import NetBuilder
from nets.zoo.modules import Modules

EPS = 1e-6
WIDTHS = (96, 192, 384, 768)
DEPTHS = (3, 3, 9, 3)
DROPPED = 0.1  # the ratio of stochastic depth in the last block
FIRST_SCALE = 1e-6


def convnext_tiny(classes: int = 1000, image: int = 224) -> NetBuilder:
    """ConvNeXt-T, 28 589 128 parameters."""
    net = Modules("convnext_tiny", filler={"type": "gaussian", "std": 0.02})
    x = net.conv("features.0.0", net.images(image, 32), 96, 4, stride=4, pad=0, bias=True)
    x = _norm(net, "features.0.1", x)
    done = 0
    for stage, (width, depth) in enumerate(zip(WIDTHS, DEPTHS, strict=True)):
        if stage:
            name = f"features.{2 * stage}"
            x = _norm(net, f"{name}.0", x)
            x = net.conv(f"{name}.1", x, width, 2, stride=2, pad=0, bias=True)
        for at in range(depth):
            ratio = DROPPED * done / (sum(DEPTHS) - 1)
            x = _block(net, f"features.{2 * stage + 1}.{at}", x, width, ratio)
            done += 1
    x = _norm(net, "classifier.0", net.mean("avgpool", x))
    return net.scores("classifier.2", x, classes)


def _block(net: Modules, name: str, x: str, width: int, ratio: float) -> str:
    inner = net.conv(f"{name}.block.0", x, width, 7, group=width, bias=True)
    inner = _norm(net, f"{name}.block.2", inner)
    inner = net.conv(f"{name}.block.3/linear", inner, 4 * width, 1, bias=True)
    inner = str(net.net.layer("GELU", f"{name}.block.4", inner))
    inner = net.conv(f"{name}.block.5/linear", inner, width, 1, bias=True)
    inner = str(
        net.net.layer(
            "Scale",
            f"{name}/layer_scale",
            inner,
            filler={"type": "constant", "value": FIRST_SCALE},
        )
    )
    return net.add(name, net.skip(f"{name}/depth", inner, ratio), x)


def _norm(net: Modules, name: str, x: str) -> str:
    """A LayerNorm over the channels of each place, with its Scale."""
    x = str(net.net.layer("LayerNorm", name, x, eps=EPS))
    return str(net.net.layer("Scale", f"{name}/scale", x, in_place=True, bias_term=True))
