"""Operations that look at neighbours or multiply matrices: convolution, pooling, normalisation,
dense layers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal

from ops.errors import Array, Shape
from ops.geometry import ConvGeometry, PoolGeometry
from ops.reference import (
    adaptive_pool,
    conv,
    deconv,
    dense,
    depthwise,
    lrn,
    pool,
    rearrange,
    stochastic,
)
from ops.reference.lowering import Lowering


class SpatialOps:
    """Convolution, deconvolution, pooling, local response normalisation, dense layers."""

    xp: Any
    lowering: Lowering
    empty: Callable[..., Array]

    def conv_forward(
        self, x: Array, w: Array, b: Array | None, geometry: ConvGeometry, out: Array | None = None,
        *, rectify: bool = False,
    ) -> Array:  # fmt: skip
        """x (N, C, H, W), w (K, C/groups, kh, kw), b (K,) or None -> y (N, K, OH, OW); with
        `rectify` max(y, 0)."""
        return conv.forward(self.xp, x, w, b, geometry, self.lowering, out, rectify)

    def conv_scratch(
        self, in_shape: Shape, w_shape: Shape, geometry: ConvGeometry, *,
        training: bool, narrow: bool = False,
    ) -> int:  # fmt: skip
        """Bytes of scratch memory that the passes of a convolution take: the lowering of one part
        of the batch. `narrow`: some of its images are bfloat16."""
        n, k, high, wide = geometry.output_shape(tuple(in_shape), w_shape[0])
        images = min(n, self.lowering.b_p or n)
        return (
            4 * images * high * wide * (geometry.kernel[0] * geometry.kernel[1] * in_shape[1] + k)
        )

    def conv_backward_data(
        self, dy: Array, w: Array, geometry: ConvGeometry, in_shape: Shape, out: Array | None = None
    ) -> Array:
        """dy (N, K, OH, OW), w -> dx of shape `in_shape` (N, C, H, W)."""
        return conv.backward_data(self.xp, dy, w, geometry, in_shape, self.lowering, out)

    def conv_backward_weights(
        self, x: Array, dy: Array, geometry: ConvGeometry, w_shape: Shape, *,
        bias: bool, out_w: Array | None = None, out_b: Array | None = None,
    ) -> tuple[Array, Array | None]:  # fmt: skip
        """x, dy -> dw of shape `w_shape` and db (K,) (None without `bias`), summed over the
        batch."""
        return conv.backward_weights(
            self.xp, x, dy, geometry, w_shape, self.lowering, bias, out_w, out_b
        )

    def depthwise_forward(
        self, x: Array, w: Array, b: Array | None, geometry: ConvGeometry, out: Array | None = None,
        *, rectify: bool = False,
    ) -> Array:  # fmt: skip
        """A convolution with one group for each channel: x (N, C, H, W), w (M C, 1, kh, kw), b (M
        C,) or None -> y (N, M C, OH, OW); with `rectify` max(y, 0)."""
        return depthwise.forward(self.xp, x, w, b, geometry, out, rectify)

    def depthwise_scratch(
        self, in_shape: Shape, w_shape: Shape, geometry: ConvGeometry, *,
        training: bool, narrow: bool = False,
    ) -> int:  # fmt: skip
        """Bytes of scratch memory that the passes take: the product with one weight of each
        kernel. `narrow`: some of the images are bfloat16."""
        return 4 * math.prod(geometry.output_shape(tuple(in_shape), w_shape[0]))

    def depthwise_backward_data(
        self, dy: Array, w: Array, geometry: ConvGeometry, in_shape: Shape, out: Array | None = None
    ) -> Array:
        """dy (N, M C, OH, OW), w -> dx of shape `in_shape` (N, C, H, W)."""
        return depthwise.backward_data(self.xp, dy, w, geometry, in_shape, out)

    def depthwise_backward_weights(
        self, x: Array, dy: Array, geometry: ConvGeometry, w_shape: Shape, *,
        bias: bool, out_w: Array | None = None, out_b: Array | None = None,
    ) -> tuple[Array, Array | None]:  # fmt: skip
        """x, dy -> dw of shape `w_shape` and db (M C,) (None without `bias`), summed over the
        batch."""
        return depthwise.backward_weights(self.xp, x, dy, geometry, w_shape, bias, out_w, out_b)

    def deconv_forward(
        self, x: Array, w: Array, b: Array | None, geometry: ConvGeometry, out: Array | None = None
    ) -> Array:
        """x (N, C, H, W), w (C, K/groups, kh, kw), b (K,) or None -> y (N, K, OH, OW), OH = stride
        (H - 1) + extent - 2 pad (Caffe's Deconvolution)."""
        shape = deconv.check_forward(x, w, b, geometry, out)
        y = self.conv_backward_data(x, w, geometry, shape, out=out)
        if b is not None:
            self.xp.add(y, b[:, None, None], out=y)
        return y

    def deconv_backward_data(
        self, dy: Array, w: Array, geometry: ConvGeometry, in_shape: Shape, out: Array | None = None
    ) -> Array:
        """dy (N, K, OH, OW), w -> dx of shape `in_shape` (N, C, H, W)."""
        deconv.check_gradient("deconv_backward_data", dy, in_shape, w.shape, geometry)
        return self.conv_forward(dy, w, None, geometry, out=out)

    def deconv_backward_weights(
        self, x: Array, dy: Array, geometry: ConvGeometry, w_shape: Shape, *,
        bias: bool, out_w: Array | None = None, out_b: Array | None = None,
    ) -> tuple[Array, Array | None]:  # fmt: skip
        """x, dy -> dw of shape `w_shape` and db (K,) (None without `bias`), summed over the
        batch."""
        deconv.check_gradient("deconv_backward_weights", dy, x.shape, w_shape, geometry)
        dw, _ = self.conv_backward_weights(dy, x, geometry, w_shape, bias=False, out_w=out_w)
        return dw, deconv.bias_gradient(self.xp, dy, out_b) if bias else None

    def pool_forward(
        self,
        x: Array,
        geometry: PoolGeometry,
        out: Array | None = None,
        argmax: Array | Literal[False] | None = None,
        *,
        uniforms: Array | None = None,
        rectify: bool = False,
    ) -> tuple[Array, Array | None]:
        """x (N, C, H, W) -> y (N, C, OH, OW) and the argmax.

        argmax is int32, the flat index into the H * W input plane; the first of equal maxima wins
        (Caffe). AVE has no argmax. argmax=False leaves it out and returns None for it, which is
        much faster if no backward pass follows. STOCHASTIC samples with `uniforms` (N, C, OH, OW)
        in [0, 1); without them it averages, as in the test phase. With `rectify` y is max(y, 0).
        The argmax of a result that was not positive is then -1, since it has no gradient.
        """
        if geometry.mode != "STOCHASTIC":
            y, places = pool.forward(self.xp, x, geometry, out, argmax)
        elif uniforms is None:
            y = stochastic.average(self.xp, x, geometry, out)
            places = None
        else:
            given = None if argmax is False else argmax
            y, places = stochastic.sample(self.xp, x, uniforms, geometry, out, given)
        return pool.rectified(self.xp, y, places) if rectify else (y, places)

    def pool_backward(
        self, dy: Array, geometry: PoolGeometry, in_shape: Shape,
        argmax: Array | None = None, out: Array | None = None,
    ) -> Array:  # fmt: skip
        """dy (N, C, OH, OW) and the forward pass's argmax (MAX and STOCHASTIC) -> dx of shape
        `in_shape`.

        AVE has no argmax that marks the results that were not positive. After a forward pass with
        `rectify`, rectify dy first (relu_backward).
        """
        return pool.backward(self.xp, dy, geometry, in_shape, argmax, out)

    def adaptive_pool_forward(
        self, x: Array, sizes: tuple[int, int], out: Array | None = None
    ) -> Array:
        """x (N, C, H, W) -> y (N, C, *sizes): output i of n along an axis is the mean of the pixels
        from floor(i size / n) to ceil((i + 1) size / n)."""
        return adaptive_pool.forward(self.xp, x, sizes, out)

    def adaptive_pool_backward(self, dy: Array, in_shape: Shape, out: Array | None = None) -> Array:
        """dy (N, C, OH, OW) -> dx of shape `in_shape`."""
        return adaptive_pool.backward(self.xp, dy, in_shape, out)

    def lrn_forward(
        self, x: Array, *, size: int = 5, alpha: float = 1.0, beta: float = 0.75, k: float = 1.0,
        region: str = "ACROSS_CHANNELS", out: Array | None = None, scale: Array | None = None,
    ) -> tuple[Array, Array]:  # fmt: skip
        """x (N, C, H, W) -> y = x / s^beta and s. Region ACROSS_CHANNELS or WITHIN_CHANNEL (where k
        is not used)."""
        return lrn.forward(self.xp, x, size, alpha, beta, k, region, out, scale)

    def lrn_backward(
        self,
        dy: Array,
        x: Array,
        y: Array,
        scale: Array,
        *,
        size: int = 5,
        alpha: float = 1.0,
        beta: float = 0.75,
        region: str = "ACROSS_CHANNELS",
        out: Array | None = None,
    ) -> Array:
        """dx from the forward pass's x, y and scale."""
        return lrn.backward(self.xp, dy, x, y, scale, size, alpha, beta, region, out)

    def flatten(self, x: Array, out: Array | None = None) -> Array:
        """x (N, ...) -> (N, D) row by row: the order of a dense layer's inputs, whatever the
        strides of x."""
        return rearrange.flatten(self.xp, x, out)

    def unflatten(self, dy: Array, in_shape: Shape, out: Array | None = None) -> Array:
        """dy (N, D) -> dx of shape `in_shape` (N, ...): the inverse of `flatten`."""
        return rearrange.unflatten(dy, in_shape, self.empty, out)

    def copy(self, x: Array, out: Array) -> Array:
        """out = x; either may be a slice of a larger array. Any dtype."""
        return rearrange.copy(x, out)

    def dense_forward(
        self,
        x: Array,
        w: Array,
        b: Array | None,
        out: Array | None = None,
        *,
        rectify: bool = False,
    ) -> Array:
        """x (N, D), w (O, D), b (O,) or None -> y (N, O); with `rectify` max(y, 0)."""
        return dense.forward(self.xp, x, w, b, out, rectify)

    def dense_scratch(
        self,
        rows: int,
        width: int,
        outputs: int,
        *,
        training: bool,
        bias: bool = True,
        turned: bool = False,
    ) -> int:
        """Bytes of scratch memory that the passes of a fully connected layer (rows, width) ->
        (rows, outputs) take.

        `turned`: the layer's weight is stored as (width, outputs).
        """
        return 0

    def dense_backward_data(self, dy: Array, w: Array, out: Array | None = None) -> Array:
        """dy (N, O), w (O, D) -> dx (N, D)."""
        return dense.backward_data(self.xp, dy, w, out)

    def dense_backward_weights(
        self,
        x: Array,
        dy: Array,
        *,
        bias: bool,
        out_w: Array | None = None,
        out_b: Array | None = None,
    ) -> tuple[Array, Array | None]:
        """x (N, D), dy (N, O) -> dw (O, D) and db (O,) (None without `bias`), summed over the
        batch."""
        return dense.backward_weights(self.xp, x, dy, bias, out_w, out_b)
