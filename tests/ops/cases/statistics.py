"""Normalisations, reductions, arg max, softmax along any axis."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ops import Activation
from ops.activation import RELU
from tests.ops.cases.case import Case, Outs, away, each, normal, sigmoid


def rows(x, group):
    """Lists of the indices of elements that share statistics. group(at) names the set of an
    element."""
    sets = {}
    for at in np.ndindex(x.shape):
        sets.setdefault(group(at), []).append(at)
    return sets


def batch_norm(*shape: int) -> list[Case]:
    eps = 0.01

    def reference(a):
        x = a["x"]
        y = np.zeros(shape)
        mean = np.zeros(shape[1])
        variance = np.zeros(shape[1])
        for c, members in rows(x, lambda at: at[1]).items():
            values = [float(x[at]) for at in members]
            mean[c] = math.fsum(values) / len(values)
            variance[c] = math.fsum((v - mean[c]) ** 2 for v in values) / len(values)
            for at in members:
                y[at] = (x[at] - mean[c]) / math.sqrt(variance[c] + eps)
        return y, mean, variance

    def backward(b, a, dy, o):
        y, _, variance = b.batch_norm_forward(a["x"], eps=eps)
        return (b.batch_norm_backward(dy, y, variance, eps=eps, out=o[0]),)

    def given(b, a, o):
        return (b.batch_norm_forward(a["x"], eps=eps, statistics=(a["m"], a["v"]), out=o[0])[0],)

    def known(a):
        column = (-1,) + (1,) * (len(shape) - 2)
        return ((a["x"] - a["m"].reshape(column)) / np.sqrt(a["v"].reshape(column) + eps),)

    def known_backward(b, a, dy, o):
        return (
            b.batch_norm_backward(
                dy, given(b, a, {0: None})[0], a["v"], eps=eps, fixed=True, out=o[0]
            ),
        )

    def with_statistics(r):
        return {**normal(*shape, m=shape[1:2])(r), "v": r.random(shape[1]) + 0.1}

    return [
        Case(
            f"batch norm {shape}",
            normal(*shape),
            lambda b, a, o: b.batch_norm_forward(
                a["x"], eps=eps, out=o[0], mean=o[1], variance=o[2]
            ),
            reference,
            backward,
        ),
        Case(
            (f"batch norm {shape} with given statistics"),
            with_statistics,
            given,
            known,
            known_backward,
        ),
    ]


# what each activation makes of one number
ACTIVATIONS: dict[Activation | None, Any] = {
    None: lambda v: v,
    RELU: lambda v: max(v, 0.0),
    Activation("clip", (-0.4, 0.9)): lambda v: min(max(v, -0.4), 0.9),
    Activation("swish", (1.5,)): lambda v: v * sigmoid(1.5 * v),
    Activation("gelu"): lambda v: v * math.erfc(-v * math.sqrt(0.5)) / 2,
    Activation("hard_swish"): lambda v: v * min(max((v + 3) / 6, 0.0), 1.0),
}


def norm_scale_references(shape, activation, added: bool, eps: float):
    """The result from given statistics, and the result from the batch's with these."""
    column = (-1,) + (1,) * (len(shape) - 2)

    def result(a, mean, variance):
        g, c, m, v = (part.reshape(column) for part in (a["g"], a["c"], mean, variance))
        y = (a["x"] - m) / np.sqrt(v + eps) * g + c + (a["p"] if added else 0)
        return each(ACTIVATIONS[activation], y)

    def reference(a):
        mean = np.zeros(shape[1])
        variance = np.zeros(shape[1])
        for k, members in rows(a["x"], lambda at: at[1]).items():
            values = [float(a["x"][at]) for at in members]
            mean[k] = math.fsum(values) / len(values)
            variance[k] = math.fsum((v - mean[k]) ** 2 for v in values) / len(values)
        return result(a, mean, variance), mean, variance

    return result, reference


def norm_scale(shape: tuple[int, ...], activation: Activation | None, added: bool) -> list[Case]:
    """Batch norm, scale and bias, optionally with an addend and an activation, from the batch's
    statistics and from given ones."""
    eps = 0.01
    result, reference = norm_scale_references(shape, activation, added, eps)

    def arrays(r):
        part = {name: r.standard_normal(shape[1]) for name in ("g", "c", "m")}
        return {**normal(*shape, p=shape)(r), **part, "v": r.random(shape[1]) + 0.1}

    def forward(b, a, o, **given):
        addend = a["p"] if added else None
        return b.norm_scale_forward(
            a["x"],
            a["g"],
            a["c"],
            eps=eps,
            activation=activation,
            addend=addend,
            out=o[0],
            **given,
        )

    def backward(b, a, dy, o, fixed=False):
        y, mean, variance = forward(
            b, a, Outs(), **({"statistics": (a["m"], a["v"])} if fixed else {})
        )
        known = {"eps": eps, "fixed": fixed, "activation": None if added else activation}
        dp = dy
        if activation and added:
            dp, *sums = b.rectified_sums([dy], y, a["x"], mean)
            known["sums"] = tuple(sums)
        outs = {"out": o[0], "out_gamma": o[1], "out_beta": o[2]}
        return b.norm_scale_backward(dp, a["x"], a["g"], a["c"], mean, variance, **known, **outs)

    kind = f", {activation.kind}" if activation else ""
    name = f"norm, scale{', add' if added else ''}{kind} {shape}"
    return [
        Case(
            name,
            arrays,
            lambda b, a, o: forward(b, a, o, mean=o[1], variance=o[2]),
            reference,
            backward,
            ("x", "g", "c"),
            tolerance=1e-4,
        ),
        Case(
            f"{name} with given statistics",
            arrays,
            lambda b, a, o: forward(b, a, o, statistics=(a["m"], a["v"]))[:1],
            lambda a: (result(a, a["m"], a["v"]),),
            lambda b, a, dy, o: backward(b, a, dy, o, fixed=True),
            ("x", "g", "c"),
            tolerance=1e-4,
        ),
    ]


def channel_sums(*shape: int) -> Case:
    def reference(a):
        return (
            [
                math.fsum(float(v) for v in np.moveaxis(a["x"], 1, 0)[k].flat)
                for k in range(shape[1])
            ],
        )

    return Case(
        f"sums per channel {shape}",
        normal(*shape),
        lambda b, a, o: (b.channel_sums(a["x"], out=o[0]),),
        reference,
    )


def mvn(shape: tuple[int, ...], across: bool, variance: bool) -> Case:
    options = {"across_channels": across, "normalize_variance": variance, "eps": 1e-9}

    def reference(a):
        x = a["x"]
        y = np.zeros(shape)
        for members in rows(x, lambda at: at[:1] if across else at[:2]).values():
            values = [float(x[at]) for at in members]
            mean = math.fsum(values) / len(values)
            deviation = math.sqrt(math.fsum((v - mean) ** 2 for v in values) / len(values)) + 1e-9
            for at in members:
                y[at] = (x[at] - mean) / (deviation if variance else 1)
        return (y,)

    def backward(b, a, dy, o):
        y, deviation = b.mvn_forward(a["x"], **options)
        return (b.mvn_backward(dy, y, deviation, across_channels=across, out=o[0]),)

    return Case(
        f"MVN {shape} {options}", normal(*shape),
        lambda b, a, o: b.mvn_forward(a["x"], **options, out=o[0])[:1], reference, backward,
    )  # fmt: skip


def normalised(x, group, eps):
    """Each number minus the mean of its group, divided by the root of the group's variance + eps."""
    y = np.zeros(x.shape)
    for members in rows(x, group).values():
        values = [float(x[at]) for at in members]
        mean = math.fsum(values) / len(values)
        variance = math.fsum((v - mean) ** 2 for v in values) / len(values)
        for at in members:
            y[at] = (x[at] - mean) / math.sqrt(variance + eps)
    return y


def group_norm(shape: tuple[int, ...], groups: int) -> Case:
    members = shape[1] // groups
    options = {"groups": groups, "eps": 0.1}

    def backward(b, a, dy, o):
        y, inverse = b.group_norm_forward(a["x"], **options)
        return (b.group_norm_backward(dy, y, inverse, groups=groups, out=o[0]),)

    return Case(
        f"group norm {shape} of {groups}", normal(*shape),
        lambda b, a, o: b.group_norm_forward(a["x"], **options, out=o[0])[:1],
        lambda a: (normalised(a["x"], lambda at: (at[0], at[1] // members), 0.1),), backward,
    )  # fmt: skip


def layer_norm(shape: tuple[int, ...], axis: int) -> Case:
    options = {"axis": axis, "eps": 0.1}
    along = axis % len(shape)

    def backward(b, a, dy, o):
        y, inverse = b.layer_norm_forward(a["x"], **options)
        return (b.layer_norm_backward(dy, y, inverse, axis=axis, out=o[0]),)

    return Case(
        f"layer norm {shape} along axis {axis}", normal(*shape),
        lambda b, a, o: b.layer_norm_forward(a["x"], **options, out=o[0])[:1],
        lambda a: (normalised(a["x"], lambda at: (*at[:along], *at[along + 1 :]), 0.1),), backward,
    )  # fmt: skip


SHAPE = (3, 4, 5)


def reduction(operation: str, axis: int) -> Case:
    options = {"operation": operation, "axis": axis, "coeff": -1.5}
    start = axis % len(SHAPE)
    term = {
        "SUM": lambda v: v,
        "ASUM": abs,
        "SUMSQ": lambda v: v * v,
        "MEAN": lambda v: v / math.prod(SHAPE[start:]),
    }

    def reference(a):
        y = np.zeros(SHAPE[:start])
        for at in np.ndindex(SHAPE):
            y[at[:start]] += -1.5 * term[operation](float(a["x"][at]))
        return (y,)

    return Case(
        f"reduction {operation} from axis {axis}", away(*SHAPE),
        lambda b, a, o: (b.reduction_forward(a["x"], **options, out=o[0]),), reference,
        lambda b, a, dy, o: (b.reduction_backward(dy, a["x"], **options, out=o[0]),),
    )  # fmt: skip


def arg_max(top_k: int, values: bool, axis: int | None) -> Case:
    def best(row):
        # pairs, as Caffe sorts them
        return sorted(((float(v), k) for k, v in enumerate(row)), reverse=True)[:top_k]

    def reference(a):
        x = a["x"]
        if axis is None:
            tops = [best(row) for row in x.reshape(len(x), -1)]
            places = np.array([[k for _, k in top] for top in tops])
            return (
                np.stack(
                    [places, np.array([[v for v, _ in top] for top in tops])][: 1 + values], axis=1
                ),
            )
        return (
            np.apply_along_axis(lambda row: [v if values else k for v, k in best(row)], axis, x),
        )

    return Case(
        f"arg max of {top_k}, values {values}, axis {axis}",
        lambda r: {"x": r.integers(0, 6, SHAPE).astype(np.float64)},
        lambda b, a, o: (b.arg_max(a["x"], top_k=top_k, out_max_val=values, axis=axis, out=o[0]),),
        reference,
    )


def softmax(axis: int) -> Case:
    def reference(a):
        def probabilities(row):
            powers = [math.exp(v - max(row)) for v in row]
            return [p / sum(powers) for p in powers]

        return (np.apply_along_axis(probabilities, axis, a["x"]),)

    return Case(
        f"softmax along axis {axis}",
        normal(3, 4, 2, 5),
        lambda b, a, o: (b.softmax_forward(a["x"], axis, out=o[0]),),
        reference,
        lambda b, a, dy, o: (
            b.softmax_backward(dy, b.softmax_forward(a["x"], axis), axis, out=o[0]),
        ),
    )


def rectified_sums(shape: tuple[int, ...], count: int) -> Case:
    """The gradient of a rectifier from `count` gradients, and its sums per channel."""
    names = ("p", "q")[:count]

    def arrays(r):
        part = {"m": r.standard_normal(shape[1])}
        return {**normal(*shape, p=shape, q=shape, y=shape)(r), **part}

    def reference(a):
        g = sum(a[name].astype(np.float64) for name in names) * (a["y"] > 0)
        sums = np.zeros((2, shape[1]))
        for k, members in rows(g, lambda at: at[1]).items():
            sums[0, k] = math.fsum(g[at] for at in members)
            sums[1, k] = math.fsum(g[at] * (a["x"][at] - a["m"][k]) for at in members)
        return g, *sums

    return Case(
        f"rectified sums of {count} {shape}",
        arrays,
        lambda b, a, o: b.rectified_sums(
            [a[name] for name in names],
            a["y"],
            a["x"],
            a["m"],
            out=o[0],
            out_sums=o[1],
            out_products=o[2],
        ),
        reference,
        tolerance=1e-4,
    )


CASES = [
    *batch_norm(7, 3, 4, 5),
    *batch_norm(13, 2),
    *batch_norm(1, 50, 2, 1),
    *(
        c
        for s in ((7, 3, 4, 5), (13, 20))
        for activation, p in (*((a, False) for a in ACTIVATIONS), (None, True), (RELU, True))
        for c in norm_scale(s, activation, p)
    ),
    *(
        rectified_sums(s, count)
        for s in ((7, 3, 4, 5), (13, 20), (9, 97, 4, 5))
        for count in (1, 2)
    ),
    *(channel_sums(*s) for s in ((7, 3, 4, 5), (13, 50), (1, 1, 1, 2))),
    *(
        mvn(s, across, variance)
        for s in ((7, 3, 4, 5), (1, 1, 9, 1))
        for across in (False, True)
        for variance in (False, True)
    ),
    *(group_norm(*c) for c in (((7, 6, 4, 5), 3), ((7, 6, 4, 5), 1), ((3, 4, 5), 4), ((5, 8), 2))),
    *(layer_norm(*c) for c in (((7, 6, 4, 5), 1), ((3, 4, 5), 1), ((5, 8), 1), ((3, 4, 5), -1))),
    *(
        reduction(operation, axis)
        for operation in ("SUM", "ASUM", "SUMSQ", "MEAN")
        for axis in (0, 1, -1)
    ),
    *(
        arg_max(k, values, axis)
        for k in (1, 3)
        for values in (False, True)
        for axis in (None, 0, 2, -2)
    ),
    *map(softmax, (0, 1, -1)),
    Case(
        "l2 norm",
        normal(7, 3, 50),
        lambda b, a, o: (b.l2_norm_squared(a["x"]),),
        lambda a: (math.fsum(float(v) ** 2 for v in a["x"].flat),),
    ),
]
