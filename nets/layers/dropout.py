"""Dropout (Caffe's `Dropout`). The mask depends on the seed, the step and the row, not on who draws it."""

import math
from collections.abc import Sequence

import numpy as np

from nets.layers.base import SAVED, Blobs, Gradients, Layer, Need, Run, Setup, Shape, Values, register
from ops import Array


@register("Dropout")
class Dropout(Layer):
    """In training each value is kept with probability 1 - dropout_ratio and divided by it; in test, unchanged.

    The mask belongs to (seed, step, layer, row of the whole batch), whichever worker computes that row.
    """

    in_place_ok = True
    top_is_free = False
    passes_gradient = True
    planned, reads_bottoms, reads_tops = True, False, False
    gradient_in_place_ok = True

    def needs(self, bottoms: Sequence[Shape], tops: Sequence[Shape], training: bool) -> list[Need]:
        if self.views:  # it hands its bottom on, and gradients too
            return []
        flat, kinds = (tops[0][0], math.prod(tops[0][1:])), {"uniforms": np.float32, "mask": np.bool_}
        drawn = [Need(key, flat, SAVED, dtype=kind) for key, kind in kinds.items()]
        return [*super().needs(bottoms, tops, training), *(drawn if training and self.ops.on_host else [])]

    def _shape(self, shapes: list[Shape], setup: Setup) -> list[Shape]:
        self.ratio = float(self.proto.dropout_param.dropout_ratio)
        if not 0.0 < self.ratio < 1.0:
            raise self.error("dropout_param.dropout_ratio", f"found {self.ratio:g}, expected 0 < ratio < 1")
        self.views = setup.phase != "TRAIN"
        return [shapes[0]]

    def forward(self, bottoms: list[Array], blobs: Blobs, run: Run) -> list[Array]:
        x = bottoms[0]
        if run.phase != "TRAIN":
            return [x]
        self.mask = self._draw(x, run)
        out = x if self.in_place else self.buffer("top", x.shape)
        return [self.ops.dropout(x, self.mask, self.ratio, out=out)]

    def _draw(self, x: Array, run: Run) -> Array:
        """The mask of x's shape; the channels of a pixel are drawn one after the other, as most backends keep them."""
        flat = (x.shape[0], x.size // x.shape[0])
        into = self.buffer("uniforms", flat, np.float32) if self.ops.on_host else None
        drawn = run.uniforms("dropout", self.name, flat, into)
        mask = self.buffer("mask", flat, np.bool_) if self.ops.on_host else np.empty(flat, np.bool_)
        if x.ndim != 4:
            return self.ops.asarray(np.greater_equal(drawn, self.ratio, out=mask).view(np.uint8).reshape(x.shape))
        n, c, h, w = x.shape
        pixels = mask.reshape(h, w, n, c).transpose(2, 0, 1, 3) if self.reorders(x.shape) else mask.reshape(n, h, w, c)
        np.greater_equal(drawn.reshape(n, h, w, c), self.ratio, out=pixels)
        return self.ops.asarray(pixels.view(np.uint8).transpose(0, 3, 1, 2))

    def backward(
        self, grads: list[Array | None], values: Values, run: Run, wanted: list[bool], out: Blobs | None
    ) -> Gradients:
        dy = grads[0]
        if not wanted[0] or dy is None or run.phase != "TRAIN":
            return [dy if wanted[0] else None], ()
        into = dy if self.over_gradient else self.buffer("bottom", dy.shape)
        return [self.ops.dropout(dy, self.mask, self.ratio, out=into)], ()
