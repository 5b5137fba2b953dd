"""Fully connected layers and tables (Caffe's `InnerProduct`, `Embed`)."""

import math
from collections.abc import Sequence

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
from ops import Array


@register("InnerProduct")
class InnerProduct(Layer):
    """x (N, ...), weight (O, D), bias (O,) -> y (N, O). All axes from `axis` (default 1) on are
    flattened to one of length D.

    With `transpose` the weight is stored as (D, O).
    """

    is_dense = True
    planned = True
    reads_tops = False
    rectifies = True
    # Groups of units. One product computes each group. The order in which a product adds up depends
    # on its shape, so the shape must not depend on how many units a server has. The gradient of x
    # is a sum over all units; it is added up in pairs of these groups.
    unit_parts: Sequence[slice] = ()

    @property
    def replayable(self) -> bool:  # type: ignore[override]
        """Whether the layer's passes may be replayed: no array is copied to get its shape."""
        return self._plain and (self.frozen or not self.unlearned(0))

    def needs(self, bottoms: Sequence[Shape], tops: Sequence[Shape], training: bool) -> list[Need]:
        found = [Need("top", (self.rows, self.top_shape[-1]), TOP)]
        if self.flattens:
            found.append(Need("flat", (self.rows, self.width), SAVED))
        if training:
            found.append(
                Need("bottom", bottoms[0] if self.flattens else (self.rows, self.width), GRADIENT)
            )
        return found

    def products(self, bottoms: Sequence[Shape], tops: Sequence[Shape]) -> int:
        return math.prod(tops[0]) // tops[0][-1] * math.prod(self.params[0].shape)

    def scratch(self, bottoms: Sequence[Shape], training: bool) -> int:
        sizes = (self.rows, self.width, self.top_shape[-1])
        bias = len(self.params) > 1
        return self.ops.dense_scratch(*sizes, training=training, bias=bias, turned=self.transpose)

    def _shape(self, shapes: list[Shape], setup: Setup) -> list[Shape]:
        p = self.proto.inner_product_param
        block = "inner_product_param"
        if p.num_output < 1:
            raise self.error(
                f"{block}.num_output", (f"found {p.num_output}, expected an integer >= 1")
            )
        axis = axis_of(self, f"{block}.axis", p.axis, shapes[0])
        outer = shapes[0][:axis]
        self.width = math.prod(shapes[0][axis:])
        self.transpose = p.transpose
        shape = (self.width, p.num_output) if p.transpose else (p.num_output, self.width)
        self.declare("weight", shape, p.weight_filler, f"{block}.weight_filler")
        if p.bias_term:
            self.declare("bias", (p.num_output,), p.bias_filler, f"{block}.bias_filler")
        self.rows = math.prod(outer)
        self.top_shape = (*outer, int(p.num_output))
        self.flattens = axis == 1 and self.reorders(shapes[0])
        self._plain = self.flattens or len(shapes[0]) == 2
        return [self.top_shape]

    def forward(self, bottoms: list[Array], blobs: Blobs, run: Run) -> list[Array]:
        bias = blobs[1] if len(self.params) > 1 else None
        y_NO = self.buffer("top", (self.rows, self.top_shape[-1]))
        if self.flattens:
            x_ND = self.ops.flatten(bottoms[0], out=self.buffer("flat", (self.rows, self.width)))
        else:
            x_ND = _as(bottoms[0], (self.rows, self.width))
        self.x_ND = x_ND
        w_OD = self._turned(blobs[0])
        if not self.unit_parts:
            self.ops.dense_forward(x_ND, w_OD, bias, out=y_NO, rectify=self.rectify)
        for part in self.unit_parts:
            some = None if bias is None else bias[part]
            self.ops.dense_forward(x_ND, w_OD[part], some, out=y_NO[:, part], rectify=self.rectify)
        return [_as(y_NO, self.top_shape)]

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
        assert dy is not None
        dy_NO = _as(dy, (self.rows, self.top_shape[-1]))
        params = () if self.frozen else self._of_parameters(dy_NO, out)
        dx = None
        if wanted[0]:
            into = self.x_ND if self.flattens else self.buffer("bottom", (self.rows, self.width))
            dx_ND = self._gradient(dy_NO, self._turned(values.blobs[0]), into)
            # the flat copy of x is no longer needed; its buffer now holds the flat gradient
            if self.flattens:
                dx = self.ops.unflatten(dx_ND, x.shape, out=self.buffer("bottom", x.shape))
            else:
                dx = _as(dx_ND, x.shape)
        return [dx], params

    def _of_parameters(self, dy_NO: Array, out: Blobs | None) -> tuple[Array, ...]:
        """Return the gradients of the weight and the bias, in `out` if it is given."""
        bias = len(self.params) > 1
        out_b = out[1] if out and bias else None
        if self.unlearned(0):
            dw = self.no_gradient(0, out)
            return (dw, self.ops.channel_sums(dy_NO, out=out_b)) if bias else (dw,)
        out_w = self._turned(out[0]) if out else None
        if self.unit_parts:
            dw, db = self._gradients(dy_NO, out_w, out_b)
        else:
            dw, db = self.ops.dense_backward_weights(
                self.x_ND, dy_NO, bias=bias, out_w=out_w, out_b=out_b
            )
        dw = out[0] if out else self._turned(dw)
        return (dw,) if db is None else (dw, db)

    def _gradients(
        self, dy_NO: Array, dw_OD: Array | None, db_O: Array | None
    ) -> tuple[Array, Array | None]:
        """Return the gradients of the loss by weight (O, D) and bias (O,), computed part by
        part."""
        outputs = dy_NO.shape[1]
        bias = len(self.params) > 1
        dw_OD = self.ops.empty((outputs, self.width), dy_NO.dtype) if dw_OD is None else dw_OD
        db_O = self.ops.empty((outputs,), dy_NO.dtype) if bias and db_O is None else db_O
        for part in self.unit_parts:
            some = None if db_O is None else db_O[part]
            self.ops.dense_backward_weights(
                self.x_ND, dy_NO[:, part], bias=bias, out_w=dw_OD[part], out_b=some
            )
        return dw_OD, db_O

    def _gradient(self, dy_NO: Array, w_OD: Array, out: Array) -> Array:
        """Return the gradient of the loss by x (N, D)."""
        if len(self.unit_parts) < 2:
            return self.ops.dense_backward_data(dy_NO, w_OD, out=out)
        shape = (self.rows, self.width)
        found = [
            self.ops.dense_backward_data(
                dy_NO[:, part], w_OD[part], out=self.buffer(f"part {number}", shape)
            )
            for number, part in enumerate(self.unit_parts)
        ]
        return self.ops.add_all(found, out)

    def _turned(self, w: Array) -> Array:
        """Convert the weight, or a destination for it, between the stored order and (O, D)."""
        return w.T if self.transpose else w


def _as(x: Array, shape: Shape) -> Array:
    """Return x in that shape. Returns x itself if it has the shape, since the plans for an array
    are found by its identity."""
    return x if x.shape == shape else x.reshape(shape)


@register("Embed")
class Embed(Layer):
    """Whole numbers of any shape -> rows of weight (input_dim, O) plus bias (O,). The numbers get
    no gradient."""

    is_dense = True
    handed_on = False
    table: Array  # (input_dim, O) of this pass, if it is handed on

    def hand_on(self) -> None:
        """Leave the look-up to the recurrent layer above. The top is then the numbers of the rows,
        and its gradient the table's."""
        self.handed_on = True

    def _shape(self, shapes: list[Shape], setup: Setup) -> list[Shape]:
        p = self.proto.embed_param
        block = "embed_param"
        for key in ("num_output", "input_dim"):
            if getattr(p, key) < 1:
                raise self.error(
                    f"{block}.{key}", (f"found {getattr(p, key)}, expected an integer >= 1")
                )
        self.declare(
            "weight", (p.input_dim, p.num_output), p.weight_filler, f"{block}.weight_filler"
        )
        if p.bias_term:
            self.declare("bias", (p.num_output,), p.bias_filler, f"{block}.bias_filler")
        return [(*shapes[0], int(p.num_output))]

    def forward(self, bottoms: list[Array], blobs: Blobs, run: Run) -> list[Array]:
        w = blobs[0]
        bias = blobs[1] if len(self.params) > 1 else None
        if self.handed_on:
            self.table = w
            if bias is not None:
                self.table = self.buffer("table", w.shape)
                self.table[...] = w
                self.table += bias
            return [self.ops.embed_rows(bottoms[0], len(w))]
        return [
            self.ops.embed_forward(
                bottoms[0], w, bias, out=self.buffer("top", (*bottoms[0].shape, w.shape[1]))
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
        dy = grads[0]
        bias = len(self.params) > 1
        assert dy is not None
        if self.handed_on:
            dw = self.ops.empty(dy.shape, dy.dtype) if out is None else out[0]
            dw[...] = dy
            return [None], (dw, dy.sum(0)) if bias else (dw,)
        dw, db = self.ops.embed_backward_weights(
            values.bottoms[0], dy, self.params[0].shape, bias=bias,
            out_w=out[0] if out else None, out_b=out[1] if out and bias else None,
        )  # fmt: skip
        return [None], (dw,) if db is None else (dw, db)
