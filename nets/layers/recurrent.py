"""Recurrent layers over whole sequences (Caffe's `LSTM`, `RNN`). Time comes first: bottoms are (T, N, ...).

What lives here: their parameters, shapes, and the state that goes from one pass to the next. What never: the
arithmetic (`ops`).

Bottoms: x (T, N, ...), cont (T, N) that is 0 where a sequence begins and 1 where it goes on, then perhaps a static
input (N, ...) and, with `expose_hidden`, the states before the first step (1, N, H). Tops: the outputs (T, N, H) and,
with `expose_hidden`, the states after the last step. Without it the last state of a pass is the first of the next, as
in Caffe: cont 0 at the first step cuts that. That state is in no checkpoint. The rows of a pass are steps of time, so
one process takes them all.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

from nets.layers.base import Blobs, Gradients, Layer, Run, Setup, Shape, Values, register
from ops import Array


class Recurrent(Layer):
    """What LSTM and RNN share. `states`: how many arrays a state has; `gates`: gate inputs per unit."""

    is_dense, time_first = True, True
    bottoms, tops = (2, 5), (1, 3)
    top_is_free = False
    states: ClassVar[int]
    gates: ClassVar[int]

    def _shape(self, shapes: list[Shape], setup: Setup) -> list[Shape]:
        p = self.proto.recurrent_param
        if p.num_output < 1:
            raise self.error("recurrent_param.num_output", f"found {p.num_output}, expected an integer >= 1")
        self.exposed = p.expose_hidden
        self._check_shapes(shapes, int(p.num_output))
        self.steps, self.rows, self.hidden = *shapes[0][:2], int(p.num_output)
        self.width = math.prod(shapes[0][2:])
        self.static = math.prod(shapes[2][1:]) if self._has_static(len(shapes)) else 0
        self._declare(self.gates * self.hidden)
        self.state: list[Array] = []
        state = (1, self.rows, self.hidden)
        return [(self.steps, self.rows, self.hidden), *([state] * self.states if self.exposed else [])]

    def _declare(self, gated: int) -> None:
        """Append Caffe's parameters in its order."""
        weight, bias = (getattr(self.proto.recurrent_param, f"{name}_filler") for name in ("weight", "bias"))
        self.declare("weight_x", (gated, self.width), weight, "recurrent_param.weight_filler")
        self.declare("bias", (gated,), bias, "recurrent_param.bias_filler")
        if self.static:
            self.declare("weight_static", (gated, self.static), weight, "recurrent_param.weight_filler")
        self.declare("weight_h", (gated, self.hidden), weight, "recurrent_param.weight_filler")

    def _has_static(self, bottoms: int) -> bool:
        return bottoms - 2 - (self.states if self.exposed else 0) == 1

    def _check_shapes(self, shapes: list[Shape], hidden: int) -> None:
        extra = self.states if self.exposed else 0
        if len(shapes) not in (2 + extra, 3 + extra):
            raise self.error("bottom", f"found {len(shapes)}, expected {2 + extra}, or {3 + extra} with a static input")
        if len(self.proto.top) != 1 + extra:
            raise self.error("top", f"found {len(self.proto.top)}, expected {1 + extra}")
        x = shapes[0]
        if len(x) < 2 or tuple(shapes[1]) != tuple(x[:2]):
            raise self.error("bottom", f"found shapes {x} and {shapes[1]}, expected (T, N, ...) and (T, N)")
        if self._has_static(len(shapes)) and shapes[2][:1] != x[1:2]:
            raise self.error("bottom", f"found shape {shapes[2]} for the static input, expected ({x[1]}, ...)")
        for shape in shapes[len(shapes) - extra :]:
            if tuple(shape) != (1, x[1], hidden):
                raise self.error("bottom", f"found shape {shape} for a state, expected {(1, x[1], hidden)}")

    def _inputs(self, bottoms: list[Array]) -> tuple[Array, Array]:
        """x as (T, N, D) and cont as (T, N)."""
        return bottoms[0].reshape(self.steps, self.rows, self.width), bottoms[1].reshape(self.steps, self.rows)

    def _start(self, bottoms: list[Array]) -> list[Array | None]:
        """The states before the first step: given, left by the last pass, or none."""
        if self.exposed:
            return [state.reshape(self.rows, self.hidden) for state in bottoms[-self.states :]]
        return list(self.state) or [None] * self.states

    def _extra(self, bottoms: list[Array], blobs: Blobs) -> Array | None:
        """The static input's part of every gate input, (N, gates H)."""
        return self.ops.dense_forward(self._static(bottoms), blobs[2], None) if self.static else None

    def _static(self, bottoms: list[Array]) -> Array:
        return bottoms[2].reshape(self.rows, self.static)

    def _ends(self, *ends: Array) -> list[Array]:
        """The states after the last step as tops; kept for the next pass if they are none."""
        if self.exposed:
            return [end[None] for end in ends]
        self.state = [end.copy() for end in ends]
        return []

    def _last(self, grads: list[Array | None]) -> list[Array | None]:
        """The gradients of the states after the last step."""
        given = grads[1:] if self.exposed else [None] * self.states
        return [None if grad is None else grad.reshape(self.rows, self.hidden) for grad in given]

    def _top_gradient(self, grads: list[Array | None]) -> Array:
        if grads[0] is not None:
            return grads[0]
        return self.ops.zeros((self.steps, self.rows, self.hidden), self.dtype)

    def _result(self, found: Any, values: Values, wanted: list[bool], rest: list[Array]) -> Gradients:
        """Gradients of the bottoms and of the parameters, whose last ones are `rest`."""
        bottoms: list[Array | None] = [found.x.reshape(values.bottoms[0].shape) if wanted[0] else None, None]
        params = [found.w_x, found.b]
        if self.static:
            static = self._static(values.bottoms)
            params.append(self.ops.dense_backward_weights(static, found.extra, bias=False)[0])
            back = self.ops.dense_backward_data(found.extra, values.blobs[2]) if wanted[2] else None
            bottoms.append(None if back is None else back.reshape(values.bottoms[2].shape))
        if self.exposed:
            starts = [found.h0, found.c0] if self.states == 2 else [found.h0]
            bottoms += [grad[None] if wanted[len(bottoms) + at] else None for at, grad in enumerate(starts)]
        return bottoms, (*params, *rest)


def _delivered(gradients: Gradients, out: Blobs | None) -> Gradients:
    """Write the parameters' gradients where they are wanted."""
    if out is None:
        return gradients
    for place, grad in zip(out, gradients[1], strict=True):
        place[...] = grad
    return gradients[0], tuple(out)


@register("LSTM")
class LSTM(Recurrent):
    """h = o tanh(c), c = f c' + i g, gates i, f, o, g from x, the static input and h' (Caffe's LSTMUnit)."""

    states, gates = 2, 4

    def forward(self, bottoms: list[Array], blobs: Blobs, run: Run) -> list[Array]:
        (x, cont), (h0, c0) = self._inputs(bottoms), self._start(bottoms)
        self.start = (h0, c0)
        self.tape = self.ops.lstm_forward(
            x, cont, blobs[0], blobs[1], blobs[-1], h0=h0, c0=c0, extra=self._extra(bottoms, blobs)
        )
        return [self.tape.h, *self._ends(self.tape.h[-1], self.tape.c[-1])]

    def backward(
        self, grads: list[Array | None], values: Values, run: Run, wanted: list[bool], out: Blobs | None
    ) -> Gradients:
        (x, cont), blobs, (dh_last, dc_last) = self._inputs(values.bottoms), values.blobs, self._last(grads)
        found = self.ops.lstm_backward(
            self._top_gradient(grads), self.tape, x, cont, blobs[0], blobs[-1],
            h0=self.start[0], c0=self.start[1], dh_last=dh_last, dc_last=dc_last,
        )  # fmt: skip
        assert found.w_h is not None
        return _delivered(self._result(found, values, wanted, [found.w_h]), out)


@register("RNN")
class RNN(Recurrent):
    """h = tanh(W_x x + W_static s + W_h h' + b), o = tanh(W_o h + b_o)."""

    states, gates = 1, 1

    def _declare(self, gated: int) -> None:
        super()._declare(gated)
        p = self.proto.recurrent_param
        self.declare("weight_o", (gated, self.hidden), p.weight_filler, "recurrent_param.weight_filler")
        self.declare("bias_o", (gated,), p.bias_filler, "recurrent_param.bias_filler")

    def forward(self, bottoms: list[Array], blobs: Blobs, run: Run) -> list[Array]:
        (x, cont), (self.start,) = self._inputs(bottoms), self._start(bottoms)
        w_h, w_o, b_o = blobs[-3:]
        self.out, self.h = self.ops.rnn_forward(
            x, cont, blobs[0], blobs[1], w_h, w_o, b_o, h0=self.start, extra=self._extra(bottoms, blobs)
        )
        return [self.out, *self._ends(self.h[-1])]

    def backward(
        self, grads: list[Array | None], values: Values, run: Run, wanted: list[bool], out: Blobs | None
    ) -> Gradients:
        (x, cont), blobs, (dh_last,) = self._inputs(values.bottoms), values.blobs, self._last(grads)
        found = self.ops.rnn_backward(
            self._top_gradient(grads), self.out, self.h, x, cont, blobs[0], blobs[-3], blobs[-2],
            h0=self.start, dh_last=dh_last,
        )  # fmt: skip
        assert found.w_h is not None
        assert found.w_o is not None
        assert found.b_o is not None
        return _delivered(self._result(found, values, wanted, [found.w_h, found.w_o, found.b_o]), out)
