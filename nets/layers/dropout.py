"""Dropout (Caffe's `Dropout`).

What lives here: drawing the mask. What never: a mask that depends on who draws it.
"""

import numpy as np

from nets.layers.base import Blobs, Gradients, Layer, Run, Setup, Shape, Values, register
from ops import Array


@register("Dropout")
class Dropout(Layer):
    """In training each value is kept with probability 1 - dropout_ratio and divided by it; in test, unchanged.

    The mask belongs to (seed, step, layer, row of the whole batch), whichever worker computes that row.
    """

    in_place_ok = True
    top_is_free = False
    passes_gradient = True

    def _shape(self, shapes: list[Shape], setup: Setup) -> list[Shape]:
        self.ratio = float(self.proto.dropout_param.dropout_ratio)
        if not 0.0 < self.ratio < 1.0:
            raise self.error("dropout_param.dropout_ratio", f"found {self.ratio:g}, expected 0 < ratio < 1")
        return [shapes[0]]

    def forward(self, bottoms: list[Array], blobs: Blobs, run: Run) -> list[Array]:
        x = bottoms[0]
        if run.phase != "TRAIN":
            return [x]
        kept = run.uniforms("dropout", self.name, x.shape) >= self.ratio
        self.mask = self.ops.asarray(kept.view(np.uint8))
        out = x if self.in_place else self.buffer("top", x.shape)
        return [self.ops.dropout(x, self.mask, self.ratio, out=out)]

    def backward(
        self, grads: list[Array | None], values: Values, run: Run, wanted: list[bool], out: Blobs | None
    ) -> Gradients:
        dy = grads[0]
        if not wanted[0] or dy is None or run.phase != "TRAIN":
            return [dy if wanted[0] else None], ()
        return [self.ops.dropout(dy, self.mask, self.ratio, out=self.buffer("bottom", dy.shape))], ()
