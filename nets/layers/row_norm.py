"""Normalisation within a row, with statistics that depend on no other row: `GroupNorm` and
`LayerNorm`, which Caffe lacks.

Training and test compute the same, and so does every share of a batch. A Scale above learns scale
and bias, as above BatchNorm.
"""

import math
from collections.abc import Sequence

from nets.layers.base import (
    SAVED,
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
from ops import Array


class RowNorm(Layer):
    """A layer whose backward pass reads its top and `inverse`, 1 / sqrt(variance + eps).

    Subclasses define `_read`, `_forward` and `_backward`.
    """

    of_caffe = False
    top_is_free = False
    planned = True
    reads_bottoms = False
    gradient_in_place_ok = True
    axis = 1  # the axis with the numbers that are normalised together
    inverse_shape: Shape
    inverse: Array

    def needs(self, bottoms: Sequence[Shape], tops: Sequence[Shape], training: bool) -> list[Need]:
        return [
            *super().needs(bottoms, tops, training),
            Need("inverse", self.inverse_shape, SAVED),
        ]

    def _shape(self, shapes: list[Shape], setup: Setup) -> list[Shape]:
        shape = shapes[0]
        if len(shape) < 2:
            raise self.error("bottom", f"found shape {shape}, expected (N, C, ...)")
        self.inverse_shape = self._read(shape)
        steps = setup.streams[0] if setup.streams is not None else 0
        if self.axis == 1 and len(shape) > 2 and shape[0] == steps:
            raise self.error(
                "bottom",
                f"found shape {shape}, steps of time and then streams, expected (N, C, ...): "
                "LayerNorm normalises a later axis",
            )
        return [shape]

    def _checked(self, block: str, eps: float) -> float:
        """Return eps after a check."""
        if not 0 < eps < math.inf:
            raise self.error(f"{block}.eps", f"found {eps:g}, expected a finite number above 0")
        return float(eps)

    def _read(self, shape: Shape) -> Shape:
        """Read the options, and return the shape of `inverse`."""
        raise NotImplementedError

    def _forward(self, x: Array, out: Array, inverse: Array) -> tuple[Array, Array]:
        raise NotImplementedError

    def _backward(self, dy: Array, y: Array, out: Array) -> Array:
        raise NotImplementedError

    def forward(self, bottoms: list[Array], blobs: Blobs, run: Run) -> list[Array]:
        x = bottoms[0]
        inverse = self.buffer("inverse", self.inverse_shape)
        y, self.inverse = self._forward(x, self.buffer("top", x.shape), inverse)
        return [y]

    def backward(
        self,
        grads: list[Array | None],
        values: Values,
        run: Run,
        wanted: list[bool],
        out: Blobs | None,
    ) -> Gradients:
        y = values.tops[0]
        dy = grads[0]
        if not wanted[0] or dy is None:
            return [None], ()
        into = dy if self.over_gradient else self.buffer("bottom", y.shape)
        return [self._backward(dy, y, into)], ()


@register("GroupNorm")
class GroupNorm(RowNorm):
    """(x - mean) / sqrt(variance + eps) over each of `groups` groups of channels of each row of (N,
    C, ...). One group takes the whole row (Wu and He 2018)."""

    def _read(self, shape: Shape) -> Shape:
        p = self.proto.group_norm_param
        self.groups = int(p.groups)
        self.eps = self._checked("group_norm_param", p.eps)
        if self.groups < 1 or shape[1] % self.groups:
            raise self.error(
                "group_norm_param.groups",
                f"found {self.groups}, expected a divisor of {shape[1]} channels",
            )
        return shape[0], self.groups

    def _forward(self, x: Array, out: Array, inverse: Array) -> tuple[Array, Array]:
        return self.ops.group_norm_forward(
            x, groups=self.groups, eps=self.eps, out=out, inverse=inverse
        )

    def _backward(self, dy: Array, y: Array, out: Array) -> Array:
        return self.ops.group_norm_backward(dy, y, self.inverse, groups=self.groups, out=out)


@register("LayerNorm")
class LayerNorm(RowNorm):
    """(x - mean) / sqrt(variance + eps) along `axis` (default 1, the channels of each place) (Ba et
    al. 2016)."""

    def _read(self, shape: Shape) -> Shape:
        p = self.proto.layer_norm_param
        self.axis = axis_of(self, "layer_norm_param.axis", p.axis, shape)
        if self.axis == 0:
            raise self.error(
                "layer_norm_param.axis", "found the axis of the rows, expected a later one"
            )
        self.eps = self._checked("layer_norm_param", p.eps)
        return (*shape[: self.axis], *shape[self.axis + 1 :])

    def _forward(self, x: Array, out: Array, inverse: Array) -> tuple[Array, Array]:
        return self.ops.layer_norm_forward(
            x, axis=self.axis, eps=self.eps, out=out, inverse=inverse
        )

    def _backward(self, dy: Array, y: Array, out: Array) -> Array:
        return self.ops.layer_norm_backward(dy, y, self.inverse, axis=self.axis, out=out)
