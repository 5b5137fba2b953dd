"""Layers whose tops are inputs of the net (Caffe's `Data`, `ImageData`, `HDF5Data`, `MemoryData`,
`Input`).

These layers only give the shapes; `nets.data` reads the data.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

from nets.layers.base import Layer, Setup, Shape, register


class Source(Layer):
    """A layer that is never run: its tops are the inputs of the net."""

    bottoms = (0, 0)
    is_source = True
    differentiable = False
    block: ClassVar[str] = ""

    def _batch(self, setup: Setup) -> int:
        """Return the rows per pass: the number that the caller gives, or else the prototxt's."""
        message: Any = getattr(self.proto, self.block)
        batch = setup.batch or int(message.batch_size)
        if batch < 1:
            raise self.error(f"{self.block}.batch_size", f"found {batch}, expected an integer >= 1")
        return batch

    def _known(self, setup: Setup, axes: str) -> Shape:
        """Return the shape of the data source's samples."""
        known = setup.input_shape
        first = self.proto.top[0]
        shape = known.get(first) if isinstance(known, Mapping) else known
        if shape is None:
            raise self.error(
                "", (f"the shape of the data is not known, expected a data source with {axes}")
            )
        return tuple(shape)

    def _cropped(self, batch: int, shape: Shape, setup: Setup) -> list[Shape]:
        """Return the shapes of images, cropped to transform_param.crop_size, and of labels. A label
        is one number, or a row of them if the caller says so."""
        known = setup.input_shape if isinstance(setup.input_shape, Mapping) else {}
        given = [tuple(known.get(top, ())) for top in self.proto.top[1:]]
        labels = [shape if len(shape) == 1 else () for shape in given]
        channels, height, width = shape
        crop = int(self.proto.transform_param.crop_size)
        if crop > min(height, width):
            text = (
                f"found {crop}, expected at most {min(height, width)}: the images are "
                f"{height} x {width}; resize the images, or give a smaller crop"
            )
            raise self.error("transform_param.crop_size", text)
        image = (batch, channels, crop or height, crop or width)
        return [image, *((batch, *label) for label in labels)]


@register("Data")
class Data(Source):
    """Tops data (N, C, H, W) and label (N,), or (N, classes) where images are mixed. N comes from
    the prototxt or the caller, the other sizes from the data source."""

    tops = (1, 2)
    block = "data_param"

    def _shape(self, shapes: list[Shape], setup: Setup) -> list[Shape]:
        batch = self._batch(setup)
        shape = self._known(setup, "images (C, H, W)")
        if len(shape) != 3:
            raise self.error(
                "", (f"the data source has samples of shape {shape}, expected images (C, H, W)")
            )
        return self._cropped(batch, shape, setup)


@register("ImageData")
class ImageData(Data):
    """Tops data (N, C, H, W) and label (N,), as for Data. The data source reads the image files."""

    block = "image_data_param"


@register("MemoryData")
class MemoryData(Source):
    """Tops data (N, C, H, W) and label (N,). All sizes come from the prototxt, but the caller may
    replace N."""

    tops = (2, 2)
    block = "memory_data_param"

    def _shape(self, shapes: list[Shape], setup: Setup) -> list[Shape]:
        p = self.proto.memory_data_param
        image = (int(p.channels), int(p.height), int(p.width))
        if min(image) < 1:
            raise self.error(
                "memory_data_param",
                (f"found channels, height, width {image}, expected integers >= 1"),
            )
        return self._cropped(self._batch(setup), image, setup)


@register("HDF5Data")
class HDF5Data(Source):
    """Any number of tops, (N, ...). Their shapes come from the data source. A later top whose shape
    the source does not give is (N,)."""

    tops = (1, 1000)
    block = "hdf5_data_param"

    def _shape(self, shapes: list[Shape], setup: Setup) -> list[Shape]:
        batch = self._batch(setup)
        shape = self._known(setup, "samples of one shape")
        known = setup.input_shape if isinstance(setup.input_shape, Mapping) else {}
        return [(batch, *shape), *((batch, *known.get(top, ())) for top in self.proto.top[1:])]


@register("Input")
class Input(Source):
    """Tops with the shapes in `input_param`: one for all tops, or one for each. The caller's batch
    size replaces the first size."""

    tops = (1, 1000)

    def _shape(self, shapes: list[Shape], setup: Setup) -> list[Shape]:
        given = [tuple(int(size) for size in shape.dim) for shape in self.proto.input_param.shape]
        count = len(self.proto.top)
        if len(given) not in (1, count):
            raise self.error(
                "input_param.shape", (f"found {len(given)}, expected 1 or {count}, one per top")
            )
        if any(size < 1 for shape in given for size in shape) or not all(given):
            raise self.error("input_param.shape", f"found {given}, expected sizes >= 1")
        return [with_rows(shape, setup) for shape in (given * count if len(given) == 1 else given)]


def with_rows(shape: Shape, setup: Setup) -> Shape:
    """Return `shape` with the caller's batch size as the number of rows, if the caller gives one.
    If rows are streams, it is the second size of (T, N, ...), and the first of (N, ...)."""
    if setup.batch is None:
        return shape
    if setup.streams is None:
        return (setup.batch, *shape[1:])
    if shape[:2] == setup.streams:
        return (shape[0], setup.batch, *shape[2:])
    return (setup.batch, *shape[1:]) if shape[0] == setup.streams[1] else shape
