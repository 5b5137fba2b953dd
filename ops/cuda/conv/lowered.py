"""Convolution by lowering: windows of the images as rows of a matrix, and one product for each part
of the batch.

Rows are pixels, so a product writes them where the next layer reads them: nothing is transposed. A
1x1 kernel needs no windows. Weights are brought from Caffe's order (K, C, kh, kw) to that of the
windows, (K, kh, kw, C), in every pass. If an image is stored in bfloat16, both factors of each
product are bfloat16, and sums are float32.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ops.cuda.conv.algorithm import ConvShape
from ops.cuda.conv.weight_layouts import WeightOrder
from ops.cuda.device import OnDevice
from ops.cuda.image_layout import TO_LOGICAL, in_fours, rows, step_of
from ops.cuda.launch import Divisor, divisor
from ops.errors import Array
from ops.reference.lowering import is_identity

# bytes of windows at a time: products are large enough then, and VGG-16 takes 8 GB at 128 images
MOST_BYTES = 512 << 20


class Lowered:
    """Convolution of one shape by lowering. Implements `algorithm.Convolution`."""

    def __init__(self, shape: ConvShape, ops: OnDevice) -> None:
        self._ops = ops
        self._shape = shape
        self._geometry = shape.geometry
        self._n, self._c, self._h, self._w = shape.in_shape
        self._k, (self._p, self._q) = shape.outputs, shape.out_shape[2:]
        self._groups, (self._kh, self._kw) = shape.geometry.groups, shape.geometry.kernel
        self._identity = is_identity(shape.geometry)
        self._own = self._c // self._groups  # channels of a group
        self._depth = self._own * self._kh * self._kw
        each = self._p * self._q * self._kh * self._kw * self._c * shape.factors.itemsize
        most = max(1, MOST_BYTES // each)
        parts = -(-self._n // (ops.b_p or most))
        self._images = -(-self._n // parts)
        self._weights = WeightOrder(shape, ops)
        self.scratch_bytes = (
            0 if self._identity else self._images * each
        ) + self._weights.scratch_bytes

    def forward(self, x: Array, w: Array, b: Array | None, y: Array, rectify: bool) -> None:
        w_KD = self._weights.packed(w)
        for part in self._parts():
            y_MK = rows(y[part])
            for columns, windows_MD in zip(
                self._columns(self._k), self._lower(x[part]), strict=True
            ):
                self._ops.conv_product(windows_MD, w_KD[columns].T, y_MK[:, columns], False)
        self._ops.shifted(y, b, rectify)

    def backward_data(self, dy: Array, w: Array, dx: Array) -> None:
        w_KD = self._weights.packed(w)
        for part in self._parts():
            dy_MK = rows(self._factor(dy[part]))
            into = dx[part]
            windows = self._windows(len(into)) if not self._identity else rows(into)
            for g, columns in enumerate(self._columns(self._k)):
                w_D = w_KD[columns]
                out = (
                    windows[g]
                    if not self._identity
                    else windows[:, g * self._own : (g + 1) * self._own]
                )
                self._ops.conv_product(dy_MK[:, columns], w_D, out, False)
            if not self._identity:
                self._lift(windows, into)

    def backward_weights(self, x: Array, dy: Array, dw: Array) -> None:
        dw_KD = self._weights.room(dw)
        for part in self._parts():
            dy_MK = rows(self._factor(dy[part]))
            for columns, windows_MD in zip(
                self._columns(self._k), self._lower(x[part]), strict=True
            ):
                self._ops.conv_product(
                    dy_MK[:, columns].T, windows_MD, dw_KD[columns], part.start > 0
                )
        self._weights.unpack(dw_KD, dw)

    def _parts(self) -> Iterator[slice]:
        for start in range(0, self._n, self._images):
            yield slice(start, min(start + self._images, self._n))

    def _columns(self, channels: int) -> list[slice]:
        """The channels of each group."""
        size = channels // self._groups
        return [slice(g * size, (g + 1) * size) for g in range(self._groups)]

    # windows

    def _windows(self, images: int) -> Array:
        """(groups, pixels, kh * kw * channels of a group), contents undefined."""
        shape = (self._groups, images * self._p * self._q, self._depth)
        return self._ops.scratch.take("windows", shape, self._shape.factors)

    def _factor(self, x: Array) -> Array:
        """x as the factor of a product."""
        return as_factor(self._ops, x, self._shape.factors)

    def _lower(self, x: Array) -> list[Array]:
        """The windows of some images, a matrix (pixels, kh * kw * channels) for each group."""
        if self._identity:
            x_MC = rows(self._factor(x))
            return [x_MC[:, columns] for columns in self._columns(self._c)]
        step = step_of(x)
        windows = self._windows(len(x))
        assert step is not None
        touching = self._groups == 1 and self._geometry.dilation[1] == 1 and step == self._c
        run, repeats = (self._kw * self._c, 1) if touching else (self._own, self._kw)
        wide = 4 if in_fours(self._own, x, windows) and step % 4 == 0 else 1
        sizes = map(divisor, (run // wide, repeats, self._kh, self._q, self._p, len(x)))
        count = windows.size // wide
        self._ops.launch(
            "lower" if wide == 1 else "lower4",
            count,
            self._shape.dtype,
            x,
            windows,
            count,
            step // wide,
            self._h,
            self._w,
            *sizes,
            *self._geometry.stride,
            *self._geometry.pad,
            *self._geometry.dilation,
        )
        return list(windows)

    def _lift(self, windows: Array, dx: Array) -> None:
        """Set dx to the sum of all window elements that were read from each number."""
        step = step_of(dx)
        assert step is not None
        wide = 4 if in_fours(self._own, dx, windows) and step % 4 == 0 else 1
        sizes = [divisor(size) for size in (self._c // wide, self._w, self._h, self._own // wide)]
        strides: list[Divisor] = [divisor(stride) for stride in self._geometry.stride]
        count = dx.size // wide
        self._ops.launch(
            "lift" if wide == 1 else "lift4",
            count,
            self._shape.dtype,
            windows,
            dx,
            count,
            step // wide,
            *sizes,
            windows.shape[1],
            self._kh,
            self._kw,
            self._p,
            self._q,
            *strides,
            *self._geometry.pad,
            *self._geometry.dilation,
        )


def as_factor(ops: OnDevice, x: Array, dtype: Any) -> Array:
    """Images that have a `step_of`, in the dtype of factors: x itself, or a rounded copy in scratch
    memory."""
    if x.dtype == dtype:
        return x
    n, c, h, w = x.shape
    copy = ops.scratch.take("factor", (n, h, w, c), dtype).transpose(TO_LOGICAL)
    ops.stored_copy(x, copy)
    return copy
