"""Layers that join blobs or split one, as views where possible (Caffe's `Concat`, `Slice`,
`Eltwise`, ...)."""

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from nets.layers.base import (
    GRADIENT,
    SAVED,
    TOP,
    Blobs,
    Gradients,
    Layer,
    Need,
    Run,
    Setup,
    Shape,
    Values,
    register,
)
from nets.layers.shape import axis_of
from nets.schema import caffe_pb2 as caffe
from ops import Array

MANY = 1000
ADDED = 3  # arrays that backends add in one pass, so that a sum is rounded once


def _axis(layer: Layer, block: str, old: str, shape: Shape) -> int:
    """Return the axis, given as `axis` or under its old name."""
    message: Any = getattr(layer.proto, block)
    if message.HasField(old) and message.HasField("axis"):
        raise layer.error(
            f"{block}.{old}", "given together with 'axis', expected only one of the two"
        )
    key = old if message.HasField(old) else "axis"
    return axis_of(layer, f"{block}.{key}", getattr(message, key), shape)


def _part(axis: int, start: int, end: int) -> tuple[slice, ...]:
    return (*(slice(None),) * axis, slice(start, end))


@register("Concat")
class Concat(Layer):
    """All bottoms, one after the other along `axis` (default 1)."""

    bottoms = (1, MANY)
    passes_gradient = True
    gradient_parts = True
    planned = True
    replayable = True
    reads_bottoms = False
    reads_tops = False

    def needs(self, bottoms: Sequence[Shape], tops: Sequence[Shape], training: bool) -> list[Need]:
        return [Need("top", tops[0], TOP)]

    def parts_of_top(self) -> list[slice] | None:
        """Return the channels of each bottom in the top, if the layer joins images by channels."""
        return (
            [part[1] for part in self.parts]
            if len(self.top_shape) == 4 and len(self.parts[0]) == 2
            else None
        )

    def holds_bfloat16(self, bottom: int | None = None) -> bool:
        """Parts of the channels have rows that kernels can copy."""
        return len(self.parts[0]) == 2

    def _shape(self, shapes: list[Shape], setup: Setup) -> list[Shape]:
        axis = _axis(self, "concat_param", "concat_dim", shapes[0])
        first = shapes[0]
        for shape in shapes[1:]:
            if len(shape) != len(first) or any(
                a != b for at, (a, b) in enumerate(zip(shape, first, strict=True)) if at != axis
            ):
                raise self.error(
                    "bottom",
                    (f"found shapes {shapes}, expected them to differ along axis {axis} only"),
                )
        ends = list(itertools.accumulate((shape[axis] for shape in shapes), initial=0))
        self.parts = [_part(axis, start, end) for start, end in itertools.pairwise(ends)]
        self.top_shape = (*first[:axis], ends[-1], *first[axis + 1 :])
        return [self.top_shape]

    def forward(self, bottoms: list[Array], blobs: Blobs, run: Run) -> list[Array]:
        y = self.buffer("top", self.top_shape)
        for at, (part, x) in enumerate(zip(self.parts, bottoms, strict=True)):
            if at not in self.written:
                self.ops.copy(x, y[part])
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
        return [
            None if dy is None or not want else dy[p]
            for want, p in zip(wanted, self.parts, strict=True)
        ], ()


@register("Slice")
class Slice(Layer):
    """The bottom cut along `axis` (default 1) at `slice_point`s, or into equal parts. Each top is a
    view of one part."""

    tops = (1, MANY)
    top_is_free = False
    planned = True
    views = True
    reads_bottoms = False
    reads_tops = False

    def _shape(self, shapes: list[Shape], setup: Setup) -> list[Shape]:
        shape = shapes[0]
        count = len(self.proto.top)
        axis = _axis(self, "slice_param", "slice_dim", shape)
        points = [int(point) for point in self.proto.slice_param.slice_point]
        if not points and shape[axis] % count:
            raise self.error(
                "top",
                (f"found {count} tops for {shape[axis]} along axis {axis}, expected a divisor"),
            )
        points = points or [at * shape[axis] // count for at in range(1, count)]
        ends = [0, *points, shape[axis]]
        if len(ends) != count + 1 or any(a >= b for a, b in itertools.pairwise(ends)):
            text = (
                f"found {points}, expected {count - 1} rising numbers between 0 and {shape[axis]}"
            )
            raise self.error("slice_param.slice_point", text)
        self.parts = [_part(axis, start, end) for start, end in itertools.pairwise(ends)]
        return [
            (*shape[:axis], end - start, *shape[axis + 1 :])
            for start, end in itertools.pairwise(ends)
        ]

    def forward(self, bottoms: list[Array], blobs: Blobs, run: Run) -> list[Array]:
        return [bottoms[0][part] for part in self.parts]

    def backward(
        self,
        grads: list[Array | None],
        values: Values,
        run: Run,
        wanted: list[bool],
        out: Blobs | None,
    ) -> Gradients:
        if not wanted[0]:
            return [None], ()
        dx = self.buffer("bottom", values.bottoms[0].shape)
        for part, dy in zip(self.parts, grads, strict=True):
            dx[part] = 0 if dy is None else dy
        return [dx], ()


@register("Split")
class Split(Layer):
    """The bottom under several names. Its gradient is the sum of the tops' gradients. A net needs
    no Split: several layers may read one blob."""

    tops = (1, MANY)
    top_is_free = False
    planned = True
    replayable = True
    views = True
    reads_bottoms = False
    reads_tops = False

    def holds_bfloat16(self, bottom: int | None = None) -> bool:
        return len(self.proto.top) <= ADDED

    def _shape(self, shapes: list[Shape], setup: Setup) -> list[Shape]:
        return shapes * len(self.proto.top)

    def forward(self, bottoms: list[Array], blobs: Blobs, run: Run) -> list[Array]:
        return bottoms * len(self.proto.top)

    def backward(
        self,
        grads: list[Array | None],
        values: Values,
        run: Run,
        wanted: list[bool],
        out: Blobs | None,
    ) -> Gradients:
        found = [dy for dy in grads if dy is not None]
        if not wanted[0] or not found:
            return [None], ()
        return [self.ops.eltwise_forward(found, out=self.buffer("bottom", found[0].shape))[0]], ()


@register("Eltwise")
class Eltwise(Layer):
    """Product, sum (weighted by `coeff`) or maximum of bottoms that have one shape."""

    bottoms = (2, MANY)
    passes_gradient = True
    planned = True
    replayable = True
    reads_tops = False

    def hand_on(self, at: int) -> None:
        """Leave the work to the layer below: it makes bottom `at` and adds the other bottom to
        it."""
        self.views = True
        self.view_of = at

    def needs(self, bottoms: Sequence[Shape], tops: Sequence[Shape], training: bool) -> list[Need]:
        found = [] if self.views else [Need("top", tops[0], TOP)]
        if self.operation == "MAX":
            found.append(Need("which", tops[0], SAVED, dtype=np.int32))
        if training and not self.plain_sum:
            found += [
                Need(f"bottom{at}", shape, GRADIENT, at=at) for at, shape in enumerate(bottoms)
            ]
        return found

    def holds_bfloat16(self, bottom: int | None = None) -> bool:
        return self.operation == "SUM" and len(self.proto.bottom) <= ADDED

    def _shape(self, shapes: list[Shape], setup: Setup) -> list[Shape]:
        p = self.proto.eltwise_param
        self.operation = caffe.EltwiseParameter.EltwiseOp.Name(p.operation)
        self.coeffs = [float(coeff) for coeff in p.coeff] or None
        self.reads_bottoms = self.operation == "PROD"
        self.plain_sum = self.operation == "SUM" and self.coeffs is None
        if any(shape != shapes[0] for shape in shapes):
            raise self.error("bottom", f"found shapes {shapes}, expected one shape")
        if self.coeffs and self.operation != "SUM":
            raise self.error(
                "eltwise_param.coeff", (f"given with {self.operation}, expected only with SUM")
            )
        if self.coeffs and len(self.coeffs) != len(shapes):
            raise self.error(
                "eltwise_param.coeff",
                (f"found {len(self.coeffs)}, expected {len(shapes)}, one per bottom"),
            )
        return shapes[:1]

    def forward(self, bottoms: list[Array], blobs: Blobs, run: Run) -> list[Array]:
        if self.views:
            return [bottoms[self.view_of]]
        shape = bottoms[0].shape
        y, self.which = self.ops.eltwise_forward(
            bottoms, operation=self.operation, coeffs=self.coeffs, out=self.buffer("top", shape),
            which=self.buffer("which", shape, np.int32) if self.operation == "MAX" else None,
        )  # fmt: skip
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
        inputs = values.bottoms
        if dy is None:
            return [None] * len(inputs), ()
        if self.plain_sum:  # every bottom has the top's gradient: no copies
            return [dy if want else None for want in wanted], ()
        found = self.ops.eltwise_backward(
            dy, inputs, operation=self.operation, coeffs=self.coeffs, which=self.which,
            outs=[self.buffer(f"bottom{k}", dy.shape) for k in range(len(inputs))],
        )  # fmt: skip
        return [grad if want else None for grad, want in zip(found, wanted, strict=True)], ()


@register("Silence")
class Silence(Layer):
    """Reads blobs that no other layer reads, so that they are not outputs of the net."""

    bottoms = (1, MANY)
    tops = (0, 0)
    differentiable = False

    def _shape(self, shapes: list[Shape], setup: Setup) -> list[Shape]:
        return []

    def forward(self, bottoms: list[Array], blobs: Blobs, run: Run) -> list[Array]:
        return []
