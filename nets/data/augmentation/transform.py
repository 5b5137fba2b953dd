"""Caffe's transform_param: crop, subtract the mean, mirror, multiply by the scale.

Crops and mirrorings depend only on (seed, position of the sample in the run). The split of a batch
over workers therefore does not change the images.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nets.counting import counted
from nets.data.augmentation.augment import ALTERNATING, Augment
from nets.data.augmentation.draws import draw
from nets.definition.prototxt import Node, Where
from nets.definition.spec import LayerSpec, NetSpec
from nets.errors import DataError, PrototxtError
from nets.files.mean import read_mean
from nets.regular import is_file
from nets.schema import caffe_pb2 as caffe

_NOWHERE = Where("transform_param", Node(1))
TRANSFORMING = ("Data", "ImageData", "MemoryData")  # types of layers that have a transform_param
MIRROR = 2  # lanes of random numbers; crops use 0 and 1
ALTERNATE = 3
IN_CACHE = 1 << 17  # numbers of images that are changed together: half a megabyte


@dataclass(frozen=True)
class Transform:
    """The changes of each image.

    mean         no value, one, or one per channel
    deviation    no value, one, or one per channel: the divisors after the scale
    mean_image   (C, H, W) of the uncropped images
    channels     the channels that force_color (3) or force_gray (1) requires of the source, or None
    size         the size that new_height and new_width require, or None
    phase        the layer's own phase, which replaces the net's, or ""
    augment      random changes in training, before all others
    rgb          the net reads the planes red, green, blue in this order
    turned       the planes come in the opposite order, so they are turned (`taking`)
    """

    scale: float = 1.0
    mean: tuple[float, ...] = ()
    crop: int = 0
    mirror: bool = False
    mean_image: NDArray[np.float32] | None = field(default=None, repr=False, compare=False)
    channels: int | None = None
    size: tuple[int, int] | None = None
    phase: str = ""
    augment: Augment | None = None
    deviation: tuple[float, ...] = ()
    rgb: bool = False
    turned: bool = False

    @classmethod
    def from_proto(
        cls,
        p: caffe.TransformationParameter,
        where: Where = _NOWHERE,
        directory: Path | None = None,
    ) -> Transform:
        """Read a transform_param. `mean_file` is searched from the working directory, from
        `directory`, and by its name in `directory`, in this order.

        Raises PrototxtError for contradictions, and for a mean_file that does not exist or is
        damaged.
        """
        if p.mean_file and p.mean_value:
            raise where.error(
                "transform_param.mean_file",
                ("given together with 'mean_value', expected only one of the two"),
            )
        if p.force_color and p.force_gray:
            raise where.error(
                "transform_param.force_gray",
                ("given together with 'force_color', expected only one of the two"),
            )
        if p.mean_file and p.rgb:
            raise where.error(
                "transform_param.rgb",
                "given together with 'mean_file', whose planes are blue, green, red: expected "
                "'mean_value', in the order red, green, blue",
            )
        deviation = tuple(p.deviation_value)
        if not all(0 < value < math.inf for value in deviation):
            raise where.error(
                "transform_param.deviation_value",
                f"found {', '.join(f'{value:g}' for value in deviation)}, expected finite "
                "numbers > 0",
            )
        mean_image = _read_mean(p.mean_file, where, directory or Path()) if p.mean_file else None
        channels = 3 if p.force_color else 1 if p.force_gray else None
        mean = tuple(p.mean_value)
        return cls(
            float(p.scale),
            mean,
            int(p.crop_size),
            bool(p.mirror),
            mean_image,
            channels,
            deviation=deviation,
            rgb=bool(p.rgb),
        )

    @classmethod
    def of_net(cls, spec: NetSpec, phase: str) -> Transform:
        """Read the transform_param of the first data layer in `phase`. Without one, images stay
        unchanged."""
        layer = first_transforming(spec.for_phase(phase).layers)
        return cls() if layer is None else cls.of_layer(layer, spec.path.parent)

    @classmethod
    def of_layer(cls, layer: LayerSpec, directory: Path) -> Transform:
        """Read a data layer's transform_param, if its type has one. `directory` is the net's
        folder."""
        if not transforms(layer):
            return cls()
        return replace(
            cls.from_proto(layer.proto.transform_param, layer.where, directory), **_demands(layer)
        )

    def taking(self, order: str) -> Transform:
        """Return the transform of images whose planes are in this `order`, "bgr" or "rgb"."""
        return replace(self, turned=self.rgb and order == "bgr")

    def shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape of a transformed sample of `shape`."""
        return (shape[0], self.crop, self.crop) if self.crop else shape

    def check(self, shape: tuple[int, ...]) -> None:
        """Raise PrototxtError unless images of `shape` (C, H, W) can be transformed."""
        if self.augment is not None:
            self.augment.check(shape)
        if self.crop and len(shape) != 3:
            raise PrototxtError(
                f"crop_size: found samples of shape {shape}, expected images (C, H, W)"
            )
        if self.crop and self.crop > min(shape[1:]):
            raise PrototxtError(
                f"crop_size: found {self.crop}, expected at most "
                f"{min(shape[1:])} for images {shape}"
            )
        for key, values in (("mean_value", self.mean), ("deviation", self.deviation)):
            if len(values) > 1 and len(values) != shape[0]:
                channels = "" if shape[0] == 1 else f" or {shape[0]}, one per channel,"
                raise PrototxtError(
                    f"{key}: found {len(values)}, expected 1{channels} for images {shape}"
                )
        if self.rgb and shape[0] != 3:
            raise PrototxtError(
                f"rgb: found images of {counted(shape[0], 'channel')}, expected 3: give the data "
                'source color = "color"'
            )
        if self.mean_image is not None and self.mean_image.shape != shape:
            raise PrototxtError(
                f"mean_file: found a mean of shape {self.mean_image.shape}, expected {shape}"
            )
        if self.channels is not None and self.channels != shape[0]:
            key, value = ("force_color", "color") if self.channels == 3 else ("force_gray", "gray")
            raise PrototxtError(
                f"{key}: found images of {counted(shape[0], 'channel')}, expected {self.channels}: "
                f'give the data source color = "{value}"'
            )
        if self.size is not None and self.size != shape[1:]:
            high, wide = self.size
            raise PrototxtError(
                f"new_height, new_width: found images {shape[1]} x {shape[2]}, expected "
                f"{high} x {wide}: "
                f"give the data source new_height = {high} and new_width = {wide}"
            )

    def __call__(
        self,
        images_NCHW: NDArray[Any],
        positions_N: NDArray[np.int64],
        *,
        seed: int,
        train: bool,
        flips_N: NDArray[np.bool_] | None = None,
        out: NDArray[np.float32] | None = None,
    ) -> NDArray[np.float32]:
        """Return float32 images, in the array `out` or a new one. Crops and mirrorings are random
        in training; otherwise crops are centred and images are not mirrored.

        `positions_N`: the global position of each sample, counted over the whole run. `flips_N`:
        the images to mirror in training, if this is not drawn for each position.
        """
        if self.turned:
            images_NCHW = images_NCHW[:, ::-1]
        train = self.trains(train)
        augment = self.augment if train else None
        cropped = self._cropped(images_NCHW, positions_N, seed, train)
        if augment:
            result = augment.change(cropped, positions_N, seed, out)
        else:
            result = np.empty(cropped.shape, np.float32) if out is None else out
        means = flips = None
        if self.mean_image is not None:
            # each pixel has its own mean, so the means are cropped like the image and subtracted
            # before mirroring
            means = np.broadcast_to(self.mean_image, (len(result), *self.mean_image.shape))
            means = self._cropped(means, positions_N, seed, train)
        if self.mirror and train:
            flips = self.flipped(positions_N, seed, flips_N)
        step = max(1, IN_CACHE // max(1, math.prod(result.shape[1:])))
        for low in range(0, len(result), step):
            rows = slice(low, low + step)
            if not augment:
                result[rows] = cropped[rows]
            if means is not None:
                result[rows] -= means[rows]
            self._finish(result[rows], None if flips is None else flips[rows])
        if augment:
            augment.finish(result, positions_N, seed)
        return result

    def _finish(self, images: NDArray[np.float32], flips: NDArray[np.bool_] | None) -> None:
        """Subtract mean values, mirror the images of `flips`, scale and divide, in place."""
        if self.mean:
            images -= np.asarray(self.mean, np.float32)[:, None, None]
        for at in () if flips is None else np.flatnonzero(flips):
            images[at] = images[at, :, :, ::-1]
        if self.scale != 1.0:
            images *= np.float32(self.scale)
        if self.deviation:
            images /= np.asarray(self.deviation, np.float32)[:, None, None]

    def flipped(
        self, positions_N: NDArray[np.int64], seed: int, flips_N: NDArray[np.bool_] | None
    ) -> NDArray[np.bool_]:
        """Return which images are mirrored in training."""
        drawn = draw(seed, positions_N, MIRROR) % 2 == 1 if flips_N is None else flips_N
        return np.asarray(drawn, np.bool_)

    def corners(
        self, free: tuple[int, int], positions_N: NDArray[np.int64], seed: int, train: bool
    ) -> NDArray[np.int64]:
        """Return (top, left) of the crop of each image, (N, 2). `free`: the rows and columns that
        are cut off."""
        if not train:
            return np.tile(np.array(free, np.int64) // 2, (len(positions_N), 1))
        drawn = [draw(seed, positions_N, axis) % np.uint64(free[axis] + 1) for axis in (0, 1)]
        return np.stack(drawn, 1).astype(np.int64)

    def alternates(self, train: bool) -> bool:
        """Whether each image is mirrored in every second epoch."""
        said = self.augment is not None and self.augment.flip == ALTERNATING
        return said and self.trains(train)

    def trains(self, train: bool) -> bool:
        """Whether images are changed as in training: the layer's own phase decides, if it has
        one."""
        return self.phase == "TRAIN" if self.phase else train

    def _cropped(
        self, images: NDArray[Any], positions: NDArray[np.int64], seed: int, train: bool
    ) -> NDArray[Any]:
        augment = self.augment if train else None
        if not self.crop and augment is None:
            return images  # which may be other arrays, with any number of axes
        high, wide = (self.crop, self.crop) if self.crop else images.shape[2:]
        if augment is not None and augment.scale is not None:
            return augment.cut(images, positions, seed, (high, wide))
        if augment is not None:
            images = augment.padded(images)
        free = (images.shape[2] - high, images.shape[3] - wide)
        if not any(free):
            return images
        if not train:
            top, left = (rest // 2 for rest in free)
            return images[:, :, top : top + high, left : left + wide]
        result = np.empty((*images.shape[:2], high, wide), images.dtype)
        for at, (top, left) in enumerate(self.corners(free, positions, seed, train).tolist()):
            result[at] = images[at, :, top : top + high, left : left + wide]
        return result


def alternate_flips(
    seed: int, indices_N: NDArray[np.int64], epochs_N: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Return which samples of the source are mirrored in these epochs: each in every second one.
    The seed and the sample's number in the source decide which half begins."""
    begins = draw(seed, indices_N, ALTERNATE) % 2
    return np.asarray((begins.astype(np.int64) + epochs_N) % 2 == 1)


def _demands(layer: LayerSpec) -> dict[str, Any]:
    """Return the channels and the size that a data layer requires of its source outside its
    transform_param, and the layer's own phase."""
    proto = layer.proto
    found = dict[str, Any]()
    images = proto.image_data_param
    if proto.HasField("phase"):
        found["phase"] = caffe.Phase.Name(proto.phase)
    if proto.data_param.force_encoded_color:
        found["channels"] = 3
    if not images.is_color:
        found["channels"] = 1
    if bool(images.new_height) != bool(images.new_width):
        text = (
            f"found {images.new_height} and new_width {images.new_width}, expected two "
            "integers >= 1 or neither"
        )
        raise layer.where.error("image_data_param.new_height", text)
    if images.new_height:
        found["size"] = (int(images.new_height), int(images.new_width))
    return found


def first_transforming(layers: Sequence[LayerSpec]) -> LayerSpec | None:
    """Return the first of these layers whose type has a transform_param."""
    return next(filter(transforms, layers), None)


def transforms(layer: LayerSpec) -> bool:
    """Whether the type of this layer has a transform_param."""
    return layer.proto.type in TRANSFORMING


def _read_mean(name: str, where: Where, directory: Path) -> NDArray[np.float32]:
    """Read the mean image `name`, a path from the working directory or from the net's folder, or a
    file in that folder."""
    named = Path(name)
    for candidate in (named, directory / named, directory / named.name):
        if is_file(candidate):
            try:
                return read_mean(candidate)
            except DataError as error:
                raise where.error("transform_param.mean_file", str(error)) from None
    text = f"found '{name}', but no such file exists here or next to the net"
    raise where.error("transform_param.mean_file", text)
