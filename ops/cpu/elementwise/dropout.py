"""Dropout: numbers are drawn as they are used (`reference.philox`), four for each turn of the
loop."""

from __future__ import annotations

from typing import Any

import numpy as np

from ops.cpu.codegen.kernel import arguments, floats, inlined, kernel, layout
from ops.cpu.team.fast import Fast
from ops.cpu.team.operands import F32, address
from ops.errors import Array, check_alike
from ops.reference import philox

M0, M1 = (np.uint64(number) for number in philox.MULTIPLIERS)
W0, W1 = (np.uint64(number) for number in philox.WEYL)
HALF = np.uint64(32)
LOW = np.uint64(0xFFFFFFFF)
ZERO = np.uint64(0)

_BLOCK = layout(
    ("x y images pixels channels x_image x_pixel y_image y_pixel first key0 key1 least_kept"),
    "gain",
)


@inlined
def _four(counter: Any, row: Any, key0: Any, key1: Any) -> Any:
    """The four numbers of (counter, row, 0, 0)."""
    x0 = np.uint64(counter)
    x1 = np.uint64(row)
    x2 = ZERO
    x3 = ZERO
    k0 = np.uint64(key0)
    k1 = np.uint64(key1)
    for _ in range(10):  # philox.ROUNDS; unrolled
        a = x0 * M0
        b = x2 * M1
        x0 = (b >> HALF) ^ x1 ^ k0
        x1 = b & LOW
        x2 = (a >> HALF) ^ x3 ^ k1
        x3 = a & LOW
        k0 = (k0 + W0) & LOW
        k1 = (k1 + W1) & LOW
    return x0, x1, x2, x3


@kernel(_BLOCK)
def drop(number: int, size: int, at: Any) -> None:
    """y = x * gain where an element is kept, else 0. The threads share the pixels of images."""
    a = arguments(at)
    total = a.images * a.pixels
    least = np.uint64(a.least_kept)
    gain = a.gain
    none = np.float32(0)
    fours = a.channels // 4 if a.channels % 4 == 0 or a.pixels == 1 else 0
    for each in range(total * number // size, total * (number + 1) // size):
        pixel = each // a.images
        image = each % a.images
        x = floats(a.x + image * a.x_image + pixel * a.x_pixel, a.channels)
        y = floats(a.y + image * a.y_image + pixel * a.y_pixel, a.channels)
        row = a.first + image
        place = pixel * a.channels
        for g in range(fours):
            d0, d1, d2, d3 = _four(place // 4 + g, row, a.key0, a.key1)
            y[4 * g] = x[4 * g] * (gain if d0 >= least else none)
            y[4 * g + 1] = x[4 * g + 1] * (gain if d1 >= least else none)
            y[4 * g + 2] = x[4 * g + 2] * (gain if d2 >= least else none)
            y[4 * g + 3] = x[4 * g + 3] * (gain if d3 >= least else none)
        for c in range(4 * fours, a.channels):
            d0, d1, d2, d3 = _four((place + c) // 4, row, a.key0, a.key1)
            which = (place + c) % 4
            drawn = (d0 if which == 0 else d1) if which < 2 else (d2 if which == 2 else d3)
            y[c] = x[c] * (gain if drawn >= least else none)


class Dropouts(Fast):
    """Dropout of float32 rows, and of images whose channels lie side by side. The reference handles
    all other arrays."""

    def dropout(
        self, x: Array, ratio: float, key: int, first: int = 0, out: Array | None = None
    ) -> Array:
        check_alike("dropout", out, x=x)
        philox.check(ratio, key, first)
        y = self.like(x, out)
        if x.ndim not in (0, 2, 4) and x.size and x.flags.c_contiguous and y.flags.c_contiguous:
            self.dropout(x.reshape(len(x), -1), ratio, key, first, out=y.reshape(len(x), -1))
            return y
        places = [_places(array) for array in (x, y)]
        if x.size == 0 or None in places or not y.flags.writeable:
            return super().dropout(x, ratio, key, first, out)
        (x_image, x_pixel), (y_image, y_pixel) = (place for place in places if place is not None)
        block = _BLOCK(
            x=address(x),
            y=address(y),
            images=x.shape[0],
            pixels=x[0, 0].size if x.ndim == 4 else 1,
            channels=x.shape[1],
            x_image=x_image,
            x_pixel=x_pixel,
            y_image=y_image,
            y_pixel=y_pixel,
            first=first,
            key0=key & 0xFFFFFFFF,
            key1=key >> 32,
            least_kept=philox.least_kept(ratio),
            gain=1 / (1 - float(ratio)),
        )
        self.team.run(drop, block)
        return y


def _places(x: Array) -> tuple[int, int] | None:
    """Bytes from image to image and from pixel to pixel. None if channels do not lie side by
    side."""
    if (
        x.ndim not in (2, 4)
        or x.dtype != F32
        or address(x) % 4
        or any(stride % 4 for stride in x.strides)
    ):
        return None
    if x.shape[1] > 1 and x.strides[1] != 4:
        return None
    if x.ndim == 2:
        return x.strides[0], 0
    (_, _, high, wide), (image, _, row, column) = x.shape, x.strides
    if high > 1 and wide > 1 and row != wide * column:
        return None
    return image, column if wide > 1 else row
