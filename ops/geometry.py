"""The windows of convolution and pooling: kernel, stride, pad and dilation, and the output shapes
that follow from them.

Sizes follow Caffe: convolution rounds the output size down, pooling rounds it up.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from ops.errors import OpsError, Shape, check_choice

Pair: TypeAlias = tuple[int, int]
Span: TypeAlias = tuple[slice, slice]  # outputs reached, inputs read

POOL_MODES = ("MAX", "AVE", "STOCHASTIC")


def _check_pair(owner: str, field: str, value: object, least: int) -> None:
    ok = isinstance(value, tuple) and len(value) == 2
    if not (ok and all(type(v) is int and v >= least for v in value)):  # type: ignore[attr-defined]
        raise OpsError(
            f"{owner}: {field} is {value!r}, expected two integers (height, "
            f"width) of at least {least}"
        )


def check_image(owner: str, in_shape: Shape) -> None:
    """Check that `in_shape` is (N, C, H, W) with positive sizes."""
    if len(in_shape) != 4 or any(size < 1 for size in in_shape):
        raise OpsError(
            f"{owner}: input shape is {tuple(in_shape)}, expected four positive sizes (N, C, H, W)"
        )


def reach(position: int, size: int, outputs: int, stride: int, pad: int) -> Span:
    """The outputs whose window reads a pixel at `position`, and the pixels that they read there,
    along one axis of `size` pixels.

    `position` counts from the window's first pixel (kernel index times dilation). Outputs that
    would read the padding there are left out. Both slices are empty if no output is left.
    """
    low = max(0, -((position - pad) // stride))
    high = min(outputs, (size - 1 + pad - position) // stride + 1)
    if high <= low:
        return slice(0, 0), slice(0, 0)
    start = low * stride + position - pad
    return slice(low, high), slice(start, start + (high - low - 1) * stride + 1, stride)


@dataclass(frozen=True)
class ConvGeometry:
    """Convolution windows; every pair is (height, width). Raises OpsError for sizes out of
    range."""

    kernel: Pair
    stride: Pair = (1, 1)
    pad: Pair = (0, 0)
    dilation: Pair = (1, 1)
    groups: int = 1

    def __post_init__(self) -> None:
        for field, least in (("kernel", 1), ("stride", 1), ("pad", 0), ("dilation", 1)):
            _check_pair("ConvGeometry", field, getattr(self, field), least)
        if type(self.groups) is not int or self.groups < 1:
            raise OpsError(
                f"ConvGeometry: groups is {self.groups!r}, expected an integer of at least 1"
            )

    def output_shape(self, in_shape: Shape, num_output: int) -> Shape:
        """(N, C, H, W) -> (N, num_output, OH, OW) with OH = floor((H + 2 pad - extent) / stride) +
        1."""
        check_image("convolution", in_shape)
        for what, count in (("input channels", in_shape[1]), ("num_output", num_output)):
            if count < 1 or count % self.groups:
                raise OpsError(
                    f"convolution: {what} is {count}, expected a multiple of groups = {self.groups}"
                )
        high, wide = (self._outputs(axis, in_shape[2 + axis]) for axis in (0, 1))
        return (in_shape[0], num_output, high, wide)

    def transposed_shape(self, in_shape: Shape, num_output: int) -> Shape:
        """(N, C, H, W) -> (N, num_output, OH, OW) of the transposed convolution, OH = stride (H -
        1) + extent - 2 pad: the smallest image that this convolution maps to H rows."""
        check_image("deconvolution", in_shape)
        extents = [self.dilation[a] * (self.kernel[a] - 1) + 1 for a in (0, 1)]
        sizes = [
            self.stride[a] * (in_shape[2 + a] - 1) + extents[a] - 2 * self.pad[a] for a in (0, 1)
        ]
        if min(sizes) < 1:
            raise OpsError(
                f"deconvolution: input {tuple(in_shape)} gives {sizes[0]} x {sizes[1]} "
                "pixels, expected at least 1 x 1"
            )
        shape = (in_shape[0], num_output, sizes[0], sizes[1])
        # checks that channels and outputs are multiples of groups
        self.output_shape(shape, in_shape[1])
        return shape

    def _outputs(self, axis: int, size: int) -> int:
        extent = self.dilation[axis] * (self.kernel[axis] - 1) + 1
        padded = size + 2 * self.pad[axis]
        if extent > padded:
            name = ("height", "width")[axis]
            raise OpsError(
                f"convolution: input {name} is {size} ({padded} with padding), "
                f"expected at least the kernel's extent {extent}"
            )
        return (padded - extent) // self.stride[axis] + 1

    def reaches(self, axis: int, size: int) -> list[Span]:
        """One `reach` per kernel index along `axis` (0 height, 1 width) of an input with `size`
        pixels."""
        outputs = self._outputs(axis, size)
        step = self.dilation[axis]
        return [
            reach(k * step, size, outputs, self.stride[axis], self.pad[axis])
            for k in range(self.kernel[axis])
        ]


@dataclass(frozen=True)
class PoolGeometry:
    """Pooling windows; every pair is (height, width). With `whole`, windows that reach beyond the
    padding are left out. Raises OpsError for sizes out of range."""

    kernel: Pair
    stride: Pair = (1, 1)
    pad: Pair = (0, 0)
    mode: str = "MAX"
    whole: bool = False

    def __post_init__(self) -> None:
        for field, least in (("kernel", 1), ("stride", 1), ("pad", 0)):
            _check_pair("PoolGeometry", field, getattr(self, field), least)
        check_choice("PoolGeometry: mode", self.mode, POOL_MODES)
        if self.mode == "STOCHASTIC" and self.pad != (0, 0):
            raise OpsError(
                f"PoolGeometry: pad is {self.pad} with STOCHASTIC, expected none: "
                "Caffe defines no padding"
            )
        if self.pad[0] >= self.kernel[0] or self.pad[1] >= self.kernel[1]:
            raise OpsError(
                f"PoolGeometry: pad is {self.pad}, expected less than the kernel {self.kernel}"
            )

    def output_shape(self, in_shape: Shape) -> Shape:
        """(N, C, H, W) -> (N, C, OH, OW), rounded up unless windows are `whole`; the last window
        starts before the far padding."""
        check_image("pooling", in_shape)
        high, wide = (self._outputs(axis, in_shape[2 + axis]) for axis in (0, 1))
        return (in_shape[0], in_shape[1], high, wide)

    def _outputs(self, axis: int, size: int) -> int:
        kernel = self.kernel[axis]
        stride = self.stride[axis]
        pad = self.pad[axis]
        room = size + 2 * pad - kernel
        outputs = (room // stride if self.whole else -(-room // stride)) + 1
        if outputs < 1:
            name = ("height", "width")[axis]
            raise OpsError(
                f"pooling: input {name} {size} is too small for kernel {kernel}, stride {stride}"
            )
        # Caffe drops the last window only if there is padding. Without padding that window would be
        # empty, so it is dropped too.
        return outputs - 1 if (outputs - 1) * stride >= size + pad else outputs

    def reaches(self, axis: int, size: int) -> list[Span]:
        """One `reach` per kernel index along `axis` (0 height, 1 width) of an input with `size`
        pixels."""
        outputs = self._outputs(axis, size)
        return [
            reach(k, size, outputs, self.stride[axis], self.pad[axis])
            for k in range(self.kernel[axis])
        ]

    def counts(self, axis: int, size: int) -> list[int]:
        """Caffe's divisor per output: the window's length inside the padded image, padding
        included."""
        kernel = self.kernel[axis]
        stride = self.stride[axis]
        pad = self.pad[axis]
        starts = (o * stride - pad for o in range(self._outputs(axis, size)))
        return [min(start + kernel, size + pad) - start for start in starts]

    @property
    def overlapping(self) -> bool:
        """Whether one input pixel can lie in two windows."""
        return self.kernel[0] > self.stride[0] or self.kernel[1] > self.stride[1]
