"""Random changes of training images, in addition to Caffe's crops and mirrors: place, size and
aspect ratio, colours, light, erased parts, and mixtures of two images.

As for crops, the random numbers depend only on (seed, position of the sample in the run). The split
of a batch over workers therefore does not change the images. The formulas are those of
torchvision's ColorJitter and RandomResizedCrop, and of AlexNet's colour noise.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nets.counting import counted
from nets.data.augmentation import boxes
from nets.data.augmentation.draws import normal, uniform
from nets.data.augmentation.erasing import erase
from nets.data.augmentation.randaugment import RandAugment
from nets.data.pictures.resizing import resized
from nets.errors import DataError

GREY = np.array([0.299, 0.587, 0.114], np.float32)  # weights of red, green, blue (ITU-R BT.601)
# Principal components of the colours of ImageNet's pixels, with red, green, blue from 0 to 1
# (Krizhevsky et al. 2012), one per column, and the standard deviations along them. These are the
# numbers that AlexNet's successors published.
COMPONENTS = np.array(
    [[-0.5675, 0.7192, 0.4009], [-0.5808, -0.0045, -0.8140], [-0.5836, -0.6948, 0.4203]], np.float64
)
DEVIATIONS = np.array([0.2175, 0.0188, 0.0045])
JITTER = 10  # the first lane of random numbers for each purpose
ORDER = 14
LIGHT = 18
PLACE = 26
BOX = 30
RANDOM, ALTERNATING = "random", "alternating"
BLACK, REFLECT = "black", "reflect"


def floats(images: NDArray[Any], out: NDArray[np.float32] | None = None) -> NDArray[np.float32]:
    """Return a copy of the numbers as float32, in the array `out` or a new one."""
    result = np.empty(images.shape, np.float32) if out is None else out
    result[...] = images
    return result


@dataclass(frozen=True)
class Augment:
    """The settings of random changes. DataError is raised for values that are not allowed.

    `brightness`, `contrast` and `saturation`: factors are drawn from max(0, 1 - value) to 1 + value
    and applied in random order. `lighting`: the standard deviation of the noise along each
    principal component of the colours. `scale`: a part of each image is cut out and resized. Its
    share of the area is drawn from (least, largest), its ratio of width to height from `ratio`.
    With None, images are not cut. `order`: the order of the colour planes, "bgr" or "rgb"; with "",
    the data source's order.

    `pad`: pixels around each image before it is cropped at a random place, which are black or, with
    `padding` "reflect", a mirror image. `flip`: "random" mirrors half of the images; "alternating"
    mirrors each image in every second epoch; "" leaves this to the net. `erase`: the share of
    images of which a random box is erased. `mixup`, `cutmix`: see `Mixing`.
    """

    brightness: float = 0.0
    contrast: float = 0.0
    saturation: float = 0.0
    lighting: float = 0.0
    scale: tuple[float, float] | None = None
    ratio: tuple[float, float] = (3 / 4, 4 / 3)
    order: str = ""
    pad: int = 0
    padding: str = BLACK
    flip: str = ""
    erase: float = 0.0
    randaugment: RandAugment | None = None
    mixup: float = 0.0
    cutmix: float = 0.0

    def __post_init__(self) -> None:
        if self.scale is not None and not 0 < self.scale[0] <= self.scale[1] <= 1:
            raise DataError(
                f"scale: found {list(self.scale)}, expected two rising numbers > 0, at most 1"
            )
        if not 0 < self.ratio[0] <= self.ratio[1]:
            raise DataError(f"ratio: found {list(self.ratio)}, expected two rising numbers > 0")

    def __bool__(self) -> bool:
        changes = (self.scale, self.pad, self.flip, self.erase, self.randaugment)
        return self._recolors or self.mixes or any(changes)

    @property
    def mixes(self) -> bool:
        """Whether each image is mixed with another one."""
        return bool(self.mixup or self.cutmix)

    @property
    def only_places(self) -> bool:
        """Whether pixels only change their places, or become 0."""
        return not (self._recolors or self.mixes or self.scale or self.randaugment)

    @property
    def _recolors(self) -> bool:
        return any((self.brightness, self.contrast, self.saturation, self.lighting))

    def check(self, shape: tuple[int, ...]) -> None:
        """Raise DataError unless images of `shape` (C, H, W) can be changed in this way."""
        problems = [
            f"augment: {key}: {text}" if key else f"augment: {text}"
            for key, text in self.mistakes(shape)
        ]
        if problems:
            raise DataError(problems)

    def mistakes(self, shape: tuple[int, ...]) -> Iterator[tuple[str, str]]:
        """Yield the settings that images of `shape` (C, H, W) do not allow: the name of each, or
        "", and the mistake."""
        if len(shape) != 3:
            yield "", f"found samples of shape {shape}, expected images (C, H, W)"
            return
        found = f"found images of {counted(shape[0], 'channel')}"
        for name in ("saturation", "lighting"):
            if getattr(self, name) and shape[0] != 3:
                yield name, f"{found}, expected 3: it changes colours"
        if self.randaugment is not None and shape[0] not in (1, 3):
            yield "randaugment", f"{found}, expected 1 or 3"
        most = min(shape[1:]) - 1
        if self.pad > most:
            yield (
                "pad",
                f"found {self.pad}, expected at most {most} for images of {shape[1]} x {shape[2]}",
            )
        if self.pad and self.scale is not None:
            yield (
                "pad",
                "given together with 'scale', expected only one of the two: each decides which "
                "part of an image is used",
            )

    def padded(self, images_NCHW: NDArray[Any]) -> NDArray[Any]:
        """Return the images with `pad` more pixels on each side."""
        if not self.pad:
            return images_NCHW
        around = ((0, 0), (0, 0), (self.pad, self.pad), (self.pad, self.pad))
        if self.padding == REFLECT:
            return np.pad(images_NCHW, around, mode="reflect")
        return np.pad(images_NCHW, around)

    def change(
        self,
        images_NCHW: NDArray[Any],
        positions_N: NDArray[np.int64],
        seed: int,
        out: NDArray[np.float32] | None = None,
    ) -> NDArray[np.float32]:
        """Return copies of images with values from 0 to 255, with other colours, in the array `out`
        or a new one. The values of bytes stay in that range, except for the noise of `lighting`."""
        drawn = images_NCHW
        if self.randaugment is not None:
            drawn = self.randaugment(images_NCHW, positions_N, seed, self.order)
        result = floats(drawn, out)
        self.recolor(result, positions_N, seed, clip=images_NCHW.dtype == np.uint8)
        return result

    def finish(
        self, images_NCHW: NDArray[np.float32], positions_N: NDArray[np.int64], seed: int
    ) -> None:
        """Make the last changes of images that are ready for the net, in place."""
        if self.erase:
            erase(images_NCHW, positions_N, seed, self.erase)

    def cut(
        self,
        images_NCHW: NDArray[Any],
        positions_N: NDArray[np.int64],
        seed: int,
        size: tuple[int, int],
    ) -> NDArray[Any]:
        """Cut a random part out of each image and resize it to `size`. The dtype stays the same."""
        assert self.scale is not None
        places = self.boxes(images_NCHW.shape[2:], positions_N, seed)
        parts = zip(images_NCHW, places, strict=True)
        return np.stack(
            [resized(x[:, top : top + h, left : left + w], *size) for x, (top, left, h, w) in parts]
        )

    def boxes(
        self, sides: tuple[int, ...], positions_N: NDArray[np.int64], seed: int
    ) -> NDArray[np.int64]:
        """Return the box to cut out of each image of sides (H, W), (N, 4): top, left, height and
        width."""
        shares = self.scale or (1.0, 1.0)
        sizes = boxes.sizes(sides, positions_N, seed, BOX, shares, self.ratio)
        sizes[(sizes == 0).any(1)] = self._middle(*sides)
        return np.concatenate([boxes.corners(sides, sizes, positions_N, seed, PLACE), sizes], 1)

    def _middle(self, high: int, wide: int) -> tuple[int, int]:
        """Return (height, width) of the largest part whose ratio is allowed."""
        low, top = self.ratio
        if wide / high < low:
            return max(1, min(high, round(wide / low))), wide
        return (high, max(1, min(wide, round(high * top)))) if wide / high > top else (high, wide)

    def recolor(
        self,
        images_NCHW: NDArray[np.float32],
        positions_N: NDArray[np.int64],
        seed: int,
        *,
        clip: bool,
    ) -> None:
        """Change the colours of images with values from 0 to 255, in place. With `clip` the values
        stay in that range, except for the noise of `lighting`."""
        if not self._recolors:
            return
        amounts = (self.brightness, self.contrast, self.saturation)
        factors = [self._factor(at, amount, positions_N, seed) for at, amount in enumerate(amounts)]
        orders = np.argsort(
            np.stack([uniform(seed, positions_N, ORDER + at) for at in range(3)], 1), 1
        )
        weights = GREY if self.order == "rgb" else GREY[::-1]
        for number, image_CHW in enumerate(images_NCHW):
            for at in orders[number]:
                if amounts[at]:
                    _blend(image_CHW, _towards(int(at), image_CHW, weights), factors[at][number])
                    if clip:
                        np.clip(image_CHW, 0, 255, out=image_CHW)
        if self.lighting:
            images_NCHW += self._light(positions_N, seed)[:, :, None, None]

    def _factor(
        self, at: int, amount: float, positions: NDArray[np.int64], seed: int
    ) -> NDArray[np.float32]:
        low = max(0.0, 1 - amount)
        return (low + (1 + amount - low) * uniform(seed, positions, JITTER + at)).astype(np.float32)

    def _light(self, positions: NDArray[np.int64], seed: int) -> NDArray[np.float32]:
        """Return the noise to add to each plane, (N, 3)."""
        drawn = (
            np.stack([normal(seed, positions, LIGHT + 2 * at) for at in range(3)], 1)
            * self.lighting
        )
        rgb = 255 * (drawn * DEVIATIONS) @ COMPONENTS.T
        return np.asarray(rgb if self.order == "rgb" else rgb[:, ::-1], np.float32)


def _towards(at: int, image_CHW: NDArray[np.float32], weights: NDArray[np.float32]) -> Any:
    """Return the image to mix with: black for brightness, the mean grey for contrast, the grey
    image for saturation."""
    if at == 0:
        return np.float32(0)
    grey_HW = np.tensordot(weights, image_CHW, 1) if len(image_CHW) == 3 else image_CHW[0]
    return grey_HW.mean(dtype=np.float64).astype(np.float32) if at == 1 else grey_HW


def _blend(image_CHW: NDArray[np.float32], other: Any, factor: np.float32) -> None:
    """Compute factor * image + (1 - factor) * other, in place."""
    image_CHW *= factor
    image_CHW += (1 - factor) * other
