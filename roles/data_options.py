"""The sections of cluster.toml about the data of training: [train.data], with all their keys.

As for `roles.options`, only `up` imports this module, since pydantic is slow to import.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from roles.number_types import Finite, Positive
from roles.other_names import AUGMENT, DATA
from runtime.config.file import Section
from runtime.config.sections import Count, Text

Amount = Annotated[float, Field(ge=0, le=10, allow_inf_nan=False)]
Alpha = Annotated[float, Field(ge=0, le=100, allow_inf_nan=False)]


class RandAugment(Section):
    """[train.data.augment.randaugment]: random operations on each training image
    (docs/data.md#randaugment)."""

    operations: Annotated[int, Field(ge=1, le=14)] = 2
    """The number of operations on each image."""
    magnitude: Annotated[int, Field(ge=0, le=30)] = 9
    """The strength of the operations, 0 to 30."""


class Augment(Section):
    """[train.data.augment]: random changes of training images, in addition to crops and mirrors
    (docs/data.md#augmentation)."""

    other_names = AUGMENT

    pad: Annotated[int, Field(ge=0, le=1024)] = 0
    """Pixels that are added on each side of an image. Then a part of the image's own size, or of
    the net's crop, is cut out at a random place."""
    padding: Literal["black", "reflect"] = "black"
    """The pixels that `pad` adds: `"black"`, or a mirror image, `"reflect"`."""
    flip: Literal["random", "alternating"] | None = None
    """Default: as the net's `mirror` has it. `"random"`: half of the images are mirrored, drawn
    anew in each epoch. `"alternating"`: each image is mirrored in every second epoch."""
    erase: Annotated[float, Field(ge=0, le=1)] = 0.0
    """The share of images of which a random box is erased."""
    mixup: Alpha = 0.0
    """The alpha of mixup: each image is blended with another one of its batch. 0: without."""
    cutmix: Alpha = 0.0
    """The alpha of CutMix: a box of each image comes from another one of its batch. 0: without."""
    randaugment: RandAugment | None = None
    """Default: none. A table, which may be empty: `randaugment = {}`."""

    brightness: Amount = 0.0
    """Brightness is multiplied by a random factor, at most so much above or below 1."""
    contrast: Amount = 0.0
    """Contrast, in the same way."""
    saturation: Amount = 0.0
    """Saturation, in the same way."""
    lighting: Amount = 0.0
    """The standard deviation of AlexNet's noise along the principal components of colours."""
    scale: Annotated[list[Positive], Field(min_length=2, max_length=2)] | None = None
    """The least and the largest share of an image's area that is cut out and resized."""
    ratio: Annotated[list[Positive], Field(min_length=2, max_length=2)] = Field(
        default=[0.75, 4 / 3]
    )
    """The least and the largest ratio of width to height of the part that is cut out."""


class Data(Section):
    """[train.data]: where images come from (docs/data.md)."""

    other_names = DATA

    train: dict[str, Any] = Field(default={"format": "digits", "split": "train"})
    """Default: the digits. A table with a `format` and the keys of that format."""
    test: dict[str, Any] | list[dict[str, Any]] | None = None
    """Default: the digits. A table, as for `train`, or a list with one table for each test net of
    the solver. Without test data nothing is tested."""
    shuffle: bool | None = None
    """Default: `true` for a folder per class, else `false`. A new order in every epoch. With
    `false`, the order of the file, as in Caffe."""
    classes: Text | Annotated[list[Text], Field(min_length=1)] | None = None
    """Default: from the format. The names of the classes in the order of their labels: a list, or a
    file with one name on each line (docs/predict.md)."""
    order: Literal["bgr", "rgb"] | None = None
    """Default: from the format. The order of planes: `"bgr"` or `"rgb"` (docs/predict.md)."""
    orientation: Literal["exif", "stored"] = "exif"
    """Image files and encoded records that a camera marked as turned or mirrored: `"exif"` turns
    them upright, as OpenCV and Caffe do, `"stored"` leaves their rows as they are in the file. A
    source may have its own."""
    crop: Count | None = None
    """Default: the net's `crop_size`. The side of the square that the net gets: at a random place
    in training, in the middle otherwise."""
    mean: Annotated[list[Finite], Field(min_length=1)] | None = None
    """Default: the net's mean. An array of one number, or of one per channel, to subtract: on the
    scale of the images, whose bytes are 0 to 255."""
    deviation: Annotated[list[Positive], Field(min_length=1)] | None = None
    """Default: none. An array of one number, or of one per channel, to divide by after the mean is
    subtracted, on the same scale."""
    test_flips: bool = False
    """`test` scores the mean of the probabilities of each image and of its mirror image. The tests
    of a run score each image once (docs/data.md#test-time-flips)."""
    augment: Augment = Augment()
