"""Layers whose tops are fed from outside (Caffe's `Data`, `Input`).

What lives here: the shapes they promise. What never: reading data (`nets.data`).
"""

from nets.layers.base import Layer, Setup, Shape, register


class Source(Layer):
    """A layer that is never run: its tops are the inputs of the net."""

    bottoms = (0, 0)
    is_source = True
    differentiable = False


@register("Data")
class Data(Source):
    """Tops data (N, C, H, W) and label (N,): N from the prototxt or the caller, the rest from the data
    source.
    """

    tops = (1, 2)

    def _shape(self, shapes: list[Shape], setup: Setup) -> list[Shape]:
        batch = setup.batch or int(self.proto.data_param.batch_size)
        if batch < 1:
            raise self.error("data_param.batch_size", f"found {batch}, expected an integer >= 1")
        if setup.input_shape is None:
            raise self.error("", "the data's shape is not known, expected a data source with images (C, H, W)")
        channels, height, width = setup.input_shape
        crop = int(self.proto.transform_param.crop_size)
        if crop > min(height, width):
            text = f"found {crop}, expected at most {min(height, width)}: the images are {height} x {width}"
            raise self.error("transform_param.crop_size", text)
        image = (batch, channels, crop or height, crop or width)
        return [image, (batch,)][: len(self.proto.top)]


@register("Input")
class Input(Source):
    """Tops of the shapes in `input_param`, one for all or one each; the caller's batch replaces their first
    size.
    """

    tops = (1, 1000)

    def _shape(self, shapes: list[Shape], setup: Setup) -> list[Shape]:
        given = [tuple(int(size) for size in shape.dim) for shape in self.proto.input_param.shape]
        count = len(self.proto.top)
        if len(given) not in (1, count):
            raise self.error("input_param.shape", f"found {len(given)}, expected 1 or {count}, one per top")
        if any(size < 1 for shape in given for size in shape) or not all(given):
            raise self.error("input_param.shape", f"found {given}, expected sizes >= 1")
        full = given * count if len(given) == 1 else given
        return [(setup.batch or shape[0], *shape[1:]) for shape in full]
