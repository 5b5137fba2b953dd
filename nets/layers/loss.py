"""Losses that compare blobs number by number or pair by pair (Caffe's `SigmoidCrossEntropyLoss`,
`EuclideanLoss`, ...).

The gradient of a share of a batch is weighted by the share's fraction of the whole batch, so that
the shares add up. Losses over a class axis are in `softmax`.
"""

import math
from typing import ClassVar

from nets.layers.base import Blobs, Gradients, Layer, Run, Setup, Shape, Values, register
from nets.schema import caffe_pb2 as caffe
from ops import Array


class Loss(Layer):
    """A loss: its top is a scalar. The second of its two bottoms has labels or targets."""

    bottoms = (2, 2)
    scores = True
    default_weight = 1.0
    top_is_free = False
    labels: ClassVar[int | None] = 1

    def _rows(self, shapes: list[Shape]) -> Shape:
        """Return the first bottom's shape as (N, D)."""
        if not shapes[0]:
            raise self.error("bottom", "found a single number, expected (N, ...)")
        return shapes[0][0], math.prod(shapes[0][1:])

    def _same_size(self, shapes: list[Shape], expected: Shape) -> None:
        if math.prod(shapes[1]) != math.prod(expected):
            raise self.error(
                "bottom",
                (f"found shapes {shapes[0]} and {shapes[1]}, expected the second as {expected}"),
            )


@register("SigmoidCrossEntropyLoss")
class SigmoidCrossEntropyLoss(Loss):
    """-(t log p + (1 - t) log(1 - p)) with p = sigmoid(scores) and t in [0, 1]. The sum is divided
    by N unless `loss_param` chooses another normalization."""

    takes_soft = True

    def _shape(self, shapes: list[Shape], setup: Setup) -> list[Shape]:
        p = self.proto.loss_param
        self._rows(shapes)
        self._same_size(shapes, shapes[0])
        self.normalization = caffe.LossParameter.NormalizationMode.Name(p.normalization)
        if not p.HasField("normalization"):
            self.normalization = "VALID" if p.normalize else "BATCH_SIZE"
        self.ignore = int(p.ignore_label) if p.HasField("ignore_label") else None
        if p.label_smoothing:
            raise self.error(
                "loss_param.label_smoothing",
                f"found {p.label_smoothing:g}, expected 0: give smoothed targets instead",
            )
        return [()]

    def forward(self, bottoms: list[Array], blobs: Blobs, run: Run) -> list[Array]:
        x = bottoms[0]
        loss, self.prob = self.ops.sigmoid_cross_entropy_forward(
            x,
            bottoms[1].reshape(x.shape),
            ignore_label=self.ignore,
            normalization=self.normalization,
            out=self.buffer("prob", x.shape),
        )
        return [self.number(loss)]

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
        x = values.bottoms[0]
        share = 1.0 if self.normalization == "NONE" else run.share
        dx = self.ops.sigmoid_cross_entropy_backward(
            self.prob,
            values.bottoms[1].reshape(x.shape),
            loss_weight=self.weight(grads) * share,
            ignore_label=self.ignore,
            normalization=self.normalization,
            out=self.buffer("bottom", x.shape),
        )
        return [dx, None], ()


@register("EuclideanLoss")
class EuclideanLoss(Loss):
    """The sum of (a - b)^2 / 2N. Both bottoms get a gradient."""

    takes_soft = True
    labels = None

    def _shape(self, shapes: list[Shape], setup: Setup) -> list[Shape]:
        self._rows(shapes)
        self._same_size(shapes, shapes[0])
        return [()]

    def forward(self, bottoms: list[Array], blobs: Blobs, run: Run) -> list[Array]:
        a = bottoms[0]
        loss, self.diff = self.ops.euclidean_forward(
            a, bottoms[1].reshape(a.shape), out=self.buffer("diff", a.shape)
        )
        return [self.number(loss)]

    def backward(
        self,
        grads: list[Array | None],
        values: Values,
        run: Run,
        wanted: list[bool],
        out: Blobs | None,
    ) -> Gradients:
        factor = self.weight(grads) * run.share
        found: list[Array | None] = []
        for at, sign in enumerate((1.0, -1.0)):
            into = self.buffer(f"bottom{at}", self.diff.shape) if wanted[at] else None
            grad = (
                self.ops.euclidean_backward(self.diff, loss_weight=sign * factor, out=into)
                if wanted[at]
                else None
            )
            found.append(None if grad is None else grad.reshape(values.bottoms[at].shape))
        return found, ()


@register("HingeLoss")
class HingeLoss(Loss):
    """max(0, 1 - s) for the score of the label, max(0, 1 + s) for all other scores, or (`norm: L2`)
    the squares of these. The sum is divided by N."""

    def _shape(self, shapes: list[Shape], setup: Setup) -> list[Shape]:
        self.rows = self._rows(shapes)
        self.classes = self.rows[1]
        self._same_size(shapes, self.rows[:1])
        self.norm = caffe.HingeLossParameter.Norm.Name(self.proto.hinge_loss_param.norm)
        return [()]

    def forward(self, bottoms: list[Array], blobs: Blobs, run: Run) -> list[Array]:
        scores = bottoms[0].reshape(self.rows)
        labels = bottoms[1].reshape(self.rows[0])
        into = self.buffer("margins", self.rows)
        loss, self.margins = self.ops.hinge_forward(scores, labels, norm=self.norm, out=into)
        return [self.number(loss)]

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
        dx = self.ops.hinge_backward(
            self.margins, values.bottoms[1].reshape(self.rows[0]), norm=self.norm,
            loss_weight=self.weight(grads) * run.share, out=self.buffer("bottom", self.rows),
        )  # fmt: skip
        return [dx.reshape(values.bottoms[0].shape), None], ()


@register("MultinomialLogisticLoss")
class MultinomialLogisticLoss(Loss):
    """-log of the label's probability, divided by N. The first bottom has probabilities (N, C)."""

    def _shape(self, shapes: list[Shape], setup: Setup) -> list[Shape]:
        self.rows = self._rows(shapes)
        self.classes = self.rows[1]
        self._same_size(shapes, self.rows[:1])
        return [()]

    def forward(self, bottoms: list[Array], blobs: Blobs, run: Run) -> list[Array]:
        prob = bottoms[0].reshape(self.rows)
        labels = bottoms[1].reshape(self.rows[0])
        return [self.number(self.ops.multinomial_logistic_forward(prob, labels))]

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
        prob = values.bottoms[0].reshape(self.rows)
        labels = values.bottoms[1].reshape(self.rows[0])
        dx = self.ops.multinomial_logistic_backward(
            prob,
            labels,
            loss_weight=self.weight(grads) * run.share,
            out=self.buffer("bottom", self.rows),
        )
        return [dx.reshape(values.bottoms[0].shape), None], ()


@register("ContrastiveLoss")
class ContrastiveLoss(Loss):
    """d^2 for pairs (N, C) that the third bottom marks as similar, max(margin - d, 0)^2 for the
    others. The sum is divided by 2N.

    With `legacy_version`, dissimilar pairs count max(margin - d^2, 0). Hadsell et al. 2006 has the
    former.
    """

    bottoms = (3, 3)
    labels = 2

    def _shape(self, shapes: list[Shape], setup: Setup) -> list[Shape]:
        p = self.proto.contrastive_loss_param
        self.rows = self._rows(shapes)
        self._same_size(shapes, shapes[0])
        if math.prod(shapes[2]) != self.rows[0]:
            raise self.error(
                "bottom",
                (f"found {shapes[2]} for the third, expected {self.rows[:1]}, one per pair"),
            )
        self.margin = float(p.margin)
        self.legacy = p.legacy_version
        return [()]

    def forward(self, bottoms: list[Array], blobs: Blobs, run: Run) -> list[Array]:
        a, b = (x.reshape(self.rows) for x in bottoms[:2])
        loss, self.diff = self.ops.contrastive_forward(
            a,
            b,
            bottoms[2].reshape(-1),
            margin=self.margin,
            legacy=self.legacy,
            out=self.buffer("diff", self.rows),
        )
        return [self.number(loss)]

    def backward(
        self,
        grads: list[Array | None],
        values: Values,
        run: Run,
        wanted: list[bool],
        out: Blobs | None,
    ) -> Gradients:
        factor = self.weight(grads) * run.share
        found = []
        for at, sign in enumerate((1.0, -1.0)):
            grad = self._gradient(values, sign * factor, at) if wanted[at] else None
            found.append(grad)
        return [*found, None], ()

    def _gradient(self, values: Values, factor: float, at: int) -> Array:
        similar = values.bottoms[2].reshape(-1)
        into = self.buffer(f"bottom{at}", self.rows)
        grad = self.ops.contrastive_backward(
            self.diff, similar, margin=self.margin, legacy=self.legacy, loss_weight=factor, out=into
        )
        return grad.reshape(values.bottoms[at].shape)
