"""Changes of images of bytes that map each byte of a plane to another byte, by a table (N, C, 256).
The numbers are those of Pillow's ImageEnhance and ImageOps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
# (images, part of the largest strength, signs, order of planes) -> tables (N, C, 256)
Maker = Callable[[Bytes, float, NDArray[np.int64], str], Bytes]

EACH = np.arange(256, dtype=np.uint8)
BLEND = 0.9  # the largest change of a factor
MOST_BITS = 8
# Pillow's weights of red, green and blue in grey (ITU-R BT.601), in units of 1 / 65536
GREY = np.array([19595, 38470, 7471], np.int64)


def applied(images: Bytes, tables_NC: Bytes) -> Bytes:
    """Return the images with each byte replaced by its table's."""
    planes = images.reshape(*images.shape[:2], -1)
    starts = np.arange(planes.shape[1])[:, None] * 256
    result = np.empty_like(planes)
    # one by one: places for all images at once would be many times larger than the images
    for image, table_C, out in zip(planes, tables_NC, result, strict=True):
        np.take(table_C.reshape(-1), starts + image, out=out, mode="clip")
    return result.reshape(images.shape)


def blended(one: NDArray[Any], other: NDArray[Any], factors_N: NDArray[Any]) -> Bytes:
    """Return one + factor * (other - one) as bytes: cut off at 0 and 255, and rounded down, as
    Pillow does in single precision."""
    first = one.astype(np.float32)
    factors = factors_N.astype(np.float32).reshape(-1, *[1] * (other.ndim - 1))
    mixed = first + factors * (other.astype(np.float32) - first)
    return np.clip(mixed, 0, 255).astype(np.uint8)


def grey(images: Bytes, order: str) -> Bytes:
    """Return images of 3 planes in this `order` in grey, with one plane. Images of one plane are
    returned as they are."""
    if images.shape[1] != 3:
        return images
    weights = GREY if order == "rgb" else GREY[::-1]
    sums = np.zeros((len(images), *images.shape[2:]), np.int32)
    for plane, weight in enumerate(weights):
        sums += images[:, plane].astype(np.int32) * np.int32(weight)
    return ((sums + 0x8000) >> 16).astype(np.uint8)[:, None]


def _brightness(images: Bytes, part: float, signs: NDArray[np.int64], order: str) -> Bytes:
    return _towards(np.zeros(len(images)), images, part, signs)


def _contrast(images: Bytes, part: float, signs: NDArray[np.int64], order: str) -> Bytes:
    means = grey(images, order).reshape(len(images), -1).mean(1)
    return _towards(np.floor(means + 0.5), images, part, signs)


def _towards(
    levels_N: NDArray[np.float64], images: Bytes, part: float, signs: NDArray[np.int64]
) -> Bytes:
    """Return tables that mix each byte with one level for each image."""
    each = np.broadcast_to(EACH, (len(images), 256))
    tables = blended(levels_N[:, None], each, 1 + BLEND * part * signs)
    return _for_planes(tables, images)


def _posterize(images: Bytes, part: float, signs: NDArray[np.int64], order: str) -> Bytes:
    bits = MOST_BITS - round(4 * part)
    mask = np.uint8(256 - 2 ** (MOST_BITS - bits))
    return _for_planes(np.broadcast_to(EACH & mask, (len(images), 256)), images)


def _solarize(images: Bytes, part: float, signs: NDArray[np.int64], order: str) -> Bytes:
    threshold = 255 * (1 - part)
    table = np.where(threshold > EACH, EACH, 255 - EACH)
    return _for_planes(np.broadcast_to(table, (len(images), 256)), images)


def _autocontrast(images: Bytes, part: float, signs: NDArray[np.int64], order: str) -> Bytes:
    there = _counts(images) > 0
    low = there.argmax(-1)[..., None]
    high = 255 - there[..., ::-1].argmax(-1)[..., None]
    scale = 255 / np.maximum(high - low, 1)
    tables = np.clip(np.trunc(EACH * scale - low * scale), 0, 255)
    return np.where(high > low, tables, EACH).astype(np.uint8)


def _equalize(images: Bytes, part: float, signs: NDArray[np.int64], order: str) -> Bytes:
    counts = _counts(images)
    high = 255 - (counts[..., ::-1] > 0).argmax(-1)[..., None]
    step = (counts.sum(-1, keepdims=True) - np.take_along_axis(counts, high, -1)) // 255
    before = counts.cumsum(-1) - counts
    tables = np.minimum((step // 2 + before) // np.maximum(step, 1), 255)
    return np.where(step > 0, tables, EACH).astype(np.uint8)


def _for_planes(tables_N: Bytes, images: Bytes) -> Bytes:
    return np.repeat(tables_N[:, None].astype(np.uint8), images.shape[1], axis=1)


def _counts(images: Bytes) -> NDArray[np.int64]:
    """Return how often each byte occurs in each plane, (N, C, 256)."""
    planes = images.reshape(images.shape[0] * images.shape[1], -1)
    starts = np.arange(len(planes), dtype=np.int64)[:, None] * 256
    counts = np.bincount((starts + planes).reshape(-1), minlength=256 * len(planes))
    return counts.reshape(*images.shape[:2], 256)


KINDS: dict[str, Maker] = {
    "brightness": _brightness,
    "contrast": _contrast,
    "posterize": _posterize,
    "solarize": _solarize,
    "autocontrast": _autocontrast,
    "equalize": _equalize,
}
