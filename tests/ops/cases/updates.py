"""Caffe's solvers and later optimizers, element by element."""

from __future__ import annotations

import math

from tests.ops.cases.case import Case, each

SHAPE = (5, 3, 2, 2)
RATE = 0.1
MOMENTUM = 0.9
DECAY = 0.05
DELTA = 1e-3
RMS = 0.98
MOMENTUM2 = 0.99
STEP = 3


def arrays(r):
    return {
        "x": r.standard_normal(SHAPE),
        "g": r.standard_normal(SHAPE),
        "h": r.random(SHAPE),
        "u": r.random(SHAPE),
    }


def update(name, results, call, formula, regularization="L2", decoupled=False) -> Case:
    """A case of one solver. formula(w, regularised g, h, u) returns the new values of one element.
    A `decoupled` solver gets g as it is."""

    def reference(a):
        def one(which):
            def element(w, g, h, u):
                kick = w if regularization == "L2" else math.copysign(1.0, w)
                return formula(w, g + DECAY * kick * (not decoupled), h, u)[which]

            return each(element, a["x"], a["g"], a["h"], a["u"])

        return tuple(one(k) for k in range(results))

    def forward(b, a, o):
        histories = [a["h"], a["u"]][: results - 1]
        options = {"rate": RATE, "decay": DECAY, "regularization": regularization, **OPTIONS[name]}
        outs = {key: o[k] for k, key in enumerate(("out_w", *OUTS[name]))}
        return call(b)(a["x"], a["g"], *histories, **options, **outs)

    return Case(f"{name} {regularization}", arrays, forward, reference)


OUTS = {
    "sgd": ("out_h",), "nesterov": ("out_h",), "adagrad": ("out_h",), "rmsprop": ("out_h",),
    "adadelta": ("out_h", "out_u"), "adam": ("out_m", "out_s"), "sgdw": ("out_h",),
    "nesterovw": ("out_h",), "adamw": ("out_m", "out_s"),
}  # fmt: skip
OPTIONS = {
    "sgd": {"momentum": MOMENTUM},
    "nesterov": {"momentum": MOMENTUM},
    "adagrad": {"delta": DELTA},
    "rmsprop": {"rms_decay": RMS, "delta": DELTA},
    "adadelta": {"momentum": MOMENTUM, "delta": DELTA},
    "adam": {"momentum": MOMENTUM, "momentum2": MOMENTUM2, "delta": DELTA, "step": STEP},
    "sgdw": {"momentum": MOMENTUM},
    "nesterovw": {"momentum": MOMENTUM, "nesterov": True},
    "adamw": {"momentum": MOMENTUM, "momentum2": MOMENTUM2, "delta": DELTA, "step": STEP},
}


def sgd(w, g, h, u):
    new = MOMENTUM * h + RATE * g
    return w - new, new


def nesterov(w, g, h, u):
    new = MOMENTUM * h + RATE * g
    return w - ((1 + MOMENTUM) * new - MOMENTUM * h), new


def adagrad(w, g, h, u):
    new = h + g * g
    return w - RATE * g / (math.sqrt(new) + DELTA), new


def rmsprop(w, g, h, u):
    new = RMS * h + (1 - RMS) * g * g
    return w - RATE * g / (math.sqrt(new) + DELTA), new


def adadelta(w, g, h, u):
    new = MOMENTUM * h + (1 - MOMENTUM) * g * g
    step = g * math.sqrt((u + DELTA) / (new + DELTA))
    return w - RATE * step, new, MOMENTUM * u + (1 - MOMENTUM) * step * step


def adam(w, g, h, u):
    m = MOMENTUM * h + (1 - MOMENTUM) * g
    s = MOMENTUM2 * u + (1 - MOMENTUM2) * g * g
    correction = math.sqrt(1 - MOMENTUM2**STEP) / (1 - MOMENTUM**STEP)
    return w - RATE * correction * m / (math.sqrt(s) + DELTA), m, s


def sgdw(w, g, h, u):
    new = MOMENTUM * h + g
    return w - RATE * (new + DECAY * w), new


def nesterovw(w, g, h, u):
    new = MOMENTUM * h + g
    return w - RATE * (g + MOMENTUM * new + DECAY * w), new


def adamw(w, g, h, u):
    m = MOMENTUM * h + (1 - MOMENTUM) * g
    s = MOMENTUM2 * u + (1 - MOMENTUM2) * g * g
    root = math.sqrt(s / (1 - MOMENTUM2**STEP)) + DELTA
    return w - RATE * (m / (1 - MOMENTUM**STEP) / root + DECAY * w), m, s


def average() -> Case:
    """The moving average of parameters."""
    return Case(
        "moving average",
        arrays,
        lambda b, a, o: (b.moving_average(a["h"], a["x"], 0.9, out=o[0]),),
        lambda a: (0.9 * a["h"] + 0.1 * a["x"],),
    )


CASES = [
    update("sgd", 2, lambda b: b.sgd_update, sgd),
    update("sgd", 2, lambda b: b.sgd_update, sgd, "L1"),
    update("nesterov", 2, lambda b: b.nesterov_update, nesterov),
    update("adagrad", 2, lambda b: b.adagrad_update, adagrad, "L1"),
    update("rmsprop", 2, lambda b: b.rmsprop_update, rmsprop),
    update("adadelta", 3, lambda b: b.adadelta_update, adadelta),
    update("adam", 3, lambda b: b.adam_update, adam),
    update("sgdw", 2, lambda b: b.sgdw_update, sgdw, decoupled=True),
    update("nesterovw", 2, lambda b: b.sgdw_update, nesterovw, decoupled=True),
    update("adamw", 3, lambda b: b.adamw_update, adamw, decoupled=True),
    average(),
]
