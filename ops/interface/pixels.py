"""The transform of images of bytes, as nets read them."""

from __future__ import annotations

from ops.errors import Array
from ops.reference import pixels
from ops.reference.pixels import ImageForm as ImageForm  # this module exports it


class PixelOps:
    """Operations on images of bytes."""

    transforms_images = False  # whether images are worth transforming here, not where they are read

    def transform_pixels(self, x: Array, places: Array, form: ImageForm) -> Array:
        """Return the images x (N, C, H, W), uint8 on the host, as float32 for a net. Each is
        cropped, mirrored, scaled and has a box erased, in this order.

        `places` (N, 7), int32 on the host: top and left of the crop, whose pixels outside of the
        image are 0; 1 if it is mirrored; top, left, height and width of the box that becomes 0.
        """
        return pixels.transform(x, places, form)
