"""Convolutions of the CPU backend: the chosen algorithm where the kernels can read the arrays, else
the reference.

Images and their gradients are float32 or bfloat16, in any mix; parameters and their gradients are
float32.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from ops.cpu.conv.algorithm import Convolution, ConvShape
from ops.cpu.conv.choose import DATA, FORWARD, WEIGHTS, Chooser
from ops.cpu.conv.lowered import LoweredConvolutions
from ops.cpu.team.image_layout import lies_well
from ops.cpu.team.operands import F32, LOADED, kind_of
from ops.errors import Array, Shape
from ops.geometry import ConvGeometry
from ops.reference import conv
from ops.reference.mixed_images import any_narrow, checked

OPEN = float("-inf")
RECTIFY = 0.0


class Convolutions(LoweredConvolutions):
    """Overrides the convolution methods; with a `b_p` lowering does them all."""

    precision: str

    @cached_property
    def chooser(self) -> Chooser:
        """Picks and keeps the algorithms of this backend."""
        return Chooser(self.team, self.workspace, self.precision)

    @cached_property
    def _found(self) -> dict[Any, Convolution]:
        """The algorithm by pass, geometry and the kinds of the operands, of operands that fit and
        were checked. After a kernel of milliseconds, Python's caches are cold: the checks of one
        convolution then take 0.3 ms, 10 us else."""
        return {}

    def conv_forward(
        self, x: Array, w: Array, b: Array | None, geometry: ConvGeometry, out: Array | None = None,
        *, rectify: bool = False,
    ) -> Array:  # fmt: skip
        key = (FORWARD, geometry, kind_of(x), kind_of(w), kind_of(b), kind_of(out, written=True))
        algorithm = self._found.get(key)
        y: Array
        if algorithm is None or out is None:
            if not self._fits(x, w, out, channels=FORWARD):
                return super().conv_forward(x, w, b, geometry, out, rectify=rectify)
            y_shape = conv.check_forward(checked(x), w, b, geometry, checked(out))
            y = self.images_like(y_shape, out, x.dtype)
            shape = ConvShape(x.shape, len(w), geometry)
            algorithm = self._found[key] = self.chooser(shape, FORWARD, any_narrow(x, y))
        else:
            y = out
        beside = None if b is None else self._beside(b)
        algorithm.forward(x, self._beside(w), beside, y, RECTIFY if rectify else OPEN)
        return y

    def conv_backward_data(
        self, dy: Array, w: Array, geometry: ConvGeometry, in_shape: Shape, out: Array | None = None
    ) -> Array:
        in_shape = tuple(in_shape)
        key = DATA, geometry, in_shape, kind_of(dy), kind_of(w), kind_of(out, written=True)
        algorithm = self._found.get(key)
        dx: Array
        if algorithm is None or out is None:
            if not self._fits(dy, w, out, channels=DATA):
                return super().conv_backward_data(dy, w, geometry, in_shape, out)
            conv.check_backward_data(checked(dy), w, geometry, in_shape, checked(out))
            dx = self.images_like(in_shape, out, dy.dtype)
            shape = ConvShape(in_shape, len(w), geometry)
            algorithm = self._found[key] = self.chooser(shape, DATA, any_narrow(dy, dx))
        else:
            dx = out
        algorithm.backward_data(dy, self._beside(w), dx)
        return dx

    def conv_backward_weights(
        self, x: Array, dy: Array, geometry: ConvGeometry, w_shape: Shape, *,
        bias: bool, out_w: Array | None = None, out_b: Array | None = None,
    ) -> tuple[Array, Array | None]:  # fmt: skip
        places = kind_of(out_w, written=True), kind_of(out_b, written=True)
        key = WEIGHTS, geometry, tuple(w_shape), kind_of(x), kind_of(dy), *places
        algorithm = self._found.get(key)
        if algorithm is None:
            ready = self._fits(x, dy, None, channels=WEIGHTS) and (
                out_w is None or out_w.flags.c_contiguous
            )
            if not ready:
                return super().conv_backward_weights(
                    x, dy, geometry, w_shape, bias=bias, out_w=out_w, out_b=out_b
                )
            conv.check_backward_weights(checked(x), checked(dy), geometry, w_shape, out_w, out_b)
            shape = ConvShape(x.shape, w_shape[0], geometry)
            algorithm = self._found[key] = self.chooser(shape, WEIGHTS, any_narrow(x, dy))
        if out_w is None:
            self.team.spoil()  # the next result would lie elsewhere
        dw = np.empty(w_shape, F32) if out_w is None else out_w
        algorithm.backward_weights(x, dy, dw)
        return dw, self.channel_sums(dy, out_b) if bias else None

    def conv_scratch(
        self, in_shape: Shape, w_shape: Shape, geometry: ConvGeometry, *,
        training: bool, narrow: bool = False,
    ) -> int:  # fmt: skip
        if self.b_p is not None:
            return super().conv_scratch(in_shape, w_shape, geometry, training=training)
        shape = ConvShape(tuple(in_shape), w_shape[0], geometry)
        return self.chooser.scratch(shape, training, narrow)

    def _beside(self, x: Array) -> Array:
        """x, or a copy of it whose numbers lie side by side."""
        if x.flags.c_contiguous:
            return x
        self.team.spoil()
        return np.ascontiguousarray(x)

    def _fits(self, first: Array, second: Array, out: Array | None, *, channels: str) -> bool:
        """Whether the kernels can read the operands: images with channels side by side, and float32
        weights.

        The layer that reads the data takes images in any order.
        """
        if self.b_p is not None or first.ndim != 4 or second.ndim != 4:
            return False
        second_image = channels == WEIGHTS
        kinds = LOADED if second_image else (F32,)
        if first.dtype not in LOADED or second.dtype not in kinds:
            return False
        if not (out is None or lies_well(out)):
            return False
        return (lies_well(first) or (channels != DATA and first.shape[1] <= 4)) and (
            not second_image or lies_well(second)
        )
