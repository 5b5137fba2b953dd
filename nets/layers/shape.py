"""Layers that give the same numbers another shape (Caffe's `Flatten`, `Reshape`, `Crop`, `Tile`),
as views where possible."""

import math
from collections.abc import Sequence

from nets.layers.base import Blobs, Gradients, Layer, Need, Run, Setup, Shape, Values, register
from ops import Array


class View(Layer):
    """The bottom in the shape `top_shape`. It is a view, unless the backend stores images in
    another order."""

    top_is_free = False
    passes_gradient = True
    planned = True
    reads_bottoms = False
    reads_tops = False
    top_shape: Shape

    def setup(self, shapes: Sequence[Shape], setup: Setup) -> list[Shape]:
        tops = super().setup(shapes, setup)
        self.copies = self.reorders(shapes[0]) or self.reorders(tops[0])
        self.views = not self.copies
        return tops

    def needs(self, bottoms: Sequence[Shape], tops: Sequence[Shape], training: bool) -> list[Need]:
        return super().needs(bottoms, tops, training) if self.copies else []

    def forward(self, bottoms: list[Array], blobs: Blobs, run: Run) -> list[Array]:
        return [self._reshaped(bottoms[0], "top", self.top_shape)]

    def backward(
        self,
        grads: list[Array | None],
        values: Values,
        run: Run,
        wanted: list[bool],
        out: Blobs | None,
    ) -> Gradients:
        dy = grads[0]
        return [
            None
            if dy is None or not wanted[0]
            else self._reshaped(dy, "bottom", values.bottoms[0].shape)
        ], ()

    def _reshaped(self, x: Array, key: str, shape: Shape) -> Array:
        if not self.copies:
            return x.reshape(shape)
        out = self.buffer(key, shape)
        if x.ndim == 4 and out.ndim == 2:
            return self.ops.flatten(x, out=out)
        if x.ndim == 2 and out.ndim == 4:
            return self.ops.unflatten(x, shape, out=out)
        out[...] = x.reshape(shape)
        return out


@register("Flatten")
class Flatten(View):
    """x (N, C, H, W) -> (N, C*H*W). `axis` and `end_axis` choose the axes that become one."""

    def _shape(self, shapes: list[Shape], setup: Setup) -> list[Shape]:
        p = self.proto.flatten_param
        shape = shapes[0]
        first = axis_of(self, "flatten_param.axis", p.axis, shape)
        last = axis_of(self, "flatten_param.end_axis", p.end_axis, shape)
        if last < first:
            raise self.error(
                "flatten_param.end_axis", (f"found {p.end_axis}, expected an axis from {first} on")
            )
        self.top_shape = (*shape[:first], math.prod(shape[first : last + 1]), *shape[last + 1 :])
        return [self.top_shape]


@register("Reshape")
class Reshape(View):
    """x in `shape`: 0 keeps the bottom's size, and one -1 is inferred. `axis` and `num_axes` choose
    the axes that are replaced."""

    def _shape(self, shapes: list[Shape], setup: Setup) -> list[Shape]:
        p = self.proto.reshape_param
        shape = shapes[0]
        start = p.axis if p.axis >= 0 else len(shape) + p.axis + 1
        end = len(shape) if p.num_axes == -1 else start + p.num_axes
        if not 0 <= start <= len(shape) or p.num_axes < -1 or end > len(shape):
            text = (
                f"found axis {p.axis} and num_axes {p.num_axes}, but the bottom has shape {shape}"
            )
            raise self.error("reshape_param.axis", text)
        given = [int(size) for size in p.shape.dim]
        if any(size < -1 for size in given) or given.count(-1) > 1:
            raise self.error(
                "reshape_param.shape", (f"found {given}, expected sizes >= 0 and at most one -1")
            )
        if any(size == 0 and start + at >= len(shape) for at, size in enumerate(given)):
            raise self.error(
                "reshape_param.shape", (f"found {given}: a 0 beyond the bottom's axes, {shape}")
            )
        middle = [shape[start + at] if size == 0 else size for at, size in enumerate(given)]
        self.top_shape = self._inferred((*shape[:start], *middle, *shape[end:]), shape)
        return [self.top_shape]

    def _inferred(self, wanted: Shape, shape: Shape) -> Shape:
        known = math.prod(size for size in wanted if size != -1)
        found = tuple(math.prod(shape) // max(1, known) if size == -1 else size for size in wanted)
        if math.prod(found) != math.prod(shape):
            raise self.error(
                "reshape_param.shape",
                (f"{wanted} does not hold the {math.prod(shape)} numbers of {shape}"),
            )
        return found


@register("Crop")
class Crop(Layer):
    """x, cropped on the axes from `axis` (default 2) on to the sizes of the second bottom. The crop
    begins at `offset` (one number, or one per axis)."""

    bottoms = (2, 2)
    top_is_free = False

    def _shape(self, shapes: list[Shape], setup: Setup) -> list[Shape]:
        p = self.proto.crop_param
        shape = shapes[0]
        like = shapes[1]
        if len(shape) != len(like):
            raise self.error(
                "bottom", f"found shapes {shape} and {like}, expected the same number of axes"
            )
        start = axis_of(self, "crop_param.axis", p.axis, shape)
        offsets = [int(offset) for offset in p.offset] or [0]
        axes = len(shape) - start
        if len(offsets) not in (1, axes):
            raise self.error(
                "crop_param.offset",
                (f"found {len(offsets)}, expected 1 or {axes}, one per cropped axis"),
            )
        offsets = offsets * axes if len(offsets) == 1 else offsets
        ends = [offset + size for offset, size in zip(offsets, like[start:], strict=True)]
        if any(end > size for end, size in zip(ends, shape[start:], strict=True)):
            raise self.error(
                "crop_param.offset", (f"found {offsets}: {like} does not lie inside {shape}")
            )
        cut = (slice(offset, end) for offset, end in zip(offsets, ends, strict=True))
        self.window = (*(slice(None),) * start, *cut)
        return [(*shape[:start], *like[start:])]

    def forward(self, bottoms: list[Array], blobs: Blobs, run: Run) -> list[Array]:
        return [bottoms[0][self.window]]

    def backward(
        self,
        grads: list[Array | None],
        values: Values,
        run: Run,
        wanted: list[bool],
        out: Blobs | None,
    ) -> Gradients:
        if not wanted[0] or grads[0] is None:
            return [None, None], ()
        dx = self.buffer("bottom", values.bottoms[0].shape)
        dx[...] = 0
        dx[self.window] = grads[0]
        return [dx, None], ()


@register("Tile")
class Tile(Layer):
    """`tiles` copies of x, one after the other along `axis`."""

    def _shape(self, shapes: list[Shape], setup: Setup) -> list[Shape]:
        p = self.proto.tile_param
        shape = shapes[0]
        axis = axis_of(self, "tile_param.axis", p.axis, shape)
        if p.tiles < 1:
            raise self.error("tile_param.tiles", f"found {p.tiles}, expected an integer >= 1")
        self.top_shape = (*shape[:axis], shape[axis] * p.tiles, *shape[axis + 1 :])
        self.folded = (math.prod(shape[:axis]), int(p.tiles), math.prod(shape[axis:]))
        return [self.top_shape]

    def forward(self, bottoms: list[Array], blobs: Blobs, run: Run) -> list[Array]:
        y = self.buffer("top", self.folded)
        y[...] = bottoms[0].reshape(self.folded[0], 1, self.folded[2])
        return [y.reshape(self.top_shape)]

    def backward(
        self,
        grads: list[Array | None],
        values: Values,
        run: Run,
        wanted: list[bool],
        out: Blobs | None,
    ) -> Gradients:
        if not wanted[0] or grads[0] is None:
            return [None], ()
        dx = self.buffer("bottom", (self.folded[0], self.folded[2]))
        self.ops.xp.sum(grads[0].reshape(self.folded), axis=1, out=dx)
        return [dx.reshape(values.bottoms[0].shape)], ()


def axis_of(layer: Layer, key: str, axis: int, shape: Shape) -> int:
    """Return `axis` counted from the front (a negative axis counts from the end). Raises NetError
    if `shape` has no such axis."""
    if not -len(shape) <= axis < len(shape):
        raise layer.error(key, f"found {axis}, but the bottom has shape {shape}")
    return axis % len(shape)
