"""Embedding, LSTM and RNN, compared with loops over single units."""

from __future__ import annotations

import math

import numpy as np

from ops.reference.recurrent import LstmGradients, RnnGradients
from tests.ops.cases.case import Case, sigmoid


def embed(shape, rows: int, outputs: int) -> Case:
    def backward(b, a, dy, o):
        return b.embed_backward_weights(
            a["index"], dy, (rows, outputs), bias=True, out_w=o[0], out_b=o[1]
        )

    def reference(a):
        y = np.zeros((*shape, outputs))
        for at in np.ndindex(shape):
            y[at] = [
                float(v) + float(c)
                for v, c in zip(a["w"][int(a["index"][at])], a["b"], strict=True)
            ]
        return (y,)

    return Case(
        f"embed {shape} of {rows}x{outputs}",
        lambda r: {
            "index": r.integers(0, rows, shape),
            "w": r.standard_normal((rows, outputs)),
            "b": r.standard_normal(outputs),
        },
        lambda b, a, o: (b.embed_forward(a["index"], a["w"], a["b"], out=o[0]),),
        reference,
        backward,
        ("w", "b"),
    )


STEPS = 5
IMAGES = 3
FEATURES = 4
UNITS = 2
OUTPUTS = 3


def sequence(gates: int):
    def arrays(r):
        cont = (r.random((STEPS, IMAGES)) > 0.3).astype(np.float64)
        cont[0] = [1, 0, 1]
        shapes = {
            "x": (STEPS, IMAGES, FEATURES), "w_x": (gates * UNITS, FEATURES), "b": (gates * UNITS,),
            "w_h": (gates * UNITS, UNITS), "h0": (IMAGES, UNITS), "c0": (IMAGES, UNITS),
            "extra": (IMAGES, gates * UNITS), "w_o": (OUTPUTS, UNITS), "b_o": (OUTPUTS,),
        }  # fmt: skip
        return {"cont": cont, **{name: r.standard_normal(shape) for name, shape in shapes.items()}}

    return arrays


def inner(row, column) -> float:
    return sum(float(u) * float(v) for u, v in zip(row, column, strict=True))


def gate_input(a, t: int, n: int, unit: int, h) -> float:
    """The input of one gate at one step of one sequence."""
    own = inner(a["w_x"][unit], a["x"][t, n]) + float(a["b"][unit]) + float(a["extra"][n, unit])
    return own + float(a["cont"][t, n]) * inner(a["w_h"][unit], h)


def lstm_by_hand(a):
    hs = np.zeros((STEPS, IMAGES, UNITS))
    cs = np.zeros((STEPS, IMAGES, UNITS))
    for n in range(IMAGES):
        h = list(a["h0"][n])
        c = list(a["c0"][n])
        for t in range(STEPS):
            inputs = [
                [gate_input(a, t, n, kind * UNITS + u, h) for u in range(UNITS)]
                for kind in range(4)
            ]
            i, f, o = ([sigmoid(v) for v in inputs[kind]] for kind in range(3))
            g = [math.tanh(v) for v in inputs[3]]
            c = [float(a["cont"][t, n]) * f[u] * c[u] + i[u] * g[u] for u in range(UNITS)]
            h = [o[u] * math.tanh(c[u]) for u in range(UNITS)]
            hs[t, n], cs[t, n] = h, c
    return hs, cs


def lstm() -> Case:
    names = ("x", "w_x", "b", "w_h", "h0", "c0", "extra")

    def tape(b, a, out=None):
        states = {name: a[name] for name in ("h0", "c0", "extra")}
        return b.lstm_forward(a["x"], a["cont"], a["w_x"], a["b"], a["w_h"], **states, out=out)

    def backward(b, a, dy, o):
        return b.lstm_backward(
            dy, tape(b, a), a["x"], a["cont"], a["w_x"], a["w_h"], h0=a["h0"], c0=a["c0"],
            out=LstmGradients(*(o[k] for k in range(7))),
        )  # fmt: skip

    return Case(
        "LSTM",
        sequence(4),
        lambda b, a, o: tape(b, a, o[0])[:2],
        lstm_by_hand,
        backward,
        names,
        no_out=(1,),
    )


def lstm_from_zero() -> Case:
    def tape(b, a, out=None):
        return b.lstm_forward(a["x"], a["cont"], a["w_x"], None, a["w_h"], out=out)

    def reference(a):
        zeros = {name: 0 * a[name] for name in ("b", "h0", "c0", "extra")}
        return lstm_by_hand({**a, **zeros})[:1]

    def backward(b, a, dy, o):
        last = {"dh_last": 2 * dy[-1], "dc_last": None}
        gradients = b.lstm_backward(
            0 * dy, tape(b, a), a["x"], a["cont"], a["w_x"], a["w_h"], **last
        )
        plain = b.lstm_backward(dy, tape(b, a), a["x"], a["cont"], a["w_x"], a["w_h"])
        tail = b.zeros(dy.shape, dy.dtype)
        tail[-1] = 2 * dy[-1]
        same = b.lstm_backward(tail, tape(b, a), a["x"], a["cont"], a["w_x"], a["w_h"])
        for one, other in zip(gradients, same, strict=True):
            np.testing.assert_allclose(b.to_host(one), b.to_host(other), rtol=1e-4, atol=1e-6)
        return plain.x, plain.w_x, plain.w_h

    return Case(
        "LSTM from a zero state without bias",
        sequence(4),
        lambda b, a, o: tape(b, a, o[0])[:1],
        reference,
        backward,
        ("x", "w_x", "w_h"),
        no_out_back=(0, 1, 2),
    )


def rnn() -> Case:
    names = ("x", "w_x", "b", "w_h", "w_o", "b_o", "h0", "extra")

    def forward(b, a, out=None):
        weights = [a[name] for name in ("w_x", "b", "w_h", "w_o", "b_o")]
        return b.rnn_forward(a["x"], a["cont"], *weights, h0=a["h0"], extra=a["extra"], out=out)

    def reference(a):
        outs = np.zeros((STEPS, IMAGES, OUTPUTS))
        hs = np.zeros((STEPS, IMAGES, UNITS))
        for n in range(IMAGES):
            h = list(a["h0"][n])
            for t in range(STEPS):
                h = [math.tanh(gate_input(a, t, n, u, h)) for u in range(UNITS)]
                hs[t, n] = h
                outs[t, n] = [
                    math.tanh(inner(a["w_o"][k], h) + float(a["b_o"][k])) for k in range(OUTPUTS)
                ]
        return outs, hs

    def backward(b, a, dy, o):
        outs, h = forward(b, a)
        return b.rnn_backward(
            dy, outs, h, a["x"], a["cont"], a["w_x"], a["w_h"], a["w_o"], h0=a["h0"],
            out=RnnGradients(*(o[k] for k in range(8))),
        )  # fmt: skip

    return Case(
        "RNN",
        sequence(1),
        lambda b, a, o: forward(b, a, o[0]),
        reference,
        backward,
        names,
        no_out=(1,),
    )


CASES = [
    embed((7,), 5, 3),
    embed((3, 4), 50, 1),
    embed((13, 1), 2, 20),
    lstm(),
    lstm_from_zero(),
    rnn(),
]
