"""Sizes of the GPU benchmark: whole sizes on a GPU, small ones in a rehearsal."""

from __future__ import annotations

from dataclasses import dataclass

Image = tuple[int, int, int]
LENET = (1, 28, 28)
CIFAR = (3, 32, 32)
CAFFENET = (3, 227, 227)
IMAGENET = (3, 224, 224)
LONG = 100_000  # iterations, of which a run makes as many as its seconds allow


@dataclass(frozen=True)
class Work:
    """A row of part `speed`: a net of the zoo with its batch, images and classes, the precision, and
    the type of layers that are left out."""

    net: str
    batch: int
    image: Image
    classes: int
    precision: str = "TF32"
    without: str = ""

    @property
    def shown(self) -> str:
        """The net's name in tables."""
        return f"{self.net} without {self.without}" if self.without else self.net


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
    steps: tuple[Work, ...]  # those that matter most first: time may run out
    compiled: tuple[Work, ...]
    replays: tuple[tuple[str, int, Image, int], ...]  # zoo name, batch, image, classes
    growth: int  # steps
    judged: bool = True  # whether speeds are compared with their bars


WHOLE = Sizes(
    backend="cupy",
    device="cuda:0",
    contract="cupy",
    processes=8,
    runs=(("lenet", 64, 300), ("cifar10_quick", 128, 200)),
    two_workers=(("lenet", 64, LONG), ("resnet50", 32, LONG)),
    convolutions=(
        ("cifar10_quick", 128, CIFAR),
        ("caffenet", 64, CAFFENET),
        ("vgg16", 8, IMAGENET),
        ("resnet50", 16, IMAGENET),
        ("googlenet", 16, IMAGENET),
    ),
    passes=7,
    steps=(
        *(Work("resnet50", 32, IMAGENET, 1000, each) for each in ("TF32", "bfloat16")),
        *(Work("caffenet", 128, CAFFENET, 1000, each) for each in ("TF32", "bfloat16")),
        *(Work("googlenet", 64, IMAGENET, 1000, each) for each in ("TF32", "bfloat16")),
        *(Work("vgg16", 32, IMAGENET, 1000, each) for each in ("TF32", "bfloat16")),
        *(Work("cifar10_quick", 128, CIFAR, 10, each) for each in ("TF32", "bfloat16")),
        *(Work("resnet50", each, IMAGENET, 1000, "bfloat16") for each in (128, 256)),
        # PyTorch's LRN is slow, which flatters these two nets
        Work("caffenet", 128, CAFFENET, 1000, without="LRN"),
        Work("googlenet", 64, IMAGENET, 1000, without="LRN"),
        *(Work("resnet50", each, IMAGENET, 1000) for each in (64, 128, 256)),
        Work("cifar10_quick", 32, CIFAR, 10),
        *(
            Work(*each, "float32")
            for each in (
                ("cifar10_quick", 128, CIFAR, 10),
                ("caffenet", 128, CAFFENET, 1000),
                ("resnet50", 32, IMAGENET, 1000),
                ("googlenet", 64, IMAGENET, 1000),
                ("vgg16", 32, IMAGENET, 1000),
            )
        ),
    ),
    compiled=(
        Work("resnet50", 128, IMAGENET, 1000, "bfloat16"),
        Work("resnet50", 32, IMAGENET, 1000),
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
        steps=(Work("cifar10_quick", 4, CIFAR, 10, "float32"),),
        compiled=(Work("cifar10_quick", 4, CIFAR, 10),),
        replays=(("cifar10_quick", 4, CIFAR, 10),),
        growth=12,
        judged=False,
    )
