"""Sizes of the GPU benchmark: whole sizes on a GPU, small ones in a rehearsal."""

from __future__ import annotations

from dataclasses import dataclass

Image = tuple[int, int, int]
LENET = (1, 28, 28)
CIFAR = (3, 32, 32)
CAFFENET = (3, 227, 227)
IMAGENET = (3, 224, 224)


@dataclass(frozen=True)
class Sizes:
    """The sizes of each part. `backend` and `device` are where it computes."""

    backend: str
    device: str
    contract: str  # pytest's -k
    processes: int  # of pytest
    runs: tuple[tuple[str, int, int], ...]  # zoo name, batch, iterations; each with every preset
    two_workers: tuple[tuple[str, int, int], ...]  # zoo name, batch, iterations
    convolutions: tuple[tuple[str, int, Image], ...]  # zoo name, batch, image
    passes: int  # of each convolution and step that are timed
    steps: tuple[tuple[str, int, Image, int], ...]  # zoo name, batch, image, classes
    replays: tuple[tuple[str, int, Image, int], ...]  # as `steps`
    growth: int  # steps


WHOLE = Sizes(
    backend="cupy",
    device="cuda:0",
    contract="cupy",
    processes=8,
    runs=(("lenet", 64, 300), ("cifar10_quick", 128, 200)),
    two_workers=(("lenet", 64, 800),),
    convolutions=(
        ("cifar10_quick", 128, CIFAR),
        ("caffenet", 64, CAFFENET),
        ("vgg16", 8, IMAGENET),
        ("resnet50", 16, IMAGENET),
        ("googlenet", 16, IMAGENET),
    ),
    passes=7,
    steps=(
        ("cifar10_quick", 128, CIFAR, 10),
        ("caffenet", 128, CAFFENET, 1000),
        ("vgg16", 32, IMAGENET, 1000),
        ("googlenet", 64, IMAGENET, 1000),
        ("resnet50", 32, IMAGENET, 1000),
    ),
    replays=(
        ("lenet", 64, LENET, 10),
        ("cifar10_quick", 128, CIFAR, 10),
        ("resnet50", 32, IMAGENET, 1000),
        ("googlenet", 64, IMAGENET, 1000),
    ),
    growth=2000,
)


def rehearsal() -> Sizes:
    """Small sizes, on CuPy if it runs here, else on NumPy."""
    from ops import OpsError, get_backend

    try:
        get_backend("cupy")
    except OpsError:
        backend = "numpy"
        device = "cpu"
        contract = "numpy and dense"
    else:
        backend = "cupy"
        device = "cuda:0"
        contract = "cupy and dense"
    return Sizes(
        backend,
        device,
        contract,
        processes=0,
        runs=(("lenet", 8, 4),),
        two_workers=(("lenet", 8, 4),),
        convolutions=(("cifar10_quick", 4, CIFAR),),
        passes=2,
        steps=(("cifar10_quick", 4, CIFAR, 10),),
        replays=(("cifar10_quick", 4, CIFAR, 10),),
        growth=12,
    )
