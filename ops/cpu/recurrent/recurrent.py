"""LSTM and RNN of the CPU backend: the threads share the sequences of a batch, everything else is
products."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np

from ops.cpu.gemm.dense import DenseKernels
from ops.cpu.recurrent.recurrence import Recurrence, Sizes
from ops.cpu.recurrent.time_steps import ROWS, squash, squash_back
from ops.cpu.recurrent.units import units
from ops.errors import Array, Shape
from ops.reference import recurrent
from ops.reference.recurrent import LstmGradients, RnnGradients, Tape


class RecurrentKernels(DenseKernels):
    """The recurrent layers of `CpuBackend`: C-contiguous float32. The reference handles all other
    arrays."""

    def __init__(self, b_p: int | None = None) -> None:
        super().__init__(b_p)
        self._recurrences: dict[Sizes, Recurrence] = {}
        self._nothing: Array = np.zeros(64, np.float32)
        # gradients between the two parts of an RNN
        self._between: dict[tuple[Shape, Shape], tuple[Array, Array]] = {}

    def recurrent_scratch(
        self, x_shape: Shape, hidden: int, gates: int, *, training: bool, table: int = 0
    ) -> int:
        steps, images, features = x_shape
        plan = self._planned(Sizes(steps, images, features, hidden, gates * hidden, table))
        return max(plan.forward_bytes, plan.scratch_bytes if training else 0)

    def lstm_forward(
        self,
        x: Array,
        cont: Array,
        w_x: Array,
        b: Array | None,
        w_h: Array,
        *,
        index: Array | None = None,
        h0: Array | None = None,
        c0: Array | None = None,
        extra: Array | None = None,
        out: Array | None = None,
        tape: Tape | None = None,
    ) -> Tape:
        into = (tape or Tape())._replace(**({} if out is None else {"h": out}))
        if not _ready(x, cont, w_x, b, w_h, h0, c0, extra, *into, index=index):
            return super().lstm_forward(
                x, cont, w_x, b, w_h, index=index, h0=h0, c0=c0, extra=extra, out=out, tape=tape
            )
        steps, images, hidden = recurrent.check_lstm_forward(
            x, index, cont, w_x, b, w_h, h0, c0, extra, into
        )
        found = Tape(
            *(
                self._given(array, (steps, images, gates * hidden))
                for array, gates in zip(into, (1, 1, 4), strict=True)
            )
        )
        plan = self._recurrence(x, index, cont, w_h)
        plan.forward(x, index, cont, w_x, b, w_h, h0, c0, extra, *found)
        return found

    def lstm_backward(
        self,
        dh: Array,
        tape: Tape,
        x: Array,
        cont: Array,
        w_x: Array,
        w_h: Array,
        *,
        index: Array | None = None,
        h0: Array | None = None,
        c0: Array | None = None,
        dh_last: Array | None = None,
        dc_last: Array | None = None,
        out: LstmGradients | None = None,
        without: Collection[str] = (),
    ) -> LstmGradients:
        into = out or LstmGradients()
        if not _ready(dh, *tape, x, cont, w_x, w_h, h0, c0, dh_last, dc_last, *into, index=index):
            states = {"h0": h0, "c0": c0, "dh_last": dh_last, "dc_last": dc_last}
            return super().lstm_backward(
                dh, tape, x, cont, w_x, w_h, index=index, **states, out=out, without=without
            )
        recurrent.check_lstm_backward(
            dh, tape, x, index, cont, w_x, w_h, h0, c0, dh_last, dc_last, into, without
        )
        found = LstmGradients(**self._gradients(into, x, cont, w_x, w_h, without))
        plan = self._recurrence(x, index, cont, w_h)
        scratch = self.workspace.take(plan.scratch_bytes)
        plan.backward(
            dh.ctypes.data,
            *tape,
            x,
            index,
            cont,
            w_x,
            w_h,
            h0,
            c0,
            dh_last,
            dc_last,
            found,
            scratch,
        )
        return found

    def rnn_forward(
        self,
        x: Array,
        cont: Array,
        w_x: Array,
        b: Array | None,
        w_h: Array,
        w_o: Array,
        b_o: Array | None,
        *,
        index: Array | None = None,
        h0: Array | None = None,
        extra: Array | None = None,
        out: Array | None = None,
        states: Array | None = None,
    ) -> tuple[Array, Array]:
        if not _ready(x, cont, w_x, b, w_h, w_o, b_o, h0, extra, out, states, index=index):
            more = {"index": index, "h0": h0, "extra": extra, "out": out, "states": states}
            return super().rnn_forward(x, cont, w_x, b, w_h, w_o, b_o, **more)
        shape = recurrent.check_rnn_forward(
            x, index, cont, w_x, b, w_h, w_o, b_o, h0, extra, out, states
        )
        o = self._given(out, (*shape[:2], len(w_o)))
        h = self._given(states, shape)
        plan = self._recurrence(x, index, cont, w_h)
        plan.forward(x, index, cont, w_x, b, w_h, h0, None, extra, h, h, h)
        self.dense_forward(_rows(h), w_o, b_o, _rows(o))
        block = ROWS(
            unit=units().rnn_forward,
            y=o.ctypes.data,
            zeros=self._zeros(len(w_o)).ctypes.data,
            rows=shape[0] * shape[1],
            count=len(w_o),
        )
        self.team.run(squash, block)
        return o, h

    def rnn_backward(
        self,
        do: Array,
        o: Array,
        h: Array,
        x: Array,
        cont: Array,
        w_x: Array,
        w_h: Array,
        w_o: Array,
        *,
        index: Array | None = None,
        h0: Array | None = None,
        dh_last: Array | None = None,
        out: RnnGradients | None = None,
        without: Collection[str] = (),
    ) -> RnnGradients:
        into = out or RnnGradients()
        if not _ready(do, o, h, x, cont, w_x, w_h, w_o, h0, dh_last, *into, index=index):
            states = {"index": index, "h0": h0, "dh_last": dh_last}
            return super().rnn_backward(
                do, o, h, x, cont, w_x, w_h, w_o, **states, out=out, without=without
            )
        recurrent.check_rnn_backward(
            do, o, h, x, index, cont, w_x, w_h, w_o, h0, dh_last, into, without
        )
        found = RnnGradients(
            **self._gradients(into, x, cont, w_x, w_h, without),
            w_o=self._given(into.w_o, w_o.shape), b_o=self._given(into.b_o, w_o.shape[:1]),
        )  # fmt: skip
        dh = self._back_to_states(do, o, h, w_o, found)
        plan = self._recurrence(x, index, cont, w_h)
        scratch = self.workspace.take(plan.scratch_bytes)
        plan.backward(
            dh.ctypes.data, h, h, h, x, index, cont, w_x, w_h, h0, None, dh_last, None, found,
            scratch,
        )  # fmt: skip
        return found

    def _back_to_states(
        self, do: Array, o: Array, h: Array, w_o: Array, out: RnnGradients
    ) -> Array:
        """Compute the gradient of an RNN's states, and those of w_o and b_o, from the gradient of
        its outputs. Returns the first."""
        key = (o.shape, h.shape)
        if key not in self._between:
            self._between[key] = (np.empty(o.shape, np.float32), np.empty(h.shape, np.float32))
        d_o, dh = self._between[key]
        size = o.shape[2]
        rows = o.shape[0] * o.shape[1]
        block = ROWS(
            unit=units().rnn_backward,
            x=do.ctypes.data,
            y=o.ctypes.data,
            dx=d_o.ctypes.data,
            rows=rows,
            count=size,
            junk=self.workspace.take(4 * size * self.team.size),
        )
        self.team.run(squash_back, block)
        self.dense_backward_weights(_rows(h), _rows(d_o), bias=True, out_w=out.w_o, out_b=out.b_o)
        self.dense_backward_data(_rows(d_o), w_o, out=_rows(dh))
        return dh

    def _zeros(self, count: int) -> Array:
        if len(self._nothing) < count:
            self._nothing = np.zeros(count, np.float32)
        return self._nothing

    def _recurrence(self, x: Array, index: Array | None, cont: Array, w_h: Array) -> Recurrence:
        (steps, images), (width, hidden) = cont.shape, w_h.shape
        table = 0 if index is None else len(x)
        return self._planned(Sizes(steps, images, x.shape[-1], hidden, width, table))

    def _planned(self, sizes: Sizes) -> Recurrence:
        plan = self._recurrences.get(sizes)
        if plan is None:
            u = units()
            pair = (
                (u.rnn_forward, u.rnn_backward)
                if sizes.width == sizes.hidden
                else (u.lstm_forward, u.lstm_backward)
            )
            plan = self._recurrences[sizes] = Recurrence(
                self.team, self.workspace, sizes, *pair, self.precision
            )
        return plan

    def _given(self, out: Array | None, shape: Shape) -> Array:
        return self.empty(shape) if out is None else out

    def _gradients(
        self,
        out: LstmGradients | RnnGradients,
        x: Array,
        cont: Array,
        w_x: Array,
        w_h: Array,
        without: Collection[str],
    ) -> dict[str, Array | None]:
        """Destinations of the gradients that LSTM and RNN share, and of c0 if there is one."""
        images = cont.shape[1]
        state = (images, w_h.shape[1])
        width = w_h.shape[0]
        shapes: dict[str, Shape] = {
            "x": x.shape,
            "w_x": w_x.shape,
            "b": (width,),
            "w_h": w_h.shape,
            "h0": state,
            "c0": state,
            "extra": (images, width),
        }
        return {
            name: None if name in without else self._given(getattr(out, name), shape)
            for name, shape in shapes.items()
            if hasattr(out, name)
        }


def _ready(*arrays: Any, index: Any) -> bool:
    """Whether kernels can read all the arrays and the index in place."""
    return (index is None or (index.size > 0 and index.flags.c_contiguous)) and all(
        x is None
        or (x.dtype == np.float32 and x.flags.c_contiguous and x.size and not x.ctypes.data % 4)
        for x in arrays
    )


def _rows(x_TNC: Array) -> Array:
    return x_TNC.reshape(-1, x_TNC.shape[2])
