"""Reductions of many numbers to few (Caffe's `Reduction`, `ArgMax`)."""

import math

from nets.layers.base import Blobs, Gradients, Layer, Run, Setup, Shape, Values, register
from nets.layers.shape import axis_of
from nets.schema import caffe_pb2 as caffe
from ops import Array


@register("Reduction")
class Reduction(Layer):
    """coeff * (SUM, ASUM, SUMSQ or MEAN) over all axes from `axis` (default 0) on."""

    def _shape(self, shapes: list[Shape], setup: Setup) -> list[Shape]:
        p = self.proto.reduction_param
        self.operation = caffe.ReductionParameter.ReductionOp.Name(p.operation)
        self.axis = axis_of(self, "reduction_param.axis", p.axis, shapes[0])
        self.coeff = float(p.coeff)
        return [shapes[0][: self.axis]]

    def forward(self, bottoms: list[Array], blobs: Blobs, run: Run) -> list[Array]:
        x = bottoms[0]
        out = self.buffer("top", x.shape[: self.axis])
        return [
            self.ops.reduction_forward(
                x, operation=self.operation, axis=self.axis, coeff=self.coeff, out=out
            )
        ]

    def backward(
        self,
        grads: list[Array | None],
        values: Values,
        run: Run,
        wanted: list[bool],
        out: Blobs | None,
    ) -> Gradients:
        x = values.bottoms[0]
        dy = grads[0]
        if not wanted[0] or dy is None:
            return [None], ()
        # The mean over a share of the rows counts only in proportion to that share.
        of_rows = self.axis <= (1 if run.steps else 0)
        share = run.share if self.operation == "MEAN" and of_rows else 1.0
        into = self.buffer("bottom", x.shape)
        return [
            self.ops.reduction_backward(
                dy, x, operation=self.operation, axis=self.axis, coeff=self.coeff * share, out=into
            )
        ], ()


@register("ArgMax")
class ArgMax(Layer):
    """The places of each row's `top_k` largest values (N, 1, top_k). With `out_max_val` the top
    also has the values (N, 2, top_k).

    With an `axis`: the places along that axis, or with `out_max_val` the values instead.
    """

    differentiable = False

    def _shape(self, shapes: list[Shape], setup: Setup) -> list[Shape]:
        p = self.proto.argmax_param
        shape = shapes[0]
        self.axis = (
            axis_of(self, "argmax_param.axis", p.axis, shape) if p.HasField("axis") else None
        )
        count = math.prod(shape[1:]) if self.axis is None else shape[self.axis]
        if not 1 <= p.top_k <= count:
            raise self.error(
                "argmax_param.top_k", (f"found {p.top_k}, expected 1 to {count} (the values)")
            )
        self.top_k = int(p.top_k)
        self.values = p.out_max_val
        if self.axis is None:
            self.top_shape = (
                shape[0],
                2 if self.values else 1,
                self.top_k,
                *(1,) * (len(shape) - 3),
            )
        else:
            self.top_shape = (*shape[: self.axis], self.top_k, *shape[self.axis + 1 :])
        return [self.top_shape]

    def forward(self, bottoms: list[Array], blobs: Blobs, run: Run) -> list[Array]:
        found = self.ops.arg_max(
            bottoms[0], top_k=self.top_k, out_max_val=self.values, axis=self.axis
        )
        return [found.reshape(self.top_shape)]
