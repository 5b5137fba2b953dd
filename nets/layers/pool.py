"""Pooling (Caffe's `Pooling`, MAX and AVE): output sizes are rounded up.

What lives here: its shapes and the argmax kept between forward and backward. What never: the arithmetic
(`ops`).
"""

import numpy as np

from nets.layers.base import Blobs, Gradients, Layer, Run, Setup, Shape, Values, register
from nets.layers.windows import image, pair
from nets.schema import caffe_pb2 as caffe
from ops import Array, OpsError, PoolGeometry


@register("Pooling")
class Pooling(Layer):
    """x (N, C, H, W) -> y (N, C, OH, OW); `global_pooling` takes the whole plane."""

    def _shape(self, shapes: list[Shape], setup: Setup) -> list[Shape]:
        p, block = self.proto.pooling_param, "pooling_param"
        shape = image(self, shapes[0])
        mode = caffe.PoolingParameter.PoolMethod.Name(p.pool)
        if mode == "STOCHASTIC":
            raise self.error(f"{block}.pool", "found STOCHASTIC, only MAX and AVE are supported")
        if p.global_pooling and (p.HasField("kernel_size") or p.HasField("kernel_h") or p.HasField("kernel_w")):
            raise self.error(f"{block}.global_pooling", "given besides a kernel size, expected only one of the two")
        kernel = (shape[2], shape[3]) if p.global_pooling else pair(self, block, "kernel_size", None)
        stride, pad = pair(self, block, "stride", 1), pair(self, block, "pad", 0)
        if p.global_pooling and (stride, pad) != ((1, 1), (0, 0)):
            raise self.error(f"{block}.global_pooling", f"found stride {stride}, pad {pad}, expected stride 1, pad 0")
        try:
            self.geometry = PoolGeometry(kernel, stride, pad, mode)
            self.top_shape = self.geometry.output_shape(shape)
        except OpsError as error:
            raise self.error(block, str(error)) from None
        return [self.top_shape]

    def forward(self, bottoms: list[Array], blobs: Blobs, run: Run) -> list[Array]:
        maxima = self.geometry.mode == "MAX"
        argmax = self.buffer("argmax", self.top_shape, np.int32) if maxima else None
        out = self.buffer("top", self.top_shape)
        y, self.argmax = self.ops.pool_forward(bottoms[0], self.geometry, out=out, argmax=argmax)
        return [y]

    def backward(
        self, grads: list[Array | None], values: Values, run: Run, wanted: list[bool], out: Blobs | None
    ) -> Gradients:
        x, dy = values.bottoms[0], grads[0]
        if not wanted[0] or dy is None:
            return [None], ()
        dx = self.buffer("bottom", x.shape)
        return [self.ops.pool_backward(dy, self.geometry, x.shape, argmax=self.argmax, out=dx)], ()
