"""The transform of images of bytes on a device: one launch, from planes to pixels."""

from __future__ import annotations

from typing import Any

import numpy as np

from ops.cuda.device import OnDevice
from ops.cuda.image_layout import new_images
from ops.cuda.launch import NOTHING, divisor
from ops.errors import Array
from ops.reference import pixels
from ops.reference.pixels import ImageForm


class Pixels(OnDevice):
    """Transforms images of bytes that lie on the device."""

    transforms_images = True

    def pixels_of(self, x: Array, places: Array, form: ImageForm) -> Array:
        """`transform_pixels` of arrays of the device, which lie in the order of their axes."""
        pixels.check(x, places, form.mean_image)
        numbers, means = self._numbers(form)
        n, channels, high, wide = x.shape
        y = new_images(self.xp, (n, channels, *form.size), np.dtype(np.float32))
        area = form.size[0] * form.size[1]
        self.launch(
            "transform_pixels",
            n * area,
            y.dtype,
            x,
            channels,
            high,
            wide,
            places,
            numbers,
            means,
            int(form.turned),
            y,
            n * area,
            divisor(area),
            divisor(form.size[1]),
        )
        return y

    def _numbers(self, form: ImageForm) -> tuple[Array, Any]:
        """The numbers that all images share, on the device; the mean image, or a null pointer."""
        known: dict[ImageForm, tuple[Array, Any]] = self.__dict__.setdefault("_forms", {})
        if form not in known:
            numbers = np.array([*form.mean, form.scale, *form.deviation], np.float32)
            image = form.mean_image
            means = NOTHING if image is None else self.asarray(np.ascontiguousarray(image))
            known[form] = self.asarray(numbers), means
        return known[form]
