"""Convolutions of today's nets by kind, as `benchmarks.kernels` measures them: one or two of each
window and stride."""

from __future__ import annotations

from benchmarks.kernels.convolutions import Layer
from ops import ConvGeometry
from ops.cpu.conv.algorithm import ConvShape


def _layer(
    images: tuple[int, int, int, int],
    outputs: int,
    window: int,
    stride: int = 1,
    *,
    groups: int = 1,
    first: bool = False,
    pad: int | None = None,
) -> Layer:
    """A layer of square windows, by default padded so that stride 1 keeps the size."""
    pad = window // 2 if pad is None else pad
    geometry = ConvGeometry((window, window), (stride, stride), (pad, pad), groups=groups)
    return Layer(ConvShape(images, outputs, geometry), first, bias=first)


def _depthwise(batch: int, channels: int, size: int, window: int, stride: int) -> Layer:
    images = (batch, channels, size, size)
    return _layer(images, channels, window, stride, groups=channels)


KINDS = {
    "depthwise": [
        _depthwise(16, 128, 56, 3, 1),  # MobileNet v1
        _depthwise(16, 64, 112, 3, 2),
        _depthwise(16, 512, 14, 3, 1),
        _depthwise(16, 240, 28, 5, 1),  # EfficientNet-B0
        _depthwise(16, 144, 56, 5, 2),
        _depthwise(8, 96, 56, 7, 1),  # ConvNeXt-T
        _depthwise(8, 96, 56, 7, 2),
    ],
    "grouped": [
        _layer((8, 128, 56, 56), 128, 3, groups=32),  # ResNeXt-50 32x4d
        _layer((8, 256, 56, 56), 256, 3, 2, groups=32),
        _layer((8, 512, 14, 14), 512, 3, groups=32),
        _layer((16, 208, 14, 14), 208, 3, groups=13),  # RegNet: groups of 16
    ],
    "few channels": [
        _layer((64, 1, 28, 28), 20, 5, first=True, pad=0),  # LeNet
        _layer((256, 3, 32, 32), 24, 2, first=True, pad=0),  # airbench94
        _layer((16, 3, 224, 224), 32, 3, 2, first=True),  # MobileNet
        _layer((8, 3, 224, 224), 64, 7, 2, first=True),  # ResNet
        _layer((8, 3, 224, 224), 96, 4, 4, first=True, pad=0),  # ConvNeXt-T
    ],
    "dense": [  # on tiles, if the processor has them
        _layer((8, 64, 56, 56), 256, 1),  # ResNet-50
        _layer((8, 1024, 14, 14), 256, 1),
        _layer((8, 512, 7, 7), 2048, 1),
        _layer((8, 64, 56, 56), 64, 3),
        _layer((8, 256, 14, 14), 256, 3),
        _layer((8, 128, 56, 56), 128, 3, 2),
        _layer((128, 32, 16, 16), 32, 5),  # CIFAR-10 quick
        _layer((16, 24, 56, 56), 144, 1),  # MobileNet v2
    ],
}
