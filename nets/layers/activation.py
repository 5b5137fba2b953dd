"""Elementwise layers (Caffe's `ReLU`, `Dropout`); both may work in place.

What lives here: what they keep between forward and backward. What never: masks that depend on who draws them.
"""

import numpy as np

from nets.layers.base import Blobs, Gradients, Layer, Run, Setup, Shape, Values, register
from nets.params import generator
from ops import Array


@register("ReLU")
class ReLU(Layer):
    """max(x, 0) + negative_slope * min(x, 0), any shape."""

    in_place_ok = True

    def _shape(self, shapes: list[Shape], setup: Setup) -> list[Shape]:
        self.slope = float(self.proto.relu_param.negative_slope)
        if self.slope < 0:
            raise self.error("relu_param.negative_slope", f"found {self.slope:g}, expected a number >= 0")
        return [shapes[0]]

    def forward(self, bottoms: list[Array], blobs: Blobs, run: Run) -> list[Array]:
        x = bottoms[0]
        return [self.ops.relu_forward(x, self.slope, out=x if self.in_place else self.buffer("top", x.shape))]

    def backward(
        self, grads: list[Array | None], values: Values, run: Run, wanted: list[bool], out: Blobs | None
    ) -> Gradients:
        x, dy = values.bottoms[0], grads[0]
        if not wanted[0] or dy is None:
            return [None], ()
        # In place the bottom already holds the top, whose sign is the same.
        return [self.ops.relu_backward(dy, x, self.slope, out=self.buffer("bottom", x.shape))], ()


@register("Dropout")
class Dropout(Layer):
    """In training each value is kept with probability 1 - dropout_ratio and divided by it; in test,
    unchanged.

    The mask belongs to (seed, step, layer, row of the whole batch), whichever worker computes that row.
    """

    in_place_ok = True
    top_is_free = False

    def _shape(self, shapes: list[Shape], setup: Setup) -> list[Shape]:
        self.ratio = float(self.proto.dropout_param.dropout_ratio)
        if not 0.0 < self.ratio < 1.0:
            raise self.error("dropout_param.dropout_ratio", f"found {self.ratio:g}, expected 0 < ratio < 1")
        return [shapes[0]]

    def forward(self, bottoms: list[Array], blobs: Blobs, run: Run) -> list[Array]:
        x = bottoms[0]
        if run.phase != "TRAIN":
            return [x]
        self.mask = self._draw(x.shape, run)
        out = x if self.in_place else self.buffer("top", x.shape)
        return [self.ops.xp.multiply(x, self.mask, out=out)]

    def backward(
        self, grads: list[Array | None], values: Values, run: Run, wanted: list[bool], out: Blobs | None
    ) -> Gradients:
        dy = grads[0]
        if not wanted[0] or dy is None or run.phase != "TRAIN":
            return [dy if wanted[0] else None], ()
        return [self.ops.xp.multiply(dy, self.mask, out=self.buffer("bottom", dy.shape))], ()

    def _draw(self, shape: Shape, run: Run) -> Array:
        """Draw the rows up to `high` and keep those from `low`: 0 or 1 / (1 - ratio)."""
        rng = generator(run.seed, "dropout", run.step, self.name)
        per_row = shape[0] // (run.high - run.low)  # 1, unless an axis was folded into the rows
        drawn = rng.random((run.high * per_row, *shape[1:]), dtype=np.float32)[run.low * per_row :]
        mask = (drawn >= self.ratio).astype(self.dtype)
        mask *= 1.0 / (1.0 - self.ratio)
        return self.ops.asarray(mask)
