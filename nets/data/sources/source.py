"""The interface of data sources, and the simplest source, `MemorySource`, which holds all samples
in memory."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nets.data.decoding.encoded import Decoder, check_shape
from nets.errors import DataError

TRIED = 100  # damaged samples before one that can be decoded
Images = NDArray[Any]
Labels = NDArray[np.int64]


class Source(ABC):
    """Numbered samples, read by index. Files stay closed or mapped until `read`, so a source may be
    larger than memory.

    by_class      its samples come one class after the other, so they are shuffled by default
    order         order of the colour planes ("bgr" or "rgb"), as far as the format gives it
    orientation   "exif" if encoded images are turned as their EXIF says, "stored" if not
    class_names   names in the order of labels, as far as the format gives them
    told          lines for the user about files and folders that were passed over
    shape         (C, H, W) of every sample's first array
    shapes        the shape of one sample in each array that `read` returns
    label_list    the file with all labels, None if the labels are elsewhere
    firsts        indices of the arrays that are the first of a source: a source may join several
                  (`joined`)
    num_classes   None if unknown
    unit          so many consecutive samples belong together and are shuffled as one (1 for images)
    of_bytes      the first array of each sample is uint8
    divisible     samples that are read in pieces cost no more than all together

    `read` may be called from any thread.
    """

    by_class = False
    of_bytes = False
    divisible = True
    order = "bgr"  # order of the planes of colour images
    orientation = "exif"
    class_names: tuple[str, ...] = ()
    told: tuple[str, ...] = ()
    label_list: Path | None = None

    def __init__(
        self,
        name: str,
        shape: tuple[int, int, int],
        *,
        num_classes: int | None = None,
        unit: int = 1,
    ) -> None:
        self.name = name
        self.shape = shape
        self.num_classes = num_classes
        self.unit = unit
        self.shapes: tuple[tuple[int, ...], ...] = (shape, ())
        self.firsts: tuple[int, ...] = (0,)

    def __repr__(self) -> str:
        return f"<Source {self.name} {len(self)} samples {self.shape} classes={self.num_classes}>"

    @abstractmethod
    def __len__(self) -> int:
        """The number of samples."""

    @abstractmethod
    def read(self, indices: NDArray[np.integer[Any]]) -> tuple[NDArray[Any], ...]:
        """Return new arrays with one row per index (0 <= index < len): images (n, C, H, W) uint8 or
        float32 and labels (n,), or other arrays for the net's data layers, in their order. Raises
        DataError for a damaged sample."""

    def decode_with(self, decoder: Decoder) -> bool:
        """Decode encoded pictures by this decoder from now on. Return False if there are none."""
        return False

    def sample_name(self, index: int) -> str:
        """Return the name of a sample for messages, such as its file."""
        return self.sample_file(index) or f"{self.name}: sample {index}"

    def sample_file(self, index: int) -> str:
        """Return the file of a sample; "" if it is not alone in a file."""
        return ""

    def label_place(self, label: float) -> str:
        """Return the place of a label for messages: the first line of a list that has it, or the
        name of the source."""
        return self.name

    def look(self, indices: NDArray[np.integer[Any]]) -> tuple[NDArray[Any], ...]:
        """Return the arrays of these samples, in their order, for a check before training. A source
        may return more samples where that costs nothing, and its own arrays."""
        return self.read(indices)

    def stored(self, indices: NDArray[np.integer[Any]]) -> Iterator[bytes]:
        """Yield bytes that distinguish these samples from others: their arrays, or their files
        without decoding, because decoders differ between versions. Also the facts about all samples
        that the source knows without reading them."""
        for array in self.read(indices):
            yield np.ascontiguousarray(array).tobytes()


class MemorySource(Source):
    """Labelled images in memory: `images` (N, C, H, W) uint8 or float32, `labels` (N,) int64."""

    def __init__(
        self, name: str, images: Images, labels: Labels, num_classes: int | None = None
    ) -> None:
        _, channels, height, width = images.shape
        super().__init__(name, (channels, height, width), num_classes=num_classes)
        self.images = images
        self.labels = labels
        self.of_bytes = images.dtype == np.uint8

    def __len__(self) -> int:
        return len(self.images)

    def read(self, indices: NDArray[np.integer[Any]]) -> tuple[Images, Labels]:
        """Return copies: images (n, C, H, W), labels (n,)."""
        return self.images[indices], self.labels[indices]

    def look(self, indices: NDArray[np.integer[Any]]) -> tuple[Images, Labels]:
        """Return all images and labels."""
        return self.images, self.labels

    def stored(self, indices: NDArray[np.integer[Any]]) -> Iterator[bytes]:
        """Yield the given images and all labels."""
        yield self.images[indices].tobytes()
        yield self.labels.tobytes()


def first_shape(decoded: Callable[[int], NDArray[Any]], count: int) -> tuple[int, int, int]:
    """Return the shape (C, H, W) of the first sample that can be decoded, among the first of
    `count`. Raises the DataError of sample 0 if there is none: reading the others gives theirs."""
    fault: DataError | None = None
    for index in range(min(count, TRIED)):
        try:
            channels, height, width = decoded(index).shape
            return channels, height, width
        except DataError as error:
            fault = fault or error
    assert fault is not None
    raise fault


def stacked(
    images: Iterable[NDArray[Any]], names: Sequence[str], shape: tuple[int, int, int]
) -> NDArray[Any]:
    """Return images of one shape as (n, C, H, W). Raises DataError with the name of the first image
    whose shape is not `shape`. Later images are then not decoded: each may be large, and a batch
    has many."""
    kept: list[NDArray[Any]] = []
    for image, name in zip(images, names, strict=True):
        check_shape(image.shape, name, shape)
        kept.append(image)
    return np.stack(kept) if kept else np.empty((0, *shape), np.uint8)
