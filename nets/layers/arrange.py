"""Layers that move numbers to other places: another order of the axes, and a border around images
(`Permute`, as forks of Caffe name it, and `Pad`)."""

import itertools
from collections.abc import Iterator
from types import EllipsisType

from nets.layers.base import Blobs, Gradients, Layer, Run, Setup, Shape, Values, register
from nets.layers.windows import image
from nets.schema import caffe_pb2 as caffe
from ops import Array


class Moved(Layer):
    """A layer whose top has the numbers of x (N, ...) at other places. A subclass sets `top_shape`,
    and moves the numbers and their gradients."""

    of_caffe = False
    planned = True
    reads_bottoms = False
    reads_tops = False
    top_shape: Shape

    def move(self, x: Array, y: Array) -> None:
        """Write all of y, the top."""
        raise NotImplementedError

    def move_back(self, dy: Array, dx: Array) -> None:
        """Write all of dx, the gradient of x."""
        raise NotImplementedError

    def forward(self, bottoms: list[Array], blobs: Blobs, run: Run) -> list[Array]:
        y = self.buffer("top", self.top_shape)
        self.move(bottoms[0], y)
        return [y]

    def backward(
        self,
        grads: list[Array | None],
        values: Values,
        run: Run,
        wanted: list[bool],
        out: Blobs | None,
    ) -> Gradients:
        dy = grads[0]
        if not wanted[0] or dy is None:
            return [None], ()
        dx = self.buffer("bottom", values.bottoms[0].shape)
        self.move_back(dy, dx)
        return [dx], ()


@register("Permute")
class Permute(Moved):
    """The axes of x in another `order`: axis i of the top is axis order[i] of x. The rows stay
    first."""

    def _shape(self, shapes: list[Shape], setup: Setup) -> list[Shape]:
        shape = shapes[0]
        self.order = tuple(int(axis) for axis in self.proto.permute_param.order)
        if sorted(self.order) != list(range(len(shape))) or self.order[:1] != (0,):
            raise self.error(
                "permute_param.order",
                f"found {list(self.order)}, expected 0 and then the other axes of {shape}",
            )
        self.inverse = tuple(self.order.index(axis) for axis in range(len(shape)))
        self.top_shape = tuple(shape[axis] for axis in self.order)
        return [self.top_shape]

    def move(self, x: Array, y: Array) -> None:
        y[...] = x.transpose(self.order)

    def move_back(self, dy: Array, dx: Array) -> None:
        dx[...] = dy.transpose(self.inverse)


@register("Pad")
class Pad(Moved):
    """x (N, C, H, W) with a border of `value`, or, in mode EDGE, of the nearest pixels of x: `top`,
    `bottom`, `left` and `right` are its widths."""

    def _shape(self, shapes: list[Shape], setup: Setup) -> list[Shape]:
        p = self.proto.pad_param
        rows, channels, high, wide = image(self, shapes[0])
        self.value = float(p.value)
        self.top_shape = (rows, channels, p.top + high + p.bottom, p.left + wide + p.right)
        self.inside = (..., slice(p.top, p.top + high), slice(p.left, p.left + wide))
        self.border = list(_border(p, high, wide)) if p.mode == p.EDGE else []
        return [self.top_shape]

    def move(self, x: Array, y: Array) -> None:
        if not self.border:
            y[...] = self.value
        y[self.inside] = x
        for part, pixels, _ in self.border:
            y[part] = x[pixels]

    def move_back(self, dy: Array, dx: Array) -> None:
        dx[...] = dy[self.inside]
        for part, pixels, axes in self.border:
            dx[pixels] += dy[part].sum(axes, keepdims=True)


Place = tuple[EllipsisType, slice, slice]  # of height and width


def _border(
    p: caffe.PadParameter, high: int, wide: int
) -> Iterator[tuple[Place, Place, tuple[int, ...]]]:
    """The parts of a border that repeats pixels: the part, the pixels that it repeats, and the axes
    along which it repeats them."""
    rows, columns = _thirds(p.top, high, p.bottom), _thirds(p.left, wide, p.right)
    for (there, pixels), (aside, others) in itertools.product(rows, columns):
        repeated = [axis for axis, third in ((2, pixels), (3, others)) if third != slice(None)]
        if repeated:
            yield (..., there, aside), (..., pixels, others), tuple(repeated)


def _thirds(before: int, size: int, after: int) -> list[tuple[slice, slice]]:
    """The border before an axis, the axis, and the border after it, each with its place in x."""
    end = before + size
    return [
        *([(slice(before), slice(1))] if before else []),
        (slice(before, end), slice(None)),
        *([(slice(end, end + after), slice(size - 1, size))] if after else []),
    ]
