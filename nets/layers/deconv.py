"""The transpose of a convolution (Caffe's `Deconvolution`)."""

import math
from collections.abc import Sequence

from nets.layers.base import Blobs, Run, Shape, register
from nets.layers.conv import Backward, Windowed
from ops import Array


@register("Deconvolution")
class Deconvolution(Windowed):
    """x (N, C, H, W), weight (C, K/group, kh, kw), bias (K,) -> y (N, K, OH, OW). A convolution of
    the same window maps y back to the shape of x.

    OH = stride (H - 1) + extent - 2 pad.
    """

    def products(self, bottoms: Sequence[Shape], tops: Sequence[Shape]) -> int:
        return math.prod(bottoms[0]) * math.prod(self.params[0].shape[1:])

    def _shapes(self, shape: Shape, outputs: int) -> tuple[Shape, Shape]:
        weight = (shape[1], outputs // self.geometry.groups, *self.geometry.kernel)
        return weight, self.geometry.transposed_shape(shape, outputs)

    def forward(self, bottoms: list[Array], blobs: Blobs, run: Run) -> list[Array]:
        bias = blobs[1] if len(self.params) > 1 else None
        out = self.buffer("top", self.top_shape)
        return [self.ops.deconv_forward(bottoms[0], blobs[0], bias, self.geometry, out=out)]

    def _back(self) -> Backward:
        return self.ops.deconv_backward_weights, self.ops.deconv_backward_data
