"""Convolution of folded images: cuDNN's plan gets channels that its fast engines can load, and no
stride.

Blocks of pixels become channels, so a 7x7 convolution with stride 2 over 3 channels becomes a 4x4
convolution without stride over 12. Blocks of one pixel only add channels that are 0.
"""

from __future__ import annotations

from dataclasses import replace

from ops.cuda.conv.algorithm import ConvShape, Direction
from ops.cuda.conv.cudnn import Planned
from ops.cuda.device import OnDevice
from ops.cuda.image_layout import ALIGNED, TO_LOGICAL, size_of, step_of
from ops.cuda.launch import divisor
from ops.errors import BFLOAT16, Array
from ops.geometry import ConvGeometry

Block = tuple[int, int]  # rows and columns of pixels that become channels of one pixel


def blocks(shape: ConvShape) -> list[Block]:
    """The blocks that are worth a trial: only with channels that threads cannot load 16 bytes at a
    time, as in the images of a first layer."""
    g = shape.geometry
    if shape.in_shape[1] % _lanes(shape) == 0 or g.groups > 1 or g.dilation != (1, 1):
        return []
    strided = g.stride != (1, 1) and g.kernel[0] >= g.stride[0] and g.kernel[1] >= g.stride[1]
    return [(1, 1), g.stride] if strided else [(1, 1)]


def folded_shape(shape: ConvShape, direction: Direction, block: Block) -> ConvShape:
    """The convolution between the folded images and y. `block` is (1, 1), or the stride. Folded
    images have the dtype of factors, and their gradient has its own."""
    g = shape.geometry
    lanes = _lanes(shape)
    channels = -(-block[0] * block[1] * shape.in_shape[1] // lanes) * lanes
    kernel, stride = _pair(g.kernel, block), (g.stride[0] // block[0], g.stride[1] // block[1])
    image = [
        (size - 1) * apart + taps
        for size, apart, taps in zip(shape.out_shape[2:], stride, kernel, strict=True)
    ]
    return replace(
        shape,
        in_shape=(shape.in_shape[0], channels, *image),
        geometry=ConvGeometry(kernel, stride=stride),
        narrow=(
            shape.narrow[0] if direction is Direction.DATA else shape.factors == BFLOAT16,
            shape.narrow[1],
        ),
    )


def _lanes(shape: ConvShape) -> int:
    return ALIGNED // int(shape.factors.itemsize)


def _pair(sizes: Block, block: Block) -> Block:
    """The blocks that cover so many rows and columns."""
    return -(-sizes[0] // block[0]), -(-sizes[1] // block[1])


class Folded:
    """One pass of a shape by a plan for its `folded_shape`. Of `algorithm.Convolution` only the
    method of the plan's direction may be called."""

    def __init__(
        self,
        shape: ConvShape,
        direction: Direction,
        block: Block,
        plan: Planned,
        ops: OnDevice,
    ) -> None:
        self._ops = ops
        self._shape = shape
        self._block = block
        self._plan = plan
        self._inner = folded_shape(shape, direction, block)
        k, d, a, b = self._inner.weight_shape
        self._packed = k, a * b * d
        room = size_of(self._inner.in_shape, self._inner.stored[0])
        self.scratch_bytes = plan.scratch_bytes + room

    def start_with_checks(self) -> None:
        """Have the frontend check the arguments of every run."""
        self._plan.start_with_checks()

    def forward(self, x: Array, w: Array, b: Array | None, y: Array, rectify: bool) -> None:
        self._plan.run(self._folded(x), self._folded_weights(w), y)
        self._ops.shifted(y, b, rectify)

    def backward_data(self, dy: Array, w: Array, dx: Array) -> None:
        room = self._room()
        self._plan.run(room, self._folded_weights(w), dy)
        step = step_of(dx)
        assert step is not None
        _, c, high, wide = self._shape.in_shape
        sizes = (divisor(size) for size in (c, wide, high, *self._block))
        self._ops.launch(
            "unfold", dx.size, self._shape.dtype, room, dx, step, dx.size, *sizes,
            *self._inner.in_shape[1:], *self._shape.geometry.pad,
        )  # fmt: skip

    def backward_weights(self, x: Array, dy: Array, dw: Array) -> None:
        room = self._ops.scratch.take("weights", self._packed, dw.dtype)
        self._plan.run(self._folded(x), room, dy)
        _, c, kh, kw = self._shape.weight_shape
        sizes = (divisor(size) for size in (kw, kh, c, *self._block))
        _, d, a, b = self._inner.weight_shape
        self._ops.launch("unfold_weights", dw.size, dw.dtype, room, dw, dw.size, *sizes, d, a, b)

    def _room(self) -> Array:
        n, d, u, v = self._inner.in_shape
        room = self._ops.scratch.take("folded", (n, u, v, d), self._inner.stored[0])
        return room.transpose(TO_LOGICAL)

    def _folded(self, x: Array) -> Array:
        room = self._room()
        step = step_of(x)
        assert step is not None
        _, d, u, v = self._inner.in_shape
        _, c, high, wide = self._shape.in_shape
        bh, bw = self._block
        sizes = (divisor(size) for size in (d, v, u, c, bw))
        self._ops.launch(
            "fold", room.size, self._shape.dtype, x, step, room, room.size, *sizes, bh,
            high, wide, *self._shape.geometry.pad,
        )  # fmt: skip
        return room

    def _folded_weights(self, w: Array) -> Array:
        packed = self._ops.scratch.take("weights", self._packed, self._shape.factors)
        _, d, a, b = self._inner.weight_shape
        _, c, kh, kw = self._shape.weight_shape
        bh, bw = self._block
        sizes = (divisor(size) for size in (d, b, a, c, bw))
        self._ops.launch(
            "fold_weights", packed.size, w.dtype, w, packed, packed.size, *sizes, bh, kh, kw
        )
        return packed
