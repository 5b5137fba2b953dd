"""Layers without bottoms that fill their own tops (Caffe's `DummyData`, `Parameter`)."""

from typing import Any

import numpy as np

from nets.definition.params import FILLERS, check_filler, generator
from nets.layers.base import Blobs, Gradients, Layer, Run, Setup, Shape, Values, register
from nets.layers.data import with_rows
from nets.schema import caffe_pb2 as caffe
from ops import Array

OLD_KEYS = ("num", "channels", "height", "width")


@register("DummyData")
class DummyData(Layer):
    """Tops with the shapes and fillers in `dummy_data_param`: one for all tops, or one for each.
    Random fillers draw new numbers in each pass.

    The numbers depend on (seed, step, layer, row of the whole batch) only.
    """

    bottoms = (0, 0)
    tops = (1, 1000)
    differentiable = False

    def _shape(self, shapes: list[Shape], setup: Setup) -> list[Shape]:
        count = len(self.proto.top)
        self.shapes = [
            with_rows(shape, setup)
            for shape in self._for_each("shape", self._given_shapes(), count)
        ]
        zero = [caffe.FillerParameter(type="constant", value=0)]
        self.fillers = self._for_each(
            "data_filler", list(self.proto.dummy_data_param.data_filler) or zero, count
        )
        for shape, filler in zip(self.shapes, self.fillers, strict=True):
            check_filler(filler, shape, self.where, "dummy_data_param.data_filler")
        return self.shapes

    def _given_shapes(self) -> list[Shape]:
        """Return the shapes, given as `shape` or in the older way."""
        p = self.proto.dummy_data_param
        old = [list(getattr(p, key)) for key in OLD_KEYS]
        if p.shape and any(old):
            raise self.error(
                "dummy_data_param.shape",
                ("given together with num, channels, height, width, expected only one of the two"),
            )
        if len({len(sizes) for sizes in old}) > 1:
            raise self.error(
                "dummy_data_param",
                (
                    f"found {[len(sizes) for sizes in old]} of {', '.join(OLD_KEYS)}, expected "
                    "the same number of each"
                ),
            )
        shapes = [tuple(int(size) for size in shape.dim) for shape in p.shape] or list(
            zip(*old, strict=True)
        )
        if any(min(shape, default=0) < 1 for shape in shapes):
            raise self.error("dummy_data_param.shape", f"found {shapes}, expected sizes >= 1")
        return shapes

    def _for_each(self, key: str, given: list[Any], count: int) -> list[Any]:
        if len(given) not in (1, count):
            raise self.error(
                f"dummy_data_param.{key}",
                (f"found {len(given)}, expected 1 or {count}, one per top"),
            )
        return given * count if len(given) == 1 else given

    def forward(self, bottoms: list[Array], blobs: Blobs, run: Run) -> list[Array]:
        return [self._filled(index, run) for index in range(len(self.shapes))]

    def _filled(self, index: int, run: Run) -> Array:
        """Fill the whole batch and keep the rows of this pass."""
        shape = self.shapes[index]
        filler = self.fillers[index]
        rng = generator(run.seed, "dummy", run.step, self.name, index)
        axis = 1 if shape[:2] == (run.steps, run.rows) else 0
        if shape[axis] != run.rows:  # no axis counts rows
            return self.ops.asarray(FILLERS[filler.type](shape, filler, rng), self.dtype)
        whole = (*shape[:axis], run.whole, *shape[axis + 1 :])
        values = FILLERS[filler.type](whole, filler, rng)
        rows = np.concatenate([np.arange(low, high) for low, high in run.ranges])
        return self.ops.asarray(values.take(rows, axis), self.dtype)


@register("Parameter")
class Parameter(Layer):
    """A top that is a parameter of shape `parameter_param.shape`. It is zero at first."""

    bottoms = (0, 0)
    top_is_free = False

    def _shape(self, shapes: list[Shape], setup: Setup) -> list[Shape]:
        shape = tuple(int(size) for size in self.proto.parameter_param.shape.dim)
        self.declare(
            "parameter",
            shape,
            caffe.FillerParameter(type="constant", value=0),
            "parameter_param.shape",
        )
        return [shape]

    def forward(self, bottoms: list[Array], blobs: Blobs, run: Run) -> list[Array]:
        return [blobs[0]]

    def backward(
        self,
        grads: list[Array | None],
        values: Values,
        run: Run,
        wanted: list[bool],
        out: Blobs | None,
    ) -> Gradients:
        place = out[0] if out else self.ops.empty(self.params[0].shape, self.dtype)
        place[...] = grads[0]
        return [], (place,)
