"""Depthwise convolution of a device: one launch for each pass."""

from __future__ import annotations

import math

from ops.cuda.device import OnDevice, strips_of
from ops.cuda.image_layout import arithmetic, step_of
from ops.cuda.launch import divisor
from ops.cuda.repeats import repeated
from ops.errors import Array, Shape
from ops.geometry import ConvGeometry
from ops.reference import depthwise
from ops.reference.mixed_images import checked


class Depthwise(OnDevice):
    """Overrides depthwise convolution."""

    @repeated
    def depthwise_forward(
        self, x: Array, w: Array, b: Array | None, geometry: ConvGeometry, out: Array | None = None,
        *, rectify: bool = False,
    ) -> Array:  # fmt: skip
        shape = depthwise.check_forward(checked(x), w, b, geometry, checked(out))
        y = self.images_like(shape, out, x.dtype)
        into = self.into(y)
        x = self.read(x)
        _, k, high, wide = shape
        sizes = (divisor(size) for size in (k, wide, high, k // x.shape[1]))
        self.launch(
            "depthwise_forward",
            y.size,
            w.dtype,
            x,
            step_of(x),
            self.contiguous(w),
            self.given(b),
            into,
            step_of(into),
            int(rectify),
            y.size,
            *sizes,
            *x.shape[2:],
            *geometry.kernel,
            *_strides(geometry),
        )
        return self.delivered(into, y)

    @repeated
    def depthwise_backward_data(
        self, dy: Array, w: Array, geometry: ConvGeometry, in_shape: Shape, out: Array | None = None
    ) -> Array:
        depthwise.check_backward_data(checked(dy), w, geometry, in_shape, checked(out))
        dx = self.images_like(in_shape, out, dy.dtype)
        into = self.into(dx)
        dy = self.read(dy)
        _, c, high, wide = in_shape
        self.launch(
            "depthwise_data",
            dx.size,
            w.dtype,
            dy,
            step_of(dy),
            self.contiguous(w),
            into,
            step_of(into),
            dx.size,
            *(divisor(size) for size in (c, wide, high, *geometry.stride)),
            dy.shape[1] // c,
            *dy.shape[2:],
            *geometry.kernel,
            *geometry.pad,
            *geometry.dilation,
        )
        return self.delivered(into, dx)

    @repeated
    def depthwise_backward_weights(
        self, x: Array, dy: Array, geometry: ConvGeometry, w_shape: Shape, *,
        bias: bool, out_w: Array | None = None, out_b: Array | None = None,
    ) -> tuple[Array, Array | None]:  # fmt: skip
        depthwise.check_backward_weights(checked(x), checked(dy), geometry, w_shape, out_w, out_b)
        real = arithmetic(x)
        dw: Array = self.xp.empty(w_shape, real) if out_w is None else out_w
        into = dw if dw.flags.c_contiguous else self.xp.empty(w_shape, real)
        x = self.read(x)
        dy = self.read(dy)
        n, k, high, wide = dy.shape
        taps = math.prod(geometry.kernel)
        pixels = n * high * wide
        length = k * taps
        strips = strips_of(pixels, length)
        sums, tickets, group = self.summing(1, strips, length, real)
        per_channel = k // x.shape[1]
        self.launch(
            "depthwise_weights",
            strips * length,
            real,
            x,
            step_of(x),
            dy,
            step_of(dy),
            sums,
            tickets,
            into,
            strips * length,
            *(
                divisor(size)
                for size in (length, taps, geometry.kernel[1], wide, high, per_channel)
            ),
            pixels,
            strips,
            group,
            *x.shape[2:],
            *_strides(geometry),
        )
        return self.delivered(into, dw), self.column_sums(dy, out_b) if bias else None

    def depthwise_scratch(
        self, in_shape: Shape, w_shape: Shape, geometry: ConvGeometry, *,
        training: bool, narrow: bool = False,
    ) -> int:  # fmt: skip
        """The sums of strips of pixels."""
        n, k, high, wide = geometry.output_shape(tuple(in_shape), w_shape[0])
        length = k * math.prod(geometry.kernel)
        return 4 * strips_of(n * high * wide, length) * length if training else 0


def _strides(geometry: ConvGeometry) -> tuple[int, ...]:
    return (*geometry.stride, *geometry.pad, *geometry.dilation)
