"""Softmax, its loss, and accuracy (Caffe's `Softmax`, `SoftmaxWithLoss`, `Accuracy`), over axis 1.

What lives here: their options and how a share of a batch is weighted. What never: the arithmetic (`ops`).
"""

import math

from nets.layers.base import Blobs, Gradients, Layer, Run, Setup, Shape, Values, register
from nets.schema import caffe_pb2 as caffe
from ops import Array


@register("Softmax")
class Softmax(Layer):
    """scores (N, C, ...) -> probabilities that sum to 1 over axis 1."""

    top_is_free = False

    def _shape(self, shapes: list[Shape], setup: Setup) -> list[Shape]:
        _check_axis(self, "softmax_param.axis", self.proto.softmax_param.axis, shapes[0])
        return [shapes[0]]

    def forward(self, bottoms: list[Array], blobs: Blobs, run: Run) -> list[Array]:
        return [self.ops.softmax_forward(bottoms[0], out=self.buffer("top", bottoms[0].shape))]

    def backward(
        self, grads: list[Array | None], values: Values, run: Run, wanted: list[bool], out: Blobs | None
    ) -> Gradients:
        y, dy, xp = values.tops[0], grads[0], self.ops.xp
        if not wanted[0] or dy is None:
            return [None], ()
        dx = xp.multiply(dy, y, out=self.buffer("bottom", y.shape))
        dx -= y * dx.sum(axis=1, keepdims=True)
        return [dx], ()


@register("SoftmaxWithLoss")
class SoftmaxWithLoss(Layer):
    """scores (N, C, ...), labels (N, ...) -> mean loss (a scalar) and, as second top, the probabilities.

    The gradient of a share of a batch is weighted by its part of the whole, so that shares add up to the
    whole
    batch's gradient. With ignored labels this holds on average only.
    """

    bottoms, tops = (2, 2), (1, 2)
    scores, default_weight, labels, top_is_free = True, 1.0, 1, False

    def _shape(self, shapes: list[Shape], setup: Setup) -> list[Shape]:
        p = self.proto.loss_param
        _check_axis(self, "softmax_param.axis", self.proto.softmax_param.axis, shapes[0])
        self.label_shape = _label_shape(self, shapes)
        self.normalization = caffe.LossParameter.NormalizationMode.Name(p.normalization)
        if p.HasField("normalize") and not p.HasField("normalization"):
            self.normalization = "VALID" if p.normalize else "BATCH_SIZE"
        self.ignore = int(p.ignore_label) if p.HasField("ignore_label") else None
        return [(), shapes[0]][: len(self.proto.top)]

    def forward(self, bottoms: list[Array], blobs: Blobs, run: Run) -> list[Array]:
        scores, labels = bottoms[0], bottoms[1].reshape(self.label_shape)
        loss, self.prob = self.ops.softmax_loss_forward(
            scores, labels, ignore_label=self.ignore, normalization=self.normalization,
            out=self.buffer("prob", scores.shape),
        )  # fmt: skip
        return [self.ops.asarray(loss, self.dtype), self.prob][: len(self.proto.top)]

    def backward(
        self, grads: list[Array | None], values: Values, run: Run, wanted: list[bool], out: Blobs | None
    ) -> Gradients:
        if not wanted[0]:
            return [None, None], ()
        share = 1.0 if self.normalization == "NONE" else run.share
        dx = self.ops.softmax_loss_backward(
            self.prob, values.bottoms[1].reshape(self.label_shape), loss_weight=self.loss_weight * share,
            ignore_label=self.ignore, normalization=self.normalization, out=self.buffer("bottom", self.prob.shape),
        )  # fmt: skip
        return [dx, None], ()


@register("Accuracy")
class Accuracy(Layer):
    """scores (N, C, ...), labels (N, ...) -> share of labels among the `top_k` best scores (a scalar)."""

    bottoms = (2, 2)
    scores, differentiable, labels = True, False, 1

    def _shape(self, shapes: list[Shape], setup: Setup) -> list[Shape]:
        p = self.proto.accuracy_param
        _check_axis(self, "accuracy_param.axis", p.axis, shapes[0])
        self.label_shape = _label_shape(self, shapes)
        if not 1 <= p.top_k <= shapes[0][1]:
            raise self.error("accuracy_param.top_k", f"found {p.top_k}, expected 1 to {shapes[0][1]} (the classes)")
        self.top_k = int(p.top_k)
        self.ignore = int(p.ignore_label) if p.HasField("ignore_label") else None
        return [()]

    def forward(self, bottoms: list[Array], blobs: Blobs, run: Run) -> list[Array]:
        labels = bottoms[1].reshape(self.label_shape)
        share = self.ops.accuracy(bottoms[0], labels, top_k=self.top_k, ignore_label=self.ignore)
        return [self.ops.asarray(share, self.dtype)]

    def backward(
        self, grads: list[Array | None], values: Values, run: Run, wanted: list[bool], out: Blobs | None
    ) -> Gradients:
        return [None, None], ()


def _check_axis(layer: Layer, key: str, axis: int, shape: Shape) -> None:
    if len(shape) < 2:
        raise layer.error("bottom", f"found shape {shape}, expected scores (N, C, ...)")
    if axis % len(shape) != 1:
        raise layer.error(key, f"found {axis}, only axis 1 is supported")


def _label_shape(layer: Layer, shapes: list[Shape]) -> Shape:
    """Return the shape labels are read in, (N, ...) without axis 1; as in Caffe only their number has to agree."""
    scores, labels = shapes
    expected = (scores[0], *scores[2:])
    if math.prod(labels) != math.prod(expected):
        raise layer.error("bottom", f"found labels of shape {labels} for scores {scores}, expected {expected}")
    return expected
