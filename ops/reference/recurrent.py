"""Caffe's LSTMLayer and RNNLayer over whole sequences, forward and backward through time.

Time comes first: x (T, N, D). cont (T, N) is 0 where a sequence begins and 1 where it continues:
the state before step t is multiplied by cont[t]. The input's part of all steps is one GEMM; only
the state's part runs step by step. `extra` (N, G) is added to every step's gate input; it stands
for Caffe's static input. Weights are laid out as in Caffe, (outputs, inputs). The LSTM's 4H gates
are i, f, o, g, and only the input's weights have a bias.

With `index` (T, N) x is a table (R, D), and step t of sequence n reads its row index[t, n]. The
input's part is then computed once for each row of the table. Its gradients are those of the table:
the gradients of the gate inputs are added up by row first.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, NamedTuple

import numpy as np

from ops.errors import (
    Array,
    OpsError,
    Shape,
    check_choice,
    check_float,
    check_ndim,
    check_out,
    check_shape,
)
from ops.reference.pointwise import sigmoid_forward

MAY_LACK = ("x", "extra")  # gradients that cost much and are often not wanted


class LstmGradients(NamedTuple):
    """One gradient per input of lstm_forward. In a destination None allocates the array."""

    x: Array | None = None  # (T, N, D), or (R, D) of a table
    w_x: Array | None = None  # (4H, D)
    b: Array | None = None  # (4H,)
    w_h: Array | None = None  # (4H, H)
    h0: Array | None = None  # (N, H)
    c0: Array | None = None  # (N, H)
    extra: Array | None = None  # (N, 4H)


class RnnGradients(NamedTuple):
    """One gradient per input of rnn_forward. In a destination None allocates the array."""

    x: Array | None = None  # (T, N, D), or (R, D) of a table
    w_x: Array | None = None  # (H, D)
    b: Array | None = None  # (H,)
    w_h: Array | None = None  # (H, H)
    w_o: Array | None = None  # (O, H)
    b_o: Array | None = None  # (O,)
    h0: Array | None = None  # (N, H)
    extra: Array | None = None  # (N, H)


class Tape(NamedTuple):
    """The arrays that lstm_forward leaves for lstm_backward. In a destination None allocates the
    array."""

    h: Any = None  # (T, N, H), the output
    c: Any = None  # (T, N, H), the cells
    gates: Any = None  # (T, N, 4H), after their sigmoid or tanh; f already times cont


def _check(
    op: str,
    gates: int,
    x: Array,
    index: Array | None,
    cont: Array,
    w_x: Array,
    b: Array | None,
    w_h: Array,
    extra: Array | None,
    **states: Array | None,
) -> tuple[int, int, int]:
    """Check that all arrays have one dtype and fit together; returns T, N, H. `gates` is the number
    of gate inputs per unit."""
    check_float(op, x=x, cont=cont, w_x=w_x, b=b, w_h=w_h, extra=extra, **states)
    check_ndim(op, "w_h", w_h, "GH")
    steps, images = _check_input(op, x, index)
    hidden = w_h.shape[1]
    if steps < 1:
        raise OpsError(f"{op}: x has shape {tuple(x.shape)}, expected at least one step")
    shapes: list[tuple[str, Array | None, Shape]] = [
        ("cont", cont, (steps, images)),
        ("w_h", w_h, (gates * hidden, hidden)),
        ("w_x", w_x, (gates * hidden, x.shape[-1])),
        ("b", b, (gates * hidden,)),
        ("extra", extra, (images, gates * hidden)),
        *((name, state, (images, hidden)) for name, state in states.items()),
    ]
    for name, array, shape in shapes:
        check_shape(op, name, array, shape)
    return steps, images, hidden


def _check_input(op: str, x: Array, index: Array | None) -> tuple[int, int]:
    """Check x (T, N, D), or the index (T, N) of rows of a table x; returns T, N."""
    if index is None:
        check_ndim(op, "x", x, "TND")
        return x.shape[0], x.shape[1]
    check_ndim(op, "x", x, "RD")
    check_ndim(op, "index", index, "TN")
    if index.dtype != np.int64:
        raise OpsError(f"{op}: index has dtype {index.dtype}, expected int64")
    if index.size and not 0 <= int(index.min()) <= int(index.max()) < len(x):
        raise OpsError(
            f"{op}: index has numbers from {int(index.min())} to {int(index.max())}, expected "
            f"rows from 0 to {len(x) - 1}"
        )
    return index.shape[0], index.shape[1]


def _gate_inputs(
    xp: Any,
    x: Array,
    w_x: Array,
    b: Array | None,
    extra: Array | None,
    out: Array | None = None,
    index: Array | None = None,
) -> Array:
    """The input's part of every step, (T, N, G), one GEMM."""
    found: Array = xp.matmul(x.reshape(-1, x.shape[-1]), w_x.T)
    if b is not None:
        found += b
    steps_and_images = x.shape[:2] if index is None else index.shape
    each = found if index is None else found[index]
    inputs: Array = _delivered(each.reshape(*steps_and_images, -1), out)
    if extra is not None:
        inputs += extra
    return inputs


def _before(xp: Any, state_TNH: Array, initial: Array | None, cont: Array) -> Array:
    """The state before each step times cont, (T, N, H)."""
    before = xp.empty_like(state_TNH)
    before[0] = 0 if initial is None else initial
    before[1:] = state_TNH[:-1]
    before *= cont[:, :, None]
    return before  # type: ignore[no-any-return]


def _weight_gradient(xp: Any, d_TNG: Array, inputs_TND: Array, out: Array | None) -> Array:
    left = d_TNG.reshape(-1, d_TNG.shape[-1])
    right = inputs_TND.reshape(-1, inputs_TND.shape[-1])
    gradient: Array = xp.matmul(left.T, right, out=out)
    return gradient


def _input_gradient(xp: Any, d_TNG: Array, w_x: Array, out: Array | None) -> Array:
    dx = xp.matmul(d_TNG.reshape(-1, d_TNG.shape[-1]), w_x).reshape(*d_TNG.shape[:-1], w_x.shape[1])
    if out is None:
        return dx  # type: ignore[no-any-return]
    out[...] = dx
    return out


def _by_row(
    xp: Any,
    d_TNG: Array,
    x: Array,
    index: Array | None,
    sum_rows: Callable[[Array, Array, Array], None],
) -> Array:
    """The gradients of the gate inputs, one row for each row of x: of a table (R, G), otherwise
    d_TNG itself."""
    if index is None:
        return d_TNG
    d_RG: Array = xp.empty((len(x), d_TNG.shape[2]), d_TNG.dtype)
    sum_rows(index.reshape(-1), d_TNG.reshape(-1, d_TNG.shape[2]), d_RG)
    return d_RG


def check_lstm_forward(
    x: Array, index: Array | None, cont: Array, w_x: Array, b: Array | None, w_h: Array,
    h0: Array | None, c0: Array | None, extra: Array | None, out: Tape,
) -> tuple[int, int, int]:  # fmt: skip
    """Check the arguments of lstm_forward; returns T, N, H."""
    op = "lstm_forward"
    steps, images, hidden = _check(op, 4, x, index, cont, w_x, b, w_h, extra, h0=h0, c0=c0)
    for name, array, width in (
        ("out", out.h, 1),
        ("tape.c", out.c, 1),
        ("tape.gates", out.gates, 4),
    ):
        check_out(op, name, array, (steps, images, width * hidden), x.dtype)
    return steps, images, hidden


def lstm_forward(
    xp: Any, x: Array, index: Array | None, cont: Array, w_x: Array, b: Array | None, w_h: Array,
    h0: Array | None, c0: Array | None, extra: Array | None, out: Tape,
) -> Tape:  # fmt: skip
    """c = f c' + i g, h = o tanh(c), with i, f, o, g from x, b, extra and cont h' (Caffe's
    LSTMUnit)."""
    steps, images, hidden = check_lstm_forward(x, index, cont, w_x, b, w_h, h0, c0, extra, out)
    gates = _gate_inputs(xp, x, w_x, b, extra, out.gates, index)
    h: Array = xp.empty((steps, images, hidden), x.dtype) if out.h is None else out.h
    c: Array = xp.empty((steps, images, hidden), x.dtype) if out.c is None else out.c
    before_h = h0
    before_c = c0
    for t in range(steps):
        if before_h is not None:
            gates[t] += xp.matmul(before_h * cont[t][:, None], w_h.T)
        _lstm_unit(xp, gates[t], cont[t], before_c, c[t], h[t])
        before_h = h[t]
        before_c = c[t]
    return Tape(h, c, gates)


def _lstm_unit(
    xp: Any, gates: Array, cont: Array, before_c: Array | None, c: Array, h: Array
) -> None:
    """Compute one step: gate inputs become gates in place, c and h are written."""
    hidden = c.shape[1]
    sigmoid_forward(xp, gates[:, : 3 * hidden], gates[:, : 3 * hidden])
    xp.tanh(gates[:, 3 * hidden :], out=gates[:, 3 * hidden :])
    i, f, o, g = _split(gates)
    f *= cont[:, None]
    xp.multiply(i, g, out=c)
    if before_c is not None:
        c += f * before_c
    xp.tanh(c, out=h)
    h *= o


def _split(gates: Array) -> list[Array]:
    hidden = gates.shape[-1] // 4
    return [gates[..., k * hidden : (k + 1) * hidden] for k in range(4)]


def check_lstm_backward(
    dh: Array,
    tape: Tape,
    x: Array,
    index: Array | None,
    cont: Array,
    w_x: Array,
    w_h: Array,
    h0: Array | None,
    c0: Array | None,
    dh_last: Array | None,
    dc_last: Array | None,
    out: LstmGradients,
    without: Collection[str],
) -> tuple[int, int, int]:
    """Check the arguments of lstm_backward; returns T, N, H."""
    op = "lstm_backward"
    steps, images, hidden = _check(
        op, 4, x, index, cont, w_x, None, w_h, None,
        h0=h0, c0=c0, dh_last=dh_last, dc_last=dc_last,
    )  # fmt: skip
    for name, array, width in (
        ("dh", dh, 1),
        ("h", tape.h, 1),
        ("c", tape.c, 1),
        ("gates", tape.gates, 4),
    ):
        check_float(op, x=x, **{name: array})
        check_shape(op, name, array, (steps, images, width * hidden))
    _check_outs(op, out, x, images, w_x, w_h, without)
    return steps, images, hidden


def lstm_backward(
    xp: Any,
    dh: Array,
    tape: Tape,
    x: Array,
    index: Array | None,
    cont: Array,
    w_x: Array,
    w_h: Array,
    h0: Array | None,
    c0: Array | None,
    dh_last: Array | None,
    dc_last: Array | None,
    out: LstmGradients,
    without: Collection[str],
    sum_rows: Callable[[Array, Array, Array], None],
) -> LstmGradients:
    """dh (T, N, H), and dh_last, dc_last (N, H) if the last state is used further -> all
    gradients."""
    steps, images, _ = check_lstm_backward(
        dh, tape, x, index, cont, w_x, w_h, h0, c0, dh_last, dc_last, out, without
    )
    hidden = w_h.shape[1]
    carry_h = xp.zeros((images, hidden), x.dtype) if dh_last is None else dh_last.copy()
    carry_c = xp.zeros((images, hidden), x.dtype) if dc_last is None else dc_last
    d_gates = xp.empty_like(tape.gates)
    for t in reversed(range(steps)):
        carry_h += dh[t]
        before_c = tape.c[t - 1] if t else c0
        carry_c = _lstm_unit_backward(
            xp, carry_h, carry_c, tape.gates[t], tape.c[t], before_c, d_gates[t]
        )
        carry_h = xp.matmul(d_gates[t], w_h) * cont[t][:, None]
    before_h = _before(xp, tape.h, h0, cont)
    d_rows = _by_row(xp, d_gates, x, index, sum_rows)
    return LstmGradients(
        None if "x" in without else _input_gradient(xp, d_rows, w_x, out.x),
        _weight_gradient(xp, d_rows, x, out.w_x),
        xp.sum(d_rows, axis=tuple(range(d_rows.ndim - 1)), out=out.b),
        _weight_gradient(xp, d_gates, before_h, out.w_h),
        _delivered(carry_h, out.h0),
        _delivered(carry_c, out.c0),
        None if "extra" in without else xp.sum(d_gates, axis=0, out=out.extra),
    )


def _lstm_unit_backward(
    xp: Any,
    dh: Array,
    dc_after: Array,
    gates: Array,
    c: Array,
    before_c: Array | None,
    d_gates: Array,
) -> Array:
    """Write the gate inputs' gradients; returns the gradient of the cell before."""
    i, f, o, g = _split(gates)
    d_i, d_f, d_o, d_g = _split(d_gates)
    tanh_c = xp.tanh(c)
    dc = dc_after + dh * o * (1 - tanh_c * tanh_c)
    xp.multiply(dc * g, i * (1 - i), out=d_i)
    d_f[...] = 0 if before_c is None else dc * before_c * f * (1 - f)
    xp.multiply(dh * tanh_c, o * (1 - o), out=d_o)
    xp.multiply(dc * i, 1 - g * g, out=d_g)
    return dc * f  # type: ignore[no-any-return]


def _delivered(array: Array, out: Array | None) -> Array:
    if out is None:
        return array
    out[...] = array
    return out


def _check_outs(
    op: str,
    out: LstmGradients | RnnGradients,
    x: Array,
    images: int,
    w_x: Array,
    w_h: Array,
    without: Collection[str],
) -> None:
    for name in without:
        check_choice(f"{op}: without", name, MAY_LACK)
    gates, hidden = w_h.shape
    shapes: dict[str, Shape] = {
        "x": tuple(x.shape),
        "w_x": (gates, x.shape[-1]),
        "b": (gates,),
        "w_h": (gates, hidden),
        "h0": (images, hidden),
        "c0": (images, hidden),
        "extra": (images, gates),
    }
    for name, shape in shapes.items():
        check_out(op, f"out.{name}", getattr(out, name, None), shape, x.dtype)


def check_rnn_forward(
    x: Array, index: Array | None, cont: Array, w_x: Array, b: Array | None, w_h: Array,
    w_o: Array, b_o: Array | None, h0: Array | None, extra: Array | None, out: Array | None,
    states: Array | None,
) -> tuple[int, int, int]:  # fmt: skip
    """Check the arguments of rnn_forward; returns T, N, H."""
    op = "rnn_forward"
    steps, images, hidden = _check(op, 1, x, index, cont, w_x, b, w_h, extra, h0=h0)
    _check_output(op, x, w_o, b_o, hidden)
    check_out(op, "out", out, (steps, images, w_o.shape[0]), x.dtype)
    check_out(op, "states", states, (steps, images, hidden), x.dtype)
    return steps, images, hidden


def rnn_forward(
    xp: Any,
    x: Array,
    index: Array | None,
    cont: Array,
    w_x: Array,
    b: Array | None,
    w_h: Array,
    w_o: Array,
    b_o: Array | None,
    h0: Array | None,
    extra: Array | None,
    out: Array | None,
    states: Array | None = None,
) -> tuple[Array, Array]:
    """h = tanh(w_x x + b + extra + w_h cont h'), o = tanh(w_o h + b_o) -> (o (T, N, O), h (T, N,
    H))."""
    steps, _, _ = check_rnn_forward(x, index, cont, w_x, b, w_h, w_o, b_o, h0, extra, out, states)
    h = _gate_inputs(xp, x, w_x, b, extra, states, index)
    before = h0
    for t in range(steps):
        if before is not None:
            h[t] += xp.matmul(before * cont[t][:, None], w_h.T)
        xp.tanh(h[t], out=h[t])
        before = h[t]
    o = _gate_inputs(xp, h, w_o, b_o, None)
    o = xp.tanh(o, out=o if out is None else out)
    return o, h


def _check_output(op: str, x: Array, w_o: Array, b_o: Array | None, hidden: int) -> None:
    check_float(op, x=x, w_o=w_o, b_o=b_o)
    check_ndim(op, "w_o", w_o, "OH")
    check_shape(op, "w_o", w_o, (w_o.shape[0], hidden))
    check_shape(op, "b_o", b_o, w_o.shape[:1])


def check_rnn_backward(
    do: Array, o: Array, h: Array, x: Array, index: Array | None, cont: Array, w_x: Array,
    w_h: Array, w_o: Array, h0: Array | None, dh_last: Array | None, out: RnnGradients,
    without: Collection[str],
) -> tuple[int, int, int]:  # fmt: skip
    """Check the arguments of rnn_backward; returns T, N, H."""
    op = "rnn_backward"
    steps, images, hidden = _check(
        op, 1, x, index, cont, w_x, None, w_h, None, h0=h0, dh_last=dh_last
    )
    _check_output(op, x, w_o, None, hidden)
    for name, array, width in (("do", do, len(w_o)), ("o", o, len(w_o)), ("h", h, hidden)):
        check_float(op, x=x, **{name: array})
        check_shape(op, name, array, (steps, images, width))
    _check_outs(op, out, x, images, w_x, w_h, without)
    check_out(op, "out.w_o", out.w_o, w_o.shape, x.dtype)
    check_out(op, "out.b_o", out.b_o, w_o.shape[:1], x.dtype)
    return steps, images, hidden


def rnn_backward(
    xp: Any,
    do: Array,
    o: Array,
    h: Array,
    x: Array,
    index: Array | None,
    cont: Array,
    w_x: Array,
    w_h: Array,
    w_o: Array,
    h0: Array | None,
    dh_last: Array | None,
    out: RnnGradients,
    without: Collection[str],
    sum_rows: Callable[[Array, Array, Array], None],
) -> RnnGradients:
    """do (T, N, O), and dh_last (N, H) if the last state is used further -> all gradients."""
    steps, images, hidden = check_rnn_backward(
        do, o, h, x, index, cont, w_x, w_h, w_o, h0, dh_last, out, without
    )
    d_o = do * (1 - o * o)
    # from the outputs; the later steps' part is added below
    d_h = _input_gradient(xp, d_o, w_o, None)
    carry = xp.zeros((images, hidden), x.dtype) if dh_last is None else dh_last
    for t in reversed(range(steps)):
        d_h[t] += carry
        d_h[t] *= 1 - h[t] * h[t]
        carry = xp.matmul(d_h[t], w_h) * cont[t][:, None]
    d_rows = _by_row(xp, d_h, x, index, sum_rows)
    return RnnGradients(
        None if "x" in without else _input_gradient(xp, d_rows, w_x, out.x),
        _weight_gradient(xp, d_rows, x, out.w_x),
        xp.sum(d_rows, axis=tuple(range(d_rows.ndim - 1)), out=out.b),
        _weight_gradient(xp, d_h, _before(xp, h, h0, cont), out.w_h),
        _weight_gradient(xp, d_o, h, out.w_o),
        xp.sum(d_o, axis=(0, 1), out=out.b_o),
        _delivered(carry, out.h0),
        None if "extra" in without else xp.sum(d_h, axis=0, out=out.extra),
    )
