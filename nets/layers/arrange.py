"""Layers that move numbers to other places: another order of the axes, and a border around images
(`Permute`, as forks of Caffe name it, and `Pad`)."""

from nets.layers.base import Blobs, Gradients, Layer, Run, Setup, Shape, Values, register
from nets.layers.windows import image
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
    """x (N, C, H, W) with a border of `value`: `top`, `bottom`, `left` and `right` are its
    pixels."""

    def _shape(self, shapes: list[Shape], setup: Setup) -> list[Shape]:
        p = self.proto.pad_param
        rows, channels, high, wide = image(self, shapes[0])
        self.value = float(p.value)
        self.top_shape = (rows, channels, p.top + high + p.bottom, p.left + wide + p.right)
        self.inside = (..., slice(p.top, p.top + high), slice(p.left, p.left + wide))
        return [self.top_shape]

    def move(self, x: Array, y: Array) -> None:
        y[...] = self.value
        y[self.inside] = x

    def move_back(self, dy: Array, dx: Array) -> None:
        dx[...] = dy[self.inside]
