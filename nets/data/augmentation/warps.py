"""Changes of images that take each pixel from another place: shear, translation and rotation.

The source of each pixel is an affine function of its place, in units of 1 / 65536 of a pixel, as in
Pillow: whole numbers, so that every machine takes the same pixels. The nearest source pixel is
taken; pixels from outside the image are 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

# the source (a x + b y + c, d x + e y + f) of the point (x, y), as (a, b, c, d, e, f)
Affine = tuple[float, float, float, float, float, float]

SHEAR = 0.3  # pixels for each pixel of distance from the upper left corner
SHIFT = 150 / 331  # of the image's side
DEGREES = 30.0
UNIT = 1 << 16


def applied(
    name: str, images: NDArray[Any], part: float, signs_N: NDArray[np.int64]
) -> NDArray[Any]:
    """Return the images after operation `name`, with `part` of the largest strength, in the
    direction of each image's sign."""
    result = np.empty_like(images)
    for sign in (1, -1):
        mine = np.flatnonzero(signs_N == sign)
        if len(mine):
            sources, outside = _sources(name, sign * part, *images.shape[2:])
            planes = images[mine].reshape(len(mine), images.shape[1], -1)
            taken = np.take(planes, sources, axis=2)
            taken[:, :, outside] = 0
            result[mine] = taken.reshape(len(mine), *images.shape[1:])
    return result


@lru_cache(maxsize=16)  # a run has ten: each operation has one strength and two signs
def _sources(
    name: str, part: float, high: int, wide: int
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return the number of each pixel's source in its plane, and which sources are outside."""
    ys = np.arange(high)[:, None]
    xs = np.arange(wide)
    a, b, c, d, e, f = _in_units(KINDS[name](part, high, wide))
    across = (a * xs + b * ys + c) >> 16
    down = (d * xs + e * ys + f) >> 16
    outside = (across < 0) | (across >= wide) | (down < 0) | (down >= high)
    return np.where(outside, 0, down * wide + across).reshape(-1), outside.reshape(-1)


def _in_units(affine: Affine) -> tuple[int, ...]:
    """Return the function in whole units, of the numbers of pixels: a pixel's place is its
    centre."""
    a, b, c, d, e, f = affine
    moved = (a, b, c + a / 2 + b / 2, d, e, f + d / 2 + e / 2)
    return tuple(math.floor(number * UNIT + 0.5) for number in moved)


def _shear_x(part: float, high: int, wide: int) -> Affine:
    return 1, SHEAR * part, 0, 0, 1, 0


def _shear_y(part: float, high: int, wide: int) -> Affine:
    return 1, 0, 0, SHEAR * part, 1, 0


def _translate_x(part: float, high: int, wide: int) -> Affine:
    return 1, 0, -int(SHIFT * part * wide), 0, 1, 0


def _translate_y(part: float, high: int, wide: int) -> Affine:
    return 1, 0, 0, 0, 1, -int(SHIFT * part * high)


def _rotate(part: float, high: int, wide: int) -> Affine:
    """Return a rotation about the centre, counter-clockwise for a positive `part`."""
    angle = -math.radians(DEGREES * part)
    cos, sin = math.cos(angle), math.sin(angle)
    x, y = wide / 2, high / 2
    return cos, sin, x - cos * x - sin * y, -sin, cos, y + sin * x - cos * y


KINDS: dict[str, Callable[[float, int, int], Affine]] = {
    "shear_x": _shear_x,
    "shear_y": _shear_y,
    "translate_x": _translate_x,
    "translate_y": _translate_y,
    "rotate": _rotate,
}
