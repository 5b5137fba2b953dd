"""Convolutions of a device: arguments checked, images brought to the layout of kernels, the chosen
algorithm run."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from ops.cuda.conv.algorithm import ConvShape, Epilogue
from ops.cuda.conv.choose import DATA, FORWARD, WEIGHTS, Chooser
from ops.cuda.device import OnDevice
from ops.cuda.image_layout import arithmetic
from ops.cuda.repeats import repeated
from ops.errors import BFLOAT16, Array, Shape
from ops.geometry import ConvGeometry
from ops.reference import conv
from ops.reference.mixed_images import checked


class Convolutions(OnDevice):
    """Overrides the convolution methods."""

    @cached_property
    def chooser(self) -> Chooser:
        """Picks and keeps the algorithms of this backend."""
        return Chooser(self)

    @repeated
    def conv_forward(
        self, x: Array, w: Array, b: Array | None, geometry: ConvGeometry, out: Array | None = None,
        *, rectify: bool = False,
    ) -> Array:  # fmt: skip
        found = conv.check_forward(checked(x), w, b, geometry, checked(out))
        y = self.images_like(found, out, x.dtype)
        x = self.read(x)
        into = self.into(y)
        epilogue = Epilogue(b is not None, rectify)
        shape = shape_of(x, into, len(w), geometry)
        algorithm = self.chooser(shape, FORWARD, x, into, epilogue)
        algorithm.forward(x, self.contiguous(w), b, into, rectify)
        return self.delivered(into, y)

    @repeated
    def conv_backward_data(
        self, dy: Array, w: Array, geometry: ConvGeometry, in_shape: Shape, out: Array | None = None
    ) -> Array:
        conv.check_backward_data(checked(dy), w, geometry, in_shape, checked(out))
        dx = self.images_like(in_shape, out, dy.dtype)
        dy = self.read(dy)
        into = self.into(dx)
        algorithm = self.chooser(shape_of(into, dy, len(w), geometry), DATA, into, dy)
        algorithm.backward_data(dy, self.contiguous(w), into)
        return self.delivered(into, dx)

    @repeated
    def conv_backward_weights(
        self, x: Array, dy: Array, geometry: ConvGeometry, w_shape: Shape, *,
        bias: bool, out_w: Array | None = None, out_b: Array | None = None,
    ) -> tuple[Array, Array | None]:  # fmt: skip
        conv.check_backward_weights(checked(x), checked(dy), geometry, w_shape, out_w, out_b)
        real = arithmetic(x)
        dw: Array = self.xp.empty(w_shape, real) if out_w is None else out_w
        into = dw if dw.flags.c_contiguous else self.xp.empty(w_shape, real)
        x = self.read(x)
        dy = self.read(dy)
        algorithm = self.chooser(shape_of(x, dy, w_shape[0], geometry), WEIGHTS, x, dy)
        algorithm.backward_weights(x, dy, into)
        return self.delivered(into, dw), self.column_sums(dy, out_b) if bias else None

    def conv_scratch(
        self, in_shape: Shape, w_shape: Shape, geometry: ConvGeometry, *,
        training: bool, narrow: bool = False,
    ) -> int:  # fmt: skip
        shape = ConvShape(tuple(in_shape), w_shape[0], geometry, np.dtype(np.float32))
        return self.chooser.lowered(shape).scratch_bytes


def shape_of(x: Array, y: Array, outputs: int, geometry: ConvGeometry) -> ConvShape:
    """The convolution between x and y, or between their gradients."""
    narrow = x.dtype == BFLOAT16, y.dtype == BFLOAT16
    return ConvShape(tuple(x.shape), outputs, geometry, arithmetic(x), narrow)
