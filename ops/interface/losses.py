"""Softmax, losses and accuracy. A loss is a float; a backward method returns loss_weight times the
gradient."""

from __future__ import annotations

from typing import Any

from ops.errors import Array
from ops.reference import class_loss, distance_loss, loss, soft_loss


class LossOps:
    """Softmax, its loss and the other losses of Caffe."""

    xp: Any

    def softmax_forward(self, scores: Array, axis: int = 1, out: Array | None = None) -> Array:
        """Probabilities that sum to one over `axis`; out may be scores."""
        return loss.softmax_forward(self.xp, scores, axis, out)

    def softmax_backward(
        self, dy: Array, prob: Array, axis: int = 1, out: Array | None = None
    ) -> Array:
        """prob * (dy - sum of dy * prob over `axis`)."""
        return loss.softmax_backward(self.xp, dy, prob, axis, out)

    def softmax_loss_forward(
        self, scores: Array, labels: Array, *,
        ignore_label: int | None = None, normalization: str = "VALID", out: Array | None = None,
        verdict: Array | None = None,
    ) -> tuple[float, Array]:  # fmt: skip
        """scores (N, C, ...), labels (N, ...) -> (loss, probabilities).

        The sum of losses is divided by the number of labels that count (VALID), of all labels
        (FULL), by N (BATCH_SIZE) or by 1 (NONE). `verdict` (3,) is a destination for three numbers:
        the loss, a label that is not a class (else NaN), and the divisor of the sum. With it a
        device's backend does not wait for the device, and returns 0 as the loss.
        """
        return loss.loss_forward(self.xp, scores, labels, ignore_label, normalization, out, verdict)

    def softmax_loss_backward(
        self, prob: Array, labels: Array, *, loss_weight: float = 1.0,
        ignore_label: int | None = None, normalization: str = "VALID", out: Array | None = None,
        verdict: Array | None = None,
    ) -> Array:  # fmt: skip
        """The gradient of the loss by the scores, times loss_weight; zero where the label is
        ignored. out may be prob.

        `verdict` is the array that the forward pass wrote, if it had one.
        """
        return loss.loss_backward(
            self.xp, prob, labels, loss_weight, ignore_label, normalization, out
        )

    def soft_loss_forward(
        self, scores: Array, labels: Array, *, smoothing: float = 0.0,
        ignore_label: int | None = None, normalization: str = "VALID", out: Array | None = None,
        verdict: Array | None = None,
    ) -> tuple[float, Array]:  # fmt: skip
        """The softmax loss against t = (1 - smoothing) q + smoothing / C -> (loss, probabilities).

        Labels of the scores' shape are the probabilities q; other labels are classes, as in
        softmax_loss_forward. `verdict` is used as there; its second number is negative or a sum if
        labels are probabilities.
        """
        return soft_loss.forward(
            self.xp, scores, labels, smoothing, ignore_label, normalization, out, verdict
        )

    def soft_loss_backward(
        self, prob: Array, labels: Array, *, smoothing: float = 0.0, loss_weight: float = 1.0,
        ignore_label: int | None = None, normalization: str = "VALID", out: Array | None = None,
        verdict: Array | None = None,
    ) -> Array:  # fmt: skip
        """The gradient of the loss by the scores, times loss_weight. out may be prob. `verdict` is
        the array that the forward pass wrote, if it had one."""
        return soft_loss.backward(
            self.xp,
            prob,
            labels,
            smoothing,
            loss_weight,
            ignore_label,
            normalization,
            out,
            verdict,
        )

    def accuracy(
        self, scores: Array, labels: Array, *, top_k: int = 1, ignore_label: int | None = None
    ) -> float:
        """The share of labels that are among the top_k scores; ties count against the label. NaN if
        no label counts."""
        return loss.accuracy(self.xp, scores, labels, top_k, ignore_label)

    def sigmoid_cross_entropy_forward(
        self,
        scores: Array,
        targets: Array,
        *,
        ignore_label: int | None = None,
        normalization: str = "VALID",
        out: Array | None = None,
    ) -> tuple[float, Array]:
        """targets in [0, 1], of the scores' shape -> (loss, sigmoid(scores))."""
        return distance_loss.sigmoid_cross_entropy_forward(
            self.xp, scores, targets, ignore_label, normalization, out
        )

    def sigmoid_cross_entropy_backward(
        self,
        prob: Array,
        targets: Array,
        *,
        loss_weight: float = 1.0,
        ignore_label: int | None = None,
        normalization: str = "VALID",
        out: Array | None = None,
    ) -> Array:
        """dscores; zero where the target is ignored. out may be prob."""
        return distance_loss.sigmoid_cross_entropy_backward(
            self.xp, prob, targets, loss_weight, ignore_label, normalization, out
        )

    def euclidean_forward(
        self, a: Array, b: Array, out: Array | None = None
    ) -> tuple[float, Array]:
        """Sum of (a - b)^2 / 2N -> (loss, a - b)."""
        return distance_loss.euclidean_forward(self.xp, a, b, out)

    def euclidean_backward(
        self, diff: Array, *, loss_weight: float = 1.0, out: Array | None = None
    ) -> Array:
        """da; give -loss_weight for db."""
        return distance_loss.euclidean_backward(self.xp, diff, loss_weight, out)

    def hinge_forward(
        self, scores: Array, labels: Array, *, norm: str = "L1", out: Array | None = None
    ) -> tuple[float, Array]:
        """One-against-all hinge over axis 1, margins summed (L1) or squared (L2), over N -> (loss,
        margins)."""
        return distance_loss.hinge_forward(self.xp, scores, labels, norm, out)

    def hinge_backward(
        self,
        margins: Array,
        labels: Array,
        *,
        norm: str = "L1",
        loss_weight: float = 1.0,
        out: Array | None = None,
    ) -> Array:
        """dscores from the margins. out may be margins."""
        return distance_loss.hinge_backward(self.xp, margins, labels, norm, loss_weight, out)

    def contrastive_forward(
        self,
        a: Array,
        b: Array,
        similar: Array,
        *,
        margin: float = 1.0,
        legacy: bool = False,
        out: Array | None = None,
    ) -> tuple[float, Array]:
        """Pairs (N, C), similar (N,) -> (loss, a - b)."""
        return distance_loss.contrastive_forward(self.xp, a, b, similar, margin, legacy, out)

    def contrastive_backward(
        self,
        diff: Array,
        similar: Array,
        *,
        margin: float = 1.0,
        legacy: bool = False,
        loss_weight: float = 1.0,
        out: Array | None = None,
    ) -> Array:
        """da; give -loss_weight for db."""
        return distance_loss.contrastive_backward(
            self.xp, diff, similar, margin, legacy, loss_weight, out
        )

    def multinomial_logistic_forward(self, prob: Array, labels: Array) -> float:
        """-log of the labels' probabilities, prob (N, C, ...), over N."""
        return class_loss.multinomial_logistic_forward(self.xp, prob, labels)

    def multinomial_logistic_backward(
        self, prob: Array, labels: Array, *, loss_weight: float = 1.0, out: Array | None = None
    ) -> Array:
        """dprob."""
        return class_loss.multinomial_logistic_backward(self.xp, prob, labels, loss_weight, out)

    def infogain_forward(
        self,
        scores: Array,
        labels: Array,
        matrix: Array,
        *,
        ignore_label: int | None = None,
        normalization: str = "VALID",
        out: Array | None = None,
    ) -> tuple[float, Array]:
        """Softmax loss weighted by the label's row of matrix (C, C) -> (loss, probabilities)."""
        return class_loss.infogain_forward(
            self.xp, scores, labels, matrix, ignore_label, normalization, out
        )

    def infogain_backward(
        self,
        prob: Array,
        labels: Array,
        matrix: Array,
        *,
        loss_weight: float = 1.0,
        ignore_label: int | None = None,
        normalization: str = "VALID",
        out: Array | None = None,
    ) -> Array:
        """dscores; zero where the label is ignored. out may be prob."""
        return class_loss.infogain_backward(
            self.xp, prob, labels, matrix, loss_weight, ignore_label, normalization, out
        )
