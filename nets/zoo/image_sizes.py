"""The sizes of the images of those zoo nets whose files do not give it: MNIST's and CIFAR-10's."""

from __future__ import annotations

from nets.definition.spec import ZOO, NetSpec

MNIST = 28, 28
CIFAR_10 = 32, 32
SIZES = {
    "airbench94": CIFAR_10,
    "cifar10_full": CIFAR_10,
    "cifar10_quick": CIFAR_10,
    "lenet": MNIST,
    "resnet20": CIFAR_10,
    "resnet56": CIFAR_10,
}


def image_size(net: NetSpec) -> tuple[int, int] | None:
    """Return (height, width) of the images of a zoo net. None for any other net, and for zoo nets
    whose files give it."""
    return SIZES.get(net.path.stem) if net.path.parent == ZOO else None
