"""The definition of convolution in float64, tap by tap, for a part of the numbers of each pass.

Forward and backward-data: the first and the last image, 16 channels of the last group.
Backward-weights: 8 x 8 channels of the last group over the whole batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

FEW = 16
FEWER = 8
Array = np.ndarray[Any, Any]


def error(shape: Any, name: str, arrays: dict[str, Any]) -> float:
    """The largest error in the result of pass `name` in `arrays`, relative to the largest value;
    NaN if there is a NaN."""
    return off(expected(shape, name, arrays), arrays[name])


def expected(shape: Any, name: str, arrays: dict[str, Any]) -> tuple[Array, Any]:
    """The expected values of some numbers in the result of pass `name`, and their indices."""
    return {"forward": forward, "backward-data": data, "backward-weights": weights}[name](
        shape, arrays
    )


def off(right: tuple[Array, Any], found: Array) -> float:
    """The largest error of a pass's result, relative to the largest of these numbers; NaN if there
    is a NaN."""
    numbers, which = right
    return float(np.abs(found[which] - numbers).max() / np.abs(numbers).max())


def forward(shape: Any, arrays: dict[str, Any]) -> tuple[Array, Any]:
    """The expected values of some numbers of y, and their indices."""
    images, (channels, outputs) = ends(shape.in_shape[0]), last_group(shape)
    some = spread(outputs, FEW)
    x = padded(shape, arrays["x"][images][:, channels])
    w = arrays["w"][some].astype(np.float64)
    y = np.zeros((len(images), len(some), *shape.out_shape[2:]))
    for i, j, window in taps(shape):
        y += np.einsum("nchw,kc->nkhw", x[:, :, *window], w[:, :, i, j], optimize=True)
    if arrays["b"] is not None:
        y += arrays["b"][some].astype(np.float64)[:, None, None]
    return y, np.ix_(images, some)


def data(shape: Any, arrays: dict[str, Any]) -> tuple[Array, Any]:
    """The expected values of some numbers of dx, and their indices."""
    images, (channels, outputs) = ends(shape.in_shape[0]), last_group(shape)
    some = spread(channels, FEW)
    w = arrays["w"][outputs].astype(np.float64)[:, some - channels[0]]
    dy = arrays["dy"][images][:, outputs].astype(np.float64)
    (top, left), (high, wide) = shape.geometry.pad, shape.in_shape[2:]
    dx = np.zeros((len(images), len(some), high + 2 * top, wide + 2 * left))
    for i, j, window in taps(shape):
        dx[:, :, *window] += np.einsum("nkhw,kc->nchw", dy, w[:, :, i, j], optimize=True)
    return dx[:, :, top : top + high, left : left + wide], np.ix_(images, some)


def weights(shape: Any, arrays: dict[str, Any]) -> tuple[Array, Any]:
    """The expected values of some numbers of dw, and their indices."""
    channels, outputs = last_group(shape)
    c = spread(channels, FEWER)
    k = spread(outputs, FEWER)
    x = padded(shape, arrays["x"][:, c])
    dy = arrays["dy"][:, k].astype(np.float64)
    dw = np.empty((len(k), len(c), *shape.geometry.kernel))
    for i, j, window in taps(shape):
        dw[:, :, i, j] = np.tensordot(dy, x[:, :, *window], ((0, 2, 3), (0, 2, 3)))
    return dw, np.ix_(k, c - channels[0])


def ends(count: int) -> list[int]:
    """The first and the last index."""
    return sorted({0, count - 1})


def spread(numbers: Array, most: int) -> Array:
    """At most `most` of the numbers, evenly spread, both ends among them."""
    return numbers[np.unique(np.linspace(0, len(numbers) - 1, most).astype(int))]


def last_group(shape: Any) -> tuple[Array, Array]:
    """The last group's channels of x and of y."""
    groups = shape.geometry.groups
    channels = np.arange(shape.in_shape[1])
    outputs = np.arange(shape.outputs)
    return channels.reshape(groups, -1)[-1], outputs.reshape(groups, -1)[-1]


def padded(shape: Any, x: Array) -> Array:
    """x in float64 with the padding around it."""
    return np.pad(
        x.astype(np.float64), ((0, 0), (0, 0), *((pad, pad) for pad in shape.geometry.pad))
    )


def taps(shape: Any) -> Iterator[tuple[int, int, tuple[slice, slice]]]:
    """(i, j, the pixels of the padded image that tap (i, j) reads)."""
    g = shape.geometry
    for i, j in np.ndindex(*g.kernel):
        starts = i * g.dilation[0], j * g.dilation[1]
        yield (
            i,
            j,
            tuple(
                slice(start, start + (size - 1) * step + 1, step)
                for start, size, step in zip(starts, shape.out_shape[2:], g.stride, strict=True)
            ),
        )
