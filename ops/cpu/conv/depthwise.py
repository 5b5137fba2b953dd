"""Depthwise convolution, and convolution in groups of 2, 4 or 8 channels with as many outputs, of
images in float32 or bfloat16. The kernels are in `ops.cpu.depthwise`.

With stride 1 the gradient by images is a forward pass with the weights turned round.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ops.cpu.codegen.code import Generated
from ops.cpu.codegen.target import host, second_level
from ops.cpu.conv.algorithm import ConvShape
from ops.cpu.depthwise.blocks import Block, columns_of, strips_of
from ops.cpu.depthwise.image_kernels import backward_kernel, forward_kernel
from ops.cpu.depthwise.weight_kernels import depthwise_total, weight_kernel
from ops.cpu.team.image_layout import empty_aligned
from ops.cpu.team.operands import goes_past, halves
from ops.cpu.team.team import Team
from ops.cpu.team.workspace import LINE, Workspace, aligned
from ops.errors import Array, Shape
from ops.geometry import ConvGeometry, Pair

FLOAT = 4
OPEN = float("-inf")
FEWEST = 5  # channels: fewer leave most of a vector empty
EACH = 1, 2, 4, 8  # channels of a group
KEPT = 8  # combinations of strides that a pass remembers
RESERVE = (
    128  # the second-level cache holds that many pixels of a chunk of images: rows and columns
)
SHORT = 28  # columns of a row that is left for the next before it ends, if images lie one by one
MANY = 32  # vector registers that hold the sums of two rows
# gradients of weights: products of a sum in one part, parts at least, and the products that a sum
# of a part needs to be worth its memory
LONG, PARTS, WORTH = 4096, 16, 16
GROUP = 256  # channels of a thread's share of a part


def supports(shape: ConvShape) -> bool:
    """Whether the kernels can compute all passes of this convolution."""
    g = shape.geometry
    channels = shape.in_shape[1]
    few = g.groups > 1 and _each(shape) in EACH and host().lanes % _each(shape) == 0
    if not (few and channels == shape.outputs >= FEWEST):
        return False
    return _turns(shape) or g.dilation == (1, 1)


def _turns(shape: ConvShape) -> bool:
    """Whether the gradient by images is a forward pass."""
    return shape.geometry.stride == (1, 1) and min(_turned_pad(shape)) >= 0


def _turned_pad(shape: ConvShape) -> Pair:
    """The padding of the pass from outputs to images."""
    g = shape.geometry
    high, wide = (g.dilation[a] * (g.kernel[a] - 1) - g.pad[a] for a in (0, 1))
    return high, wide


class _Pass:
    """One pass of a shape: its kernel, and a block of arguments for each combination of strides.

    x is the source and y the result. In a gradient of weights (`more`) y is dy.
    """

    def __init__(
        self, kernel: Generated, source: Shape, target: Shape, block: Block, pad: int, **more: int
    ) -> None:
        n, channels, high, wide = target
        self._kernel = kernel
        # only whole lines bypass the caches: halves take 2 to 3 times as long
        self._past = host().bits == 8 * LINE and not more
        self._size = FLOAT * math.prod(target)
        self._chunk_bytes = second_level() // RESERVE
        self._fixed = {
            "images": n,
            "channels": channels,
            "source_h": source[2],
            "source_w": source[3],
            "rows": high,
            "width": wide,
            "strips": strips_of(wide, block.columns),
            "pad": pad,
            **more,
        }
        self._plans: dict[Any, tuple[Generated, Any]] = {}

    def run(self, team: Team, x: Array, w: int, y: Array, floor: float | None = None) -> None:
        """Run the kernel on these images. w: the address of the table of weights, or of the parts
        of their gradient."""
        kernel, block = self._plan(x, y)
        block.x = x.ctypes.data
        block.w = w
        block.y = y.ctypes.data
        if floor is not None:
            block.floor = floor
        steps = (block.yn, block.yh, block.yw)
        past = self._past and y.itemsize == FLOAT and goes_past(y.nbytes, (block.y,), steps)
        team.run(kernel.past if past else kernel, block)

    def want(self, halves: Sequence[str]) -> None:
        """Have the kernel compiled early that images of these types will need: those named are
        bfloat16."""
        kernel = self._kernel.storing(halves)
        past = self._past and "y" not in halves and goes_past(self._size, (), ())
        (kernel.past if past else kernel).block()

    def _plan(self, x: Array, y: Array) -> tuple[Generated, Any]:
        key = x.strides, y.strides, x.itemsize, y.itemsize
        found = self._plans.get(key)
        if found is None:
            if len(self._plans) >= KEPT:
                self._plans.clear()
            kernel = self._kernel.storing(halves({"x": x, "y": y}))
            found = self._plans[key] = kernel, self._made(x, y)
        return found

    def _made(self, x: Array, y: Array) -> Any:
        one = x.strides[0] > x.strides[3]  # images lie one after the other
        images = self._fixed["images"]
        most = max(1, self._chunk_bytes // (x.itemsize * self._fixed["channels"]))
        pieces = images if one else -(-images // most)
        return self._kernel.arguments(
            **self._fixed,
            **_steps("x", x),
            **_steps("y", y),
            chunk=-(-images // pieces),
            along=int(one and self._fixed["width"] > SHORT),
        )


def _steps(name: str, images: Array) -> dict[str, int]:
    n, _, h, w = images.strides
    return {f"{name}n": n, f"{name}h": h, f"{name}w": w}


class Depthwise:
    """Convolution of one shape in groups of few channels, for which `supports` holds."""

    def __init__(
        self, shape: ConvShape, team: Team, workspace: Workspace, halves: Sequence[str] = ()
    ) -> None:
        """halves: "x" and "y" if these images and their gradients will be in bfloat16."""
        g = shape.geometry
        self.shape = shape
        self.team = team
        self.workspace = workspace
        x, y = shape.in_shape, shape.out_shape
        channels = x[1]
        each = _each(shape)
        # the weights as [tap row][tap column][turn][channel], then the number from which sums start
        self._table = empty_aligned((math.prod(g.kernel) * each + 1, channels))
        self._weights = self._table[:-1].reshape(*g.kernel, each, channels)
        numbers = np.arange(self._weights.size).reshape(shape.weight_shape)
        self._by_output = _by_tap(numbers)
        self._by_channel = _by_tap(_transposed(numbers))
        self._places = np.argsort(self._by_output, axis=None).reshape(shape.weight_shape)
        block = _block(shape, y, g.pad)
        self._forward = _Pass(forward_kernel(block, _together(y, g)), x, y, block, g.pad[0])
        if _turns(shape):
            pad = _turned_pad(shape)
            turned = _block(shape, x, pad)
            kernel = forward_kernel(turned, _together(x, g))
            self._by_channel = self._by_channel[::-1, ::-1].copy()
            self._data = _Pass(kernel, y, x, turned, pad[0])
        else:
            split = _block(shape, x, g.pad, g.stride[1])
            self._data = _Pass(backward_kernel(split), y, x, split, g.pad[0])
        self._parts = _parts(shape)
        part_bytes = aligned(self._weights.nbytes)
        self.workspace_bytes = self._parts * part_bytes
        whole = y[3] % block.columns == 0
        self._gradient = _Pass(
            weight_kernel(block, whole), x, y, block, g.pad[0],
            parts=self._parts, part_bytes=part_bytes, block_c=GROUP,
        )  # fmt: skip
        self._total = depthwise_total.block(
            parts=self._parts,
            part_bytes=part_bytes,
            total=self._table.ctypes.data,
            count=self._weights.size,
        )

        self._forward.want(halves)
        self._data.want([{"x": "y", "y": "x"}[name] for name in halves])
        self._gradient.want(halves)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.shape}>"

    def forward(self, x: Array, w: Array, b: Array | None, y: Array, floor: float = OPEN) -> None:
        """y = max(x * w + b, floor): floor 0 rectifies."""
        self.team.do(self._pack, w, self._by_output, b)
        self._forward.run(self.team, x, self._table.ctypes.data, y, floor)

    def backward_data(self, dy: Array, w: Array, dx: Array) -> None:
        """dx, the gradient by x."""
        self.team.do(self._pack, w, self._by_channel, None)
        self._data.run(self.team, dy, self._table.ctypes.data, dx, OPEN)

    def backward_weights(self, x: Array, dy: Array, dw: Array) -> None:
        """dw, summed over the batch."""
        self._total.w = self.workspace.take(self.workspace_bytes)
        self._gradient.run(self.team, x, self._total.w, dy)
        self.team.run(depthwise_total, self._total)
        self.team.do(np.take, self._weights, self._places, out=dw, mode="clip")

    def _pack(self, w: Array, order: Array, b: Array | None) -> None:
        """Fill the table with weights in this order and biases."""
        np.take(w, order, out=self._weights, mode="clip")
        self._table[-1] = 0 if b is None else b


def _block(shape: ConvShape, target: Shape, pad: Pair, step: int = 1) -> Block:
    """The block of a pass that makes images of this shape; its columns are a multiple of `step`."""
    g = shape.geometry
    columns = columns_of(target[3], step)
    return Block(g.kernel, g.stride, g.dilation, pad[1], columns, _each(shape))


def _together(target: Shape, g: ConvGeometry) -> int:
    """The rows of a result that are made at once: those that share rows of the source."""
    return 2 if g.stride[0] == 1 and target[2] > 1 and host().registers >= MANY else 1


def _each(shape: ConvShape) -> int:
    """Channels of a group."""
    return shape.in_shape[1] // shape.geometry.groups


def _transposed(w: Array) -> Array:
    """Weights (outputs, channels of a group, kh, kw) with outputs and channels exchanged in each
    group."""
    each = w.shape[1]
    return w.reshape(-1, each, *w.shape[1:]).swapaxes(1, 2).reshape(w.shape)


def _by_tap(w: Array) -> Array:
    """Weights (outputs, channels of a group, kh, kw) as (kh, kw, turn, outputs): in turn t an
    output meets the channel t places further on in its group."""
    outputs = np.arange(len(w))
    each = w.shape[1]
    channels = (outputs + np.arange(each)[:, None]) % each
    return np.ascontiguousarray(w[outputs, channels].transpose(2, 3, 0, 1))


def _parts(shape: ConvShape) -> int:
    """The number of parts of a gradient of weights, a power of two."""
    n, _, high, wide = shape.out_shape
    products = n * high * wide
    worth = products // (WORTH * math.prod(shape.weight_shape[1:]))
    return 1 << max(1, min(worth, max(PARTS, products // LONG))).bit_length() - 1
