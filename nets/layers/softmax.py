"""Softmax and the losses of class scores (Caffe's `Softmax`, `SoftmaxWithLoss`, `InfogainLoss`),
and `Accuracy`.

Scores are reshaped to (outer, C, inner), with the classes on axis 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError

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
from nets.regular import read_bytes
from nets.schema import caffe_pb2 as caffe
from ops import Array
from ops.reference.soft_loss import no_distribution

HARD = "found with type '{}', which takes no soft labels, expected 0 (SoftmaxWithLoss takes them)"
MOST_COUNTED = 100  # classes for which a test counts which is taken for which
MOST_BYTES = 256 << 20  # an infogain matrix for eight thousand classes


@register("Softmax")
class Softmax(Layer):
    """Scores -> probabilities that sum to 1 over `axis` (default 1)."""

    top_is_free = False
    planned = True
    reads_bottoms = False

    def _shape(self, shapes: list[Shape], setup: Setup) -> list[Shape]:
        self.axis = axis_of(self, "softmax_param.axis", self.proto.softmax_param.axis, shapes[0])
        return [shapes[0]]

    def forward(self, bottoms: list[Array], blobs: Blobs, run: Run) -> list[Array]:
        x = bottoms[0]
        return [self.ops.softmax_forward(x, axis=self.axis, out=self.buffer("top", x.shape))]

    def backward(
        self,
        grads: list[Array | None],
        values: Values,
        run: Run,
        wanted: list[bool],
        out: Blobs | None,
    ) -> Gradients:
        y = values.tops[0]
        dy = grads[0]
        if not wanted[0] or dy is None:
            return [None], ()
        return [
            self.ops.softmax_backward(dy, y, axis=self.axis, out=self.buffer("bottom", y.shape))
        ], ()


class ClassLayer(Layer):
    """A layer that compares scores with labels. The scores have the classes on some axis; the
    labels have the other axes. As in Caffe, only the number of labels must agree.

    If `takes_soft`, labels may have the axis of the classes too: they are then probabilities
    (`soft`), as mixup makes them.
    """

    bottoms = (2, 2)
    scores = True
    labels = 1
    top_is_free = False

    def _fold(self, axis_key: str, axis: int, shapes: list[Shape]) -> None:
        """Set `folded`, the scores' shape as (outer, C, inner), and `label_shape`, (outer, inner)
        or `folded`."""
        scores, labels = shapes[:2]
        at = axis_of(self, axis_key, axis, scores)
        outer = math.prod(scores[:at])
        inner = math.prod(scores[at + 1 :])
        self.classes = scores[at]
        self.folded = (outer, scores[at], inner)
        classes = math.prod(labels) == outer * inner
        # labels (N, C) go with scores (N, C, 1, 1)
        like_scores = labels[: at + 1] == scores[: at + 1] and math.prod(labels) == math.prod(
            scores
        )
        self.soft = self.takes_soft and like_scores and not classes
        if not (classes or self.soft):
            expected = str((*scores[:at], *scores[at + 1 :]))
            if self.takes_soft and self.classes > 1:
                expected += f", or {scores} for probabilities"
            raise self.error(
                "bottom",
                (f"found labels of shape {labels} for scores {scores}, expected {expected}"),
            )
        self.label_shape = self.folded if self.soft else (outer, inner)


class ClassLoss(ClassLayer):
    """A loss of class scores. Its tops are a scalar and, if wanted, the probabilities.

    The gradient of a share of a batch is weighted by the share's fraction of the whole, so that the
    shares add up to the gradient of the whole batch. With ignored labels this holds on average
    only.
    """

    tops = (1, 2)
    default_weight = 1.0
    planned = True
    reads_tops = False

    def needs(self, bottoms: Sequence[Shape], tops: Sequence[Shape], training: bool) -> list[Need]:
        prob = (
            Need("prob", self.folded, TOP, at=1)
            if len(tops) > 1
            else Need("prob", self.folded, SAVED)
        )
        return [prob, Need("bottom", self.folded, GRADIENT)] if training else [prob]

    def _read_loss(self) -> None:
        p = self.proto.loss_param
        self.normalization = caffe.LossParameter.NormalizationMode.Name(p.normalization)
        if p.HasField("normalize") and not p.HasField("normalization"):
            self.normalization = "VALID" if p.normalize else "BATCH_SIZE"
        self.ignore = int(p.ignore_label) if p.HasField("ignore_label") else None
        self.smoothing = float(p.label_smoothing)
        if not 0 <= self.smoothing < 1:
            raise self.error(
                "loss_param.label_smoothing",
                f"found {self.smoothing:g}, expected at least 0 and less than 1",
            )
        if self.smoothing and not self.takes_soft:
            raise self.error("loss_param.label_smoothing", HARD.format(self.proto.type))
        if self.soft and self.ignore is not None:
            raise self.error(
                "loss_param.ignore_label",
                f"found {self.ignore}, but the labels are probabilities, expected no such key",
            )

    def _tops(self, loss: float, shape: Shape) -> list[Array]:
        number = self.number(loss) if self.verdict is None else self.verdict[:1].reshape(())
        return [number, self.prob.reshape(shape)][: len(self.proto.top)]

    def _factor(self, grads: list[Array | None], run: Run) -> float:
        return self.weight(grads) * (1.0 if self.normalization == "NONE" else run.share)

    prob: Array


@register("SoftmaxWithLoss")
class SoftmaxWithLoss(ClassLoss):
    """Scores (N, C, ...), labels (N, ...) -> the mean of -log softmax at the labels. The softmax is
    over `softmax_param.axis`.

    Labels of the scores' shape are probabilities of the classes. `loss_param.label_smoothing` moves
    this share of each label to all classes alike.
    """

    takes_soft = True

    def _shape(self, shapes: list[Shape], setup: Setup) -> list[Shape]:
        self._fold("softmax_param.axis", self.proto.softmax_param.axis, shapes)
        self._read_loss()
        return [(), shapes[0]][: len(self.proto.top)]

    def _operations(self) -> tuple[Callable[..., Any], Callable[..., Array]]:
        """Return the operations of both passes."""
        if not self.soft and not self.smoothing:
            return self.ops.softmax_loss_forward, self.ops.softmax_loss_backward
        return (
            partial(self.ops.soft_loss_forward, smoothing=self.smoothing),
            partial(self.ops.soft_loss_backward, smoothing=self.smoothing),
        )

    def forward(self, bottoms: list[Array], blobs: Blobs, run: Run) -> list[Array]:
        self.verdict = None if self.ops.on_host else self.buffer("verdict", (3,))
        loss, self.prob = self._operations()[0](
            bottoms[0].reshape(self.folded),
            bottoms[1].reshape(self.label_shape),
            ignore_label=self.ignore,
            normalization=self.normalization,
            out=self.buffer("prob", self.folded),
            verdict=self.verdict,
        )
        return self._tops(loss, bottoms[0].shape)

    def backward(
        self,
        grads: list[Array | None],
        values: Values,
        run: Run,
        wanted: list[bool],
        out: Blobs | None,
    ) -> Gradients:
        if not wanted[0]:
            return [None, None], ()
        dx = self._operations()[1](
            self.prob,
            values.bottoms[1].reshape(self.label_shape),
            loss_weight=self._factor(grads, run),
            ignore_label=self.ignore,
            normalization=self.normalization,
            out=self.buffer("bottom", self.folded),
            verdict=self.verdict,
        )
        return [dx.reshape(values.bottoms[0].shape), None], ()

    def told(self, label: float) -> str:
        if math.isnan(label):
            return ""
        if self.soft:
            return no_distribution(label)
        return f"a label is {label:g}, expected a whole number from 0 to {self.classes - 1}"


@register("InfogainLoss")
class InfogainLoss(ClassLoss):
    """The softmax loss, with classes weighted by the label's row of a matrix (C, C). The matrix is
    the third bottom or the file `source`."""

    bottoms = (2, 3)

    def _shape(self, shapes: list[Shape], setup: Setup) -> list[Shape]:
        p = self.proto.infogain_loss_param
        self._fold("infogain_loss_param.axis", p.axis, shapes)
        self._read_loss()
        size = self.classes**2
        found = math.prod(shapes[2]) if len(shapes) == 3 else self._read_matrix(p.source)
        if found != size:
            raise self.error(
                "bottom",
                (f"found an infogain matrix of {found} numbers, expected {size} for the classes"),
            )
        return [(), shapes[0]][: len(self.proto.top)]

    def _read_matrix(self, source: str) -> int:
        """Read the matrix from a binaryproto file and return how many numbers it has."""
        key = "infogain_loss_param.source"
        message = caffe.BlobProto()
        if not source:
            raise self.error(key, "missing, expected a binaryproto file or a third bottom")
        try:
            message.ParseFromString(read_bytes(Path(source), MOST_BYTES))
        except (OSError, DecodeError) as error:
            raise self.error(key, f"found '{source}', which cannot be read: {error}") from None
        self.stored = self.ops.asarray(np.array(message.data or message.double_data, self.dtype))
        return len(self.stored)

    def _matrix(self, bottoms: list[Array]) -> Array:
        return (bottoms[2] if len(bottoms) == 3 else self.stored).reshape(
            self.classes, self.classes
        )

    def forward(self, bottoms: list[Array], blobs: Blobs, run: Run) -> list[Array]:
        loss, self.prob = self.ops.infogain_forward(
            bottoms[0].reshape(self.folded),
            bottoms[1].reshape(self.label_shape),
            self._matrix(bottoms),
            ignore_label=self.ignore,
            normalization=self.normalization,
            out=self.buffer("prob", self.folded),
        )
        return self._tops(loss, bottoms[0].shape)

    def backward(
        self,
        grads: list[Array | None],
        values: Values,
        run: Run,
        wanted: list[bool],
        out: Blobs | None,
    ) -> Gradients:
        rest: list[Array | None] = [None] * (len(values.bottoms) - 1)
        if not wanted[0]:
            return [None, *rest], ()
        dx = self.ops.infogain_backward(
            self.prob,
            values.bottoms[1].reshape(self.label_shape),
            self._matrix(values.bottoms),
            loss_weight=self._factor(grads, run),
            ignore_label=self.ignore,
            normalization=self.normalization,
            out=self.buffer("bottom", self.folded),
        )
        return [dx.reshape(values.bottoms[0].shape), *rest], ()


@register("Accuracy")
class Accuracy(ClassLayer):
    """The fraction of labels that are among the `top_k` best scores. A second top has this fraction
    for each class (0 for a class without labels).

    Labels that are probabilities count as their most probable class.
    """

    tops = (1, 2)
    differentiable = False
    takes_soft = True
    _counts = False  # whether it keeps `_cells`
    _cells: Array | None = None  # the cell of each label that counts (`label_counts`), on the host

    def _shape(self, shapes: list[Shape], setup: Setup) -> list[Shape]:
        p = self.proto.accuracy_param
        self._fold("accuracy_param.axis", p.axis, shapes)
        if not 1 <= p.top_k <= self.classes:
            raise self.error(
                "accuracy_param.top_k",
                (f"found {p.top_k}, expected 1 to {self.classes} (the classes)"),
            )
        self.top_k = int(p.top_k)
        self.ignore = int(p.ignore_label) if p.HasField("ignore_label") else None
        self._counts = setup.phase != "TRAIN" and self.classes <= MOST_COUNTED
        return [(), (self.classes,)][: len(self.proto.top)]

    def forward(self, bottoms: list[Array], blobs: Blobs, run: Run) -> list[Array]:
        scores = bottoms[0].reshape(self.folded)
        labels = bottoms[1].reshape(self.label_shape)
        if self.soft:
            labels = self.ops.xp.argmax(labels, axis=1)
        if self._counts:
            found = self.ops.xp.argmax(scores, axis=1)
            cells = labels.astype(found.dtype) * self.classes + found
            counted = cells if self.ignore is None else cells[labels != self.ignore]
            self._cells = self.ops.to_host(counted.ravel())
        share = self.ops.accuracy(scores, labels, top_k=self.top_k, ignore_label=self.ignore)
        found = [self.number(share)]
        return found if len(self.proto.top) == 1 else [*found, self._by_class(scores, labels)]

    def label_counts(self) -> tuple[int, ...]:
        if self._cells is None:
            return ()
        cells, counts = np.unique(self._cells, return_counts=True)
        return self.classes, *np.stack((cells, counts), axis=1).ravel().tolist()

    def _by_class(self, scores: Array, labels: Array) -> Array:
        """Return the accuracy over the labels of each class."""
        shares = self.buffer("by_class", (self.classes,))
        for label in range(self.classes):
            own = labels == label
            rows = self.ops.xp.moveaxis(scores, 1, 2)[own]
            counts = len(rows) > 0 and label != self.ignore
            shares[label] = (
                self.ops.accuracy(rows, labels[own], top_k=self.top_k) if counts else 0.0
            )
        return shares
