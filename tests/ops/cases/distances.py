"""Losses that compare two arrays: sigmoid cross-entropy, Euclidean, contrastive."""

from __future__ import annotations

import math

import numpy as np

from tests.ops.cases.case import Case, each, normal, sigmoid

SHAPE = (7, 3, 2)


def cross_entropy(ignore, normalization) -> Case:
    options = {"ignore_label": ignore, "normalization": normalization}

    def arrays(r):
        targets = (
            np.where(r.random(SHAPE) < 0.3, -1.0, r.random(SHAPE))
            if ignore == -1
            else r.random(SHAPE)
        )
        return {"x": 3 * r.standard_normal(SHAPE), "t": targets}

    def reference(a):
        counted = [
            (sigmoid(float(x)), float(t))
            for x, t in zip(a["x"].flat, a["t"].flat, strict=True)
            if t != ignore
        ]
        total = -sum(t * math.log(p) + (1 - t) * math.log(1 - p) for p, t in counted)
        size = {"VALID": len(counted), "FULL": a["x"].size, "BATCH_SIZE": SHAPE[0], "NONE": 1}[
            normalization
        ]
        return total / size, each(sigmoid, a["x"])

    def backward(b, a, dy, o):
        prob = b.sigmoid_cross_entropy_forward(a["x"], a["t"], **options)[1]
        return (
            b.sigmoid_cross_entropy_backward(prob, a["t"], loss_weight=dy, **options, out=o[0]),
        )

    return Case(
        f"sigmoid cross-entropy {options}",
        arrays,
        lambda b, a, o: b.sigmoid_cross_entropy_forward(a["x"], a["t"], **options, out=o[1]),
        reference,
        backward,
    )


def euclidean() -> Case:
    def backward(b, a, dy, o):
        diff = b.euclidean_forward(a["x"], a["p"])[1]
        return (
            b.euclidean_backward(diff, loss_weight=dy, out=o[0]),
            b.euclidean_backward(diff, loss_weight=-dy, out=o[1]),
        )

    return Case(
        "euclidean",
        normal(*SHAPE, p=SHAPE),
        lambda b, a, o: b.euclidean_forward(a["x"], a["p"], out=o[1]),
        lambda a: (
            sum((float(u) - float(v)) ** 2 for u, v in zip(a["x"].flat, a["p"].flat, strict=True))
            / 14,
            a["x"] - a["p"],
        ),
        backward,
        ("x", "p"),
    )


def contrastive(legacy: bool) -> Case:
    options = {"margin": 2.5, "legacy": legacy}

    def arrays(r):
        return {
            "x": r.standard_normal((13, 3)),
            "p": r.standard_normal((13, 3)),
            "same": r.integers(0, 2, 13),
        }

    def reference(a):
        total = 0.0
        for u, v, same in zip(a["x"], a["p"], a["same"], strict=True):
            square = sum((float(i) - float(j)) ** 2 for i, j in zip(u, v, strict=True))
            if same:
                total += square
            else:
                total += max(2.5 - square, 0) if legacy else max(2.5 - math.sqrt(square), 0) ** 2
        return total / 26, a["x"] - a["p"]

    def backward(b, a, dy, o):
        diff = b.contrastive_forward(a["x"], a["p"], a["same"], **options)[1]
        return tuple(
            b.contrastive_backward(diff, a["same"], loss_weight=sign * dy, **options, out=o[k])
            for k, sign in enumerate((1, -1))
        )

    return Case(
        f"contrastive {options}",
        arrays,
        lambda b, a, o: b.contrastive_forward(a["x"], a["p"], a["same"], **options, out=o[1]),
        reference,
        # the other gradient contains Caffe's 1e-4 and has its own test
        backward if legacy else None,
        ("x", "p"),
    )


CASES = [
    *(
        cross_entropy(*p)
        for p in ((None, "VALID"), (-1, "VALID"), (-1, "FULL"), (None, "BATCH_SIZE"), (-1, "NONE"))
    ),
    euclidean(),
    contrastive(False),
    contrastive(True),
]
