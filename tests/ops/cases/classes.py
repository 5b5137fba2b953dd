"""Losses that read labels as class numbers: softmax, infogain, multinomial logistic, hinge; and
accuracy."""

from __future__ import annotations

import math

import numpy as np

from tests.ops.cases.case import Case

SHAPES = [(1, 2), (13, 10), (3, 4, 2, 5)]


def examples(scores, labels):
    """Yield (position, class scores, label) for each label."""
    for at in np.ndindex(labels.shape):
        yield (
            at,
            [float(scores[(at[0], c, *at[1:])]) for c in range(scores.shape[1])],
            int(labels[at]),
        )


def softmax(row):
    powers = [math.exp(v - max(row)) for v in row]
    return [p / sum(powers) for p in powers]


def divisor(labels, ignore, normalization) -> float:
    counted = sum(int(v) != ignore for v in labels.flat)
    return {"VALID": max(counted, 1), "FULL": labels.size, "BATCH_SIZE": len(labels), "NONE": 1}[
        normalization
    ]


def labelled(shape, dtype=np.int64):
    def arrays(r):
        labels = r.integers(0, shape[1], (shape[0], *shape[2:])).astype(dtype)
        return {
            "x": 3 * r.standard_normal(shape),
            "labels": labels,
            "h": r.random((shape[1], shape[1])),
        }

    return arrays


def softmax_loss(shape, ignore, normalization) -> Case:
    options = {"ignore_label": ignore, "normalization": normalization}

    def reference(a):
        total = 0.0
        prob = np.zeros(shape)
        for at, row, label in examples(a["x"], a["labels"]):
            p = softmax(row)
            prob[(at[0], slice(None), *at[1:])] = p
            total -= 0 if label == ignore else math.log(p[label])
        return total / divisor(a["labels"], ignore, normalization), prob

    def backward(b, a, dy, o):
        prob = b.softmax_forward(a["x"])
        return (b.softmax_loss_backward(prob, a["labels"], loss_weight=dy, **options, out=o[0]),)

    return Case(
        f"softmax loss {shape} {options}",
        labelled(shape, np.float64),
        lambda b, a, o: b.softmax_loss_forward(a["x"], a["labels"], **options, out=o[1]),
        reference,
        backward,
    )


def soft_loss(shape, ignore, normalization, smoothing, soft) -> Case:
    options = {"ignore_label": ignore, "normalization": normalization, "smoothing": smoothing}
    classes = shape[1]

    def arrays(r):
        drawn = labelled(shape, np.float64)(r)
        if soft:
            shares = r.random(shape) + 0.01
            drawn["labels"] = shares / shares.sum(axis=1, keepdims=True)
        return drawn

    def target(labels, at):
        own = labels[(at[0], slice(None), *at[1:])] if soft else np.arange(classes) == labels[at]
        return [(1 - smoothing) * float(q) + smoothing / classes for q in own]

    def reference(a):
        total = 0.0
        prob = np.zeros(shape)
        places = np.zeros((shape[0], *shape[2:])) if soft else a["labels"]
        for at, row, label in examples(a["x"], places):
            p = softmax(row)
            prob[(at[0], slice(None), *at[1:])] = p
            if label != ignore:
                t = target(a["labels"], at)
                total -= sum(share * math.log(v) for share, v in zip(t, p, strict=True))
        return total / divisor(places, ignore, normalization), prob

    def backward(b, a, dy, o):
        prob = b.softmax_forward(a["x"])
        return (b.soft_loss_backward(prob, a["labels"], loss_weight=dy, **options, out=o[0]),)

    return Case(
        f"softmax loss of {'soft' if soft else 'smoothed'} labels {shape} {options}",
        arrays,
        lambda b, a, o: b.soft_loss_forward(a["x"], a["labels"], **options, out=o[1]),
        reference,
        backward,
    )


def infogain(shape, ignore, normalization) -> Case:
    options = {"ignore_label": ignore, "normalization": normalization}

    def reference(a):
        total = 0.0
        prob = np.zeros(shape)
        for at, row, label in examples(a["x"], a["labels"]):
            p = softmax(row)
            prob[(at[0], slice(None), *at[1:])] = p
            if label != ignore:
                total -= sum(
                    float(a["h"][label, c]) * math.log(max(v, 1e-20)) for c, v in enumerate(p)
                )
        return total / divisor(a["labels"], ignore, normalization), prob

    def backward(b, a, dy, o):
        prob = b.softmax_forward(a["x"])
        return (
            b.infogain_backward(prob, a["labels"], a["h"], loss_weight=dy, **options, out=o[0]),
        )

    return Case(
        f"infogain {shape} {options}",
        labelled(shape),
        lambda b, a, o: b.infogain_forward(a["x"], a["labels"], a["h"], **options, out=o[1]),
        reference,
        backward,
    )


def multinomial(shape) -> Case:
    def arrays(r):
        return {**labelled(shape)(r), "x": r.random(shape) + 0.05}

    return Case(
        f"multinomial logistic {shape}",
        arrays,
        lambda b, a, o: (b.multinomial_logistic_forward(a["x"], a["labels"]),),
        lambda a: (
            -sum(math.log(row[k]) for _, row, k in examples(a["x"], a["labels"])) / shape[0],
        ),
        lambda b, a, dy, o: (
            b.multinomial_logistic_backward(a["x"], a["labels"], loss_weight=dy, out=o[0]),
        ),
    )


def hinge(shape, norm) -> Case:
    def reference(a):
        margins = np.zeros(shape)
        for at, row, label in examples(a["x"], a["labels"]):
            ends = [max(0.0, 1 - v if c == label else 1 + v) for c, v in enumerate(row)]
            margins[(at[0], slice(None), *at[1:])] = ends
        return sum(float(v) ** (1 if norm == "L1" else 2) for v in margins.flat) / shape[0], margins

    def backward(b, a, dy, o):
        margins = b.hinge_forward(a["x"], a["labels"], norm=norm)[1]
        return (b.hinge_backward(margins, a["labels"], norm=norm, loss_weight=dy, out=o[0]),)

    return Case(
        f"hinge {shape} {norm}",
        labelled(shape),
        lambda b, a, o: b.hinge_forward(a["x"], a["labels"], norm=norm, out=o[1]),
        reference,
        backward,
    )


def accuracy(shape, ignore, top_k) -> Case:
    def arrays(r):
        labels = labelled(shape)(r)["labels"]
        labels[0] = 0  # at least one label is then not ignored
        return {"x": r.integers(0, 4, shape).astype(np.float64), "labels": labels}

    def reference(a):
        rows = [(row, k) for _, row, k in examples(a["x"], a["labels"]) if k != ignore]
        return (sum(sum(s >= row[k] for s in row) - 1 < top_k for row, k in rows) / len(rows),)

    return Case(
        f"accuracy {shape} top {top_k} ignoring {ignore}",
        arrays,
        lambda b, a, o: (b.accuracy(a["x"], a["labels"], top_k=top_k, ignore_label=ignore),),
        reference,
    )


NORMALIZATIONS = [(None, "VALID"), (1, "VALID"), (1, "FULL"), (1, "BATCH_SIZE"), (0, "NONE")]
CASES = [
    *(
        make(s, ignore, norm)
        for make in (softmax_loss, infogain)
        for s in SHAPES
        for ignore, norm in NORMALIZATIONS
    ),
    softmax_loss((13, 10, 1), 1, "VALID"),
    softmax_loss((13, 97), None, "VALID"),
    *(soft_loss(s, ignore, norm, 0.2, False) for s in SHAPES for ignore, norm in NORMALIZATIONS),
    *(soft_loss(s, None, "VALID", e, True) for s in SHAPES for e in (0.0, 0.2)),
    *(soft_loss((3, 4, 2, 5), None, norm, 0.2, True) for norm in ("FULL", "BATCH_SIZE", "NONE")),
    *map(multinomial, SHAPES),
    *(hinge(s, norm) for s in SHAPES for norm in ("L1", "L2")),
    *(accuracy(s, ignore, k) for s in SHAPES for ignore in (None, 1) for k in (1, 2)),
]
