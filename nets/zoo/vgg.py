"""VGG nets (Simonyan and Zisserman 2014) with BatchNorm, as in torchvision."""

from __future__ import annotations

from nets.definition.builder import NetBuilder
from nets.zoo.modules import Modules

POOL = 0
CHANNELS = (64, 64, POOL, 128, 128, POOL, 256, 256, 256, POOL, 512, 512, 512, POOL)


def vgg16_bn(classes: int = 1000, image: int = 224) -> NetBuilder:
    """VGG-16 with BatchNorm, 138 365 992 parameters."""
    net = Modules("vgg16_bn")
    x = net.images(image, 32)
    at = 0
    for channels in (*CHANNELS, 512, 512, 512, POOL):
        if channels == POOL:
            x = net.max_pool(f"features.{at}", x, 2, 2)
            at += 1
            continue
        x = net.conv_norm(f"features.{at}", f"features.{at + 1}", x, channels, 3, "ReLU", bias=True)
        at += 3
    x = str(net.net.layer("AdaptivePooling", "avgpool", x, output_size=7))
    for name in ("classifier.0", "classifier.3"):
        x = net.dropout(f"{name}/dropout", net.act("ReLU", net.dense(name, x, 4096)), 0.5)
    return net.scores("classifier.6", x, classes)
