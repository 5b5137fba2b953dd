"""Recurrent layers over whole sequences (Caffe's `LSTM`, `RNN`). Bottoms are (T, N, ...), with time
first.

Bottoms: x (T, N, ...); cont (T, N), which is 0 where a sequence begins and 1 where it continues; an
optional static input (N, ...); and, with `expose_hidden`, the states before the first step (1, N,
H). Tops: the outputs (T, N, H) and, with `expose_hidden`, the states after the last step.

Without `expose_hidden`, a pass starts from the last state of the pass before, as in Caffe, unless
cont is 0 at the first step. The owner of the net follows which streams that state belongs to.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

from nets.layers.base import Blobs, Gradients, Layer, Run, Setup, Shape, Values, register
from nets.layers.dense import Embed
from ops import Array
from ops.reference.recurrent import LstmGradients, RnnGradients, Tape


class Recurrent(Layer):
    """The common part of LSTM and RNN. `states` is the number of arrays in a state, `gates` the
    number of gate inputs per unit."""

    is_dense = True
    time_first = True
    bottoms = (2, 5)
    tops = (1, 3)
    top_is_free = False
    states: ClassVar[int]
    gates: ClassVar[int]
    embed: Embed | None = None  # the layer below, if this layer does its work (`fusion`)
    # the inputs of the last pass, see `_inputs`
    x: Array
    cont: Array
    index: Array | None

    def _shape(self, shapes: list[Shape], setup: Setup) -> list[Shape]:
        p = self.proto.recurrent_param
        if p.num_output < 1:
            raise self.error(
                "recurrent_param.num_output", (f"found {p.num_output}, expected an integer >= 1")
            )
        self.exposed = p.expose_hidden
        self._check_shapes(shapes, int(p.num_output))
        self.steps, self.rows, self.hidden = *shapes[0][:2], int(p.num_output)
        self.width = math.prod(shapes[0][2:])
        self.static = math.prod(shapes[2][1:]) if self._has_static(len(shapes)) else 0
        self._declare(self.gates * self.hidden)
        # The state after the last pass, where the next one starts. Two buffers take turns, because
        # backward reads the state before the pass.
        self.state: list[Array] = []
        self.passes = 0
        state = (1, self.rows, self.hidden)
        return [
            (self.steps, self.rows, self.hidden),
            *([state] * self.states if self.exposed else []),
        ]

    def products(self, bottoms: Sequence[Shape], tops: Sequence[Shape]) -> int:
        steps = bottoms[0][0] * bottoms[0][1]  # each step uses every weight of input and state once
        return steps * sum(math.prod(param.shape) for param in self.params if len(param.shape) == 2)

    def scratch(self, bottoms: Sequence[Shape], training: bool) -> int:
        shape = (self.steps, self.rows, self.width)
        found = 0
        if self.static:
            gated = self.gates * self.hidden
            found = self.ops.dense_scratch(
                self.rows, self.static, gated, training=training, bias=False
            )
        steps = self.ops.recurrent_scratch(
            shape, self.hidden, self.gates, training=training, table=self._table_rows()
        )
        return max(found, steps)

    def _declare(self, gated: int) -> None:
        """Append Caffe's parameters in Caffe's order."""
        weight, bias = (
            getattr(self.proto.recurrent_param, f"{name}_filler") for name in ("weight", "bias")
        )
        self.declare("weight_x", (gated, self.width), weight, "recurrent_param.weight_filler")
        self.declare("bias", (gated,), bias, "recurrent_param.bias_filler")
        if self.static:
            self.declare(
                "weight_static", (gated, self.static), weight, "recurrent_param.weight_filler"
            )
        self.declare("weight_h", (gated, self.hidden), weight, "recurrent_param.weight_filler")

    def _has_static(self, bottoms: int) -> bool:
        return bottoms - 2 - (self.states if self.exposed else 0) == 1

    def _check_shapes(self, shapes: list[Shape], hidden: int) -> None:
        extra = self.states if self.exposed else 0
        if len(shapes) not in (2 + extra, 3 + extra):
            raise self.error(
                "bottom",
                (f"found {len(shapes)}, expected {2 + extra}, or {3 + extra} with a static input"),
            )
        if len(self.proto.top) != 1 + extra:
            raise self.error("top", f"found {len(self.proto.top)}, expected {1 + extra}")
        x = shapes[0]
        if len(x) < 2 or tuple(shapes[1]) != tuple(x[:2]):
            raise self.error(
                "bottom", (f"found shapes {x} and {shapes[1]}, expected (T, N, ...) and (T, N)")
            )
        if self._has_static(len(shapes)) and shapes[2][:1] != x[1:2]:
            raise self.error(
                "bottom", (f"found shape {shapes[2]} for the static input, expected ({x[1]}, ...)")
            )
        for shape in shapes[len(shapes) - extra :]:
            if tuple(shape) != (1, x[1], hidden):
                raise self.error(
                    "bottom", (f"found shape {shape} for a state, expected {(1, x[1], hidden)}")
                )

    def _table_rows(self) -> int:
        """Return the rows of the table whose products with weight_x are computed once a pass, 0 if
        each step computes its own. A table needs no more products than half of the steps."""
        rows = 0 if self.embed is None else self.embed.params[0].shape[0]
        return rows if 2 * rows <= self.steps * self.rows else 0

    def _inputs(self, bottoms: list[Array]) -> tuple[Array, Array, Array | None]:
        """Return x as (T, N, D), cont as (T, N) and None, or a table (R, D), cont and the index (T,
        N) of its rows."""
        cont = bottoms[1].reshape(self.steps, self.rows)
        if self.embed is None:
            return bottoms[0].reshape(self.steps, self.rows, self.width), cont, None
        if self._table_rows():
            return self.embed.table, cont, bottoms[0]
        into = self._steps("looked up", self.width)
        return self.ops.embed_forward(bottoms[0], self.embed.table, out=into), cont, None

    def _start(self, bottoms: list[Array]) -> list[Array | None]:
        """Return the states before the first step: from the bottoms, from the last pass, or
        None."""
        if self.exposed:
            return [state.reshape(self.rows, self.hidden) for state in bottoms[-self.states :]]
        return list(self.state) or [None] * self.states

    def _extra(self, bottoms: list[Array], blobs: Blobs) -> Array | None:
        """Return what the static input adds to every gate input, (N, gates H)."""
        if not self.static:
            return None
        into = self.buffer("gate inputs", (self.rows, self.gates * self.hidden))
        return self.ops.dense_forward(self._static(bottoms), blobs[2], None, out=into)

    def _static(self, bottoms: list[Array]) -> Array:
        return bottoms[2].reshape(self.rows, self.static)

    def _ends(self, *ends: Array) -> list[Array]:
        """Return the states after the last step as tops. If they are not tops, keep them for the
        next pass and return no tops."""
        if self.exposed:
            return [end[None] for end in ends]
        self.passes += 1
        self.state = [
            self.buffer(f"state {at} of pass {self.passes % 2}", end.shape)
            for at, end in enumerate(ends)
        ]
        for kept, end in zip(self.state, ends, strict=True):
            kept[...] = end
        return []

    def _last(self, grads: list[Array | None]) -> list[Array | None]:
        """Return the gradients of the states after the last step."""
        given = grads[1:] if self.exposed else [None] * self.states
        return [None if grad is None else grad.reshape(self.rows, self.hidden) for grad in given]

    def _top_gradient(self, grads: list[Array | None]) -> Array:
        if grads[0] is not None:
            return grads[0]
        return self.ops.zeros((self.steps, self.rows, self.hidden), self.dtype)

    def _steps(self, key: str, width: int) -> Array:
        """Return a buffer (T, N, width)."""
        return self.buffer(key, (self.steps, self.rows, width))

    def _destinations(
        self, wanted: list[bool], out: Blobs | None
    ) -> tuple[dict[str, Array | None], list[str]]:
        """Return the destinations of the gradients that LSTM and RNN share, and the names of the
        gradients that are not wanted."""
        gated = self.gates * self.hidden
        state = (self.rows, self.hidden)
        w_x, b, w_h = (out[0], out[1], out[3 if self.static else 2]) if out else (None, None, None)
        into = {
            "x": self.buffer("bottom 0", tuple(self.x.shape)) if wanted[0] else None,
            "w_x": w_x, "b": b, "w_h": w_h, "h0": self.buffer("bottom h0", state),
            "extra": self.buffer("gate gradient", (self.rows, gated)) if self.static else None,
        }  # fmt: skip
        return into, [*([] if wanted[0] else ["x"]), *([] if self.static else ["extra"])]

    def _result(
        self, found: Any, values: Values, wanted: list[bool], out: Blobs | None, rest: list[Array]
    ) -> Gradients:
        """Return the gradients of the bottoms and of the parameters. `rest` are the last
        parameters'."""
        bottoms: list[Array | None] = [
            self._input_gradient(found.x, values) if wanted[0] else None,
            None,
        ]
        params = [found.w_x, found.b]
        if self.static:
            static = self._static(values.bottoms)
            into = out[2] if out else None
            params.append(
                self.ops.dense_backward_weights(static, found.extra, bias=False, out_w=into)[0]
            )
            bottoms.append(self._static_gradient(found.extra, values) if wanted[2] else None)
        if self.exposed:
            starts = [found.h0, found.c0] if self.states == 2 else [found.h0]
            bottoms += [
                grad[None] if wanted[len(bottoms) + at] else None for at, grad in enumerate(starts)
            ]
        return bottoms, (*params, *rest)

    def _input_gradient(self, dx: Array, values: Values) -> Array:
        """Return the gradient of bottom 0, or of the table, from that of x."""
        if self.embed is None:
            return dx.reshape(values.bottoms[0].shape)
        if self.index is not None:
            return dx
        shape = tuple(self.embed.table.shape)
        into = self.buffer("table gradient", shape)
        return self.ops.embed_backward_weights(
            values.bottoms[0], dx, shape, bias=False, out_w=into
        )[0]

    def _static_gradient(self, extra: Array, values: Values) -> Array:
        into = self.buffer("bottom 2", (self.rows, self.static))
        return self.ops.dense_backward_data(extra, values.blobs[2], out=into).reshape(
            values.bottoms[2].shape
        )


@register("LSTM")
class LSTM(Recurrent):
    """h = o tanh(c), c = f c' + i g. The gates i, f, o, g depend on x, the static input and h'
    (Caffe's LSTMUnit)."""

    states = 2
    gates = 4

    def forward(self, bottoms: list[Array], blobs: Blobs, run: Run) -> list[Array]:
        self.x, self.cont, self.index = self._inputs(bottoms)
        h0, c0 = self.start = self._start(bottoms)
        into = Tape(
            self._steps("top", self.hidden),
            self._steps("c", self.hidden),
            self._steps("g", 4 * self.hidden),
        )
        self.tape = self.ops.lstm_forward(
            self.x,
            self.cont,
            blobs[0],
            blobs[1],
            blobs[-1],
            index=self.index,
            h0=h0,
            c0=c0,
            extra=self._extra(bottoms, blobs),
            tape=into,
        )
        return [self.tape.h, *self._ends(self.tape.h[-1], self.tape.c[-1])]

    def backward(
        self,
        grads: list[Array | None],
        values: Values,
        run: Run,
        wanted: list[bool],
        out: Blobs | None,
    ) -> Gradients:
        blobs = values.blobs
        dh_last, dc_last = self._last(grads)
        into, without = self._destinations(wanted, out)
        c0 = self.buffer("bottom c0", (self.rows, self.hidden))
        found = self.ops.lstm_backward(
            self._top_gradient(grads),
            self.tape,
            self.x,
            self.cont,
            blobs[0],
            blobs[-1],
            index=self.index,
            h0=self.start[0],
            c0=self.start[1],
            dh_last=dh_last,
            dc_last=dc_last,
            out=LstmGradients(**into, c0=c0),
            without=without,
        )
        assert found.w_h is not None
        return self._result(found, values, wanted, out, [found.w_h])


@register("RNN")
class RNN(Recurrent):
    """h = tanh(W_x x + W_static s + W_h h' + b), o = tanh(W_o h + b_o)."""

    states = 1
    gates = 1

    def scratch(self, bottoms: Sequence[Shape], training: bool) -> int:
        outputs = self.ops.dense_scratch(
            self.steps * self.rows, self.hidden, self.hidden, training=training
        )
        return max(outputs, super().scratch(bottoms, training))

    def _declare(self, gated: int) -> None:
        super()._declare(gated)
        p = self.proto.recurrent_param
        self.declare(
            "weight_o", (gated, self.hidden), p.weight_filler, "recurrent_param.weight_filler"
        )
        self.declare("bias_o", (gated,), p.bias_filler, "recurrent_param.bias_filler")

    def forward(self, bottoms: list[Array], blobs: Blobs, run: Run) -> list[Array]:
        self.x, self.cont, self.index = self._inputs(bottoms)
        self.start = self._start(bottoms)
        w_h, w_o, b_o = blobs[-3:]
        self.out, self.h = self.ops.rnn_forward(
            self.x,
            self.cont,
            blobs[0],
            blobs[1],
            w_h,
            w_o,
            b_o,
            index=self.index,
            h0=self.start[0],
            extra=self._extra(bottoms, blobs),
            out=self._steps("top", self.hidden),
            states=self._steps("h", self.hidden),
        )
        return [self.out, *self._ends(self.h[-1])]

    def backward(
        self,
        grads: list[Array | None],
        values: Values,
        run: Run,
        wanted: list[bool],
        out: Blobs | None,
    ) -> Gradients:
        blobs = values.blobs
        (dh_last,) = self._last(grads)
        into, without = self._destinations(wanted, out)
        w_o, b_o = out[-2:] if out else (None, None)
        found = self.ops.rnn_backward(
            self._top_gradient(grads),
            self.out,
            self.h,
            self.x,
            self.cont,
            blobs[0],
            blobs[-3],
            blobs[-2],
            index=self.index,
            h0=self.start[0],
            dh_last=dh_last,
            out=RnnGradients(**into, w_o=w_o, b_o=b_o),
            without=without,
        )
        assert found.w_h is not None
        assert found.w_o is not None
        assert found.b_o is not None
        return self._result(found, values, wanted, out, [found.w_h, found.w_o, found.b_o])
