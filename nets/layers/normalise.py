"""Normalisation across or within channels, over a batch or over an image (Caffe's `LRN`,
`BatchNorm`, `MVN`).

Here are the options and the running statistics. Learned scale and bias are in `affine`.
"""

from collections.abc import Sequence
from typing import Any

from nets.layers.base import (
    SAVED,
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
from nets.layers.windows import image
from nets.schema import caffe_pb2 as caffe
from ops import Array


@register("LRN")
class LRN(Layer):
    """x / (k + alpha / n * sum of squares) ^ beta. The sum runs over `local_size` channels, or over
    a square within a channel."""

    top_is_free = False
    planned = True
    replayable = True

    def holds_bfloat16(self, bottom: int | None = None) -> bool:
        return "lrn" in self.ops.more_bfloat16

    def needs(self, bottoms: Sequence[Shape], tops: Sequence[Shape], training: bool) -> list[Need]:
        return [*super().needs(bottoms, tops, training), Need("scale", tops[0], SAVED)]

    def _shape(self, shapes: list[Shape], setup: Setup) -> list[Shape]:
        p = self.proto.lrn_param
        if p.local_size % 2 == 0:
            raise self.error(
                "lrn_param.local_size", (f"found {p.local_size}, expected an odd number")
            )
        self.size = int(p.local_size)
        self.alpha = float(p.alpha)
        self.beta = float(p.beta)
        self.k = float(p.k)
        self.region = caffe.LRNParameter.NormRegion.Name(p.norm_region)
        return [image(self, shapes[0])]

    def forward(self, bottoms: list[Array], blobs: Blobs, run: Run) -> list[Array]:
        x = bottoms[0]
        y, self.scale = self.ops.lrn_forward(
            x, size=self.size, alpha=self.alpha, beta=self.beta, k=self.k, region=self.region,
            out=self.buffer("top", x.shape), scale=self.buffer("scale", x.shape),
        )  # fmt: skip
        return [y]

    def backward(
        self,
        grads: list[Array | None],
        values: Values,
        run: Run,
        wanted: list[bool],
        out: Blobs | None,
    ) -> Gradients:
        x = values.bottoms[0]
        y = values.tops[0]
        dy = grads[0]
        if not wanted[0] or dy is None:
            return [None], ()
        dx = self.ops.lrn_backward(
            dy,
            x,
            y,
            self.scale,
            size=self.size,
            alpha=self.alpha,
            beta=self.beta,
            region=self.region,
            out=self.buffer("bottom", x.shape),
        )
        return [dx], ()


@register("BatchNorm")
class BatchNorm(Layer):
    """(x - mean) / sqrt(variance + eps) per channel of (N, C, ...). Training uses the statistics of
    the batch, test uses running ones.

    Its three blobs are Caffe's: the sum of means, the sum of unbiased variances, and their weight.
    A frozen layer uses the running ones in training too, and they stay as they are. Each update
    multiplies them by `moving_average_fraction` first. They are statistics
    (ParamSpec.keep): backward returns the terms that this pass adds, and the update rule of the
    parameter store applies them. Workers that share a batch each normalise by their own rows, as
    Caffe does on several GPUs. The statistics are then the average over these workers.
    """

    top_is_free = False
    planned = True
    replayable = True
    reads_bottoms = False
    takes_bfloat16 = True

    def hand_on(self) -> None:
        """Leave the work to the Scale above, which reads `statistics`."""
        self.views = self.passes_gradient = True
        self.reads_tops = False

    def needs(self, bottoms: Sequence[Shape], tops: Sequence[Shape], training: bool) -> list[Need]:
        return [] if self.views else super().needs(bottoms, tops, training)

    def _shape(self, shapes: list[Shape], setup: Setup) -> list[Shape]:
        p = self.proto.batch_norm_param
        shape = shapes[0]
        if len(shape) < 2:
            raise self.error("bottom", f"found shape {shape}, expected (N, C, ...)")
        told = p.use_global_stats if p.HasField("use_global_stats") else setup.phase == "TEST"
        self.fixed = self.frozen or told
        self.eps = float(p.eps)
        keep = 1.0 if self.fixed else float(p.moving_average_fraction)
        for name, size in (("mean", shape[1]), ("variance", shape[1]), ("weight", 1)):
            self.declare_statistic(name, (size,), keep)
        return [shape]

    def forward(self, bottoms: list[Array], blobs: Blobs, run: Run) -> list[Array]:
        x = bottoms[0]
        self.mean, self.variance = (self.buffer(key, x.shape[1:2]) for key in ("mean", "variance"))
        if self.fixed:
            self.ops.norm_running(blobs, self.mean, self.variance)
        if self.views:
            return [x]
        y, _, _ = self.ops.batch_norm_forward(
            x, eps=self.eps, out=self.buffer("top", x.shape), **self.statistics
        )
        return [y]

    @property
    def statistics(self) -> dict[str, Any]:
        """The arguments that give an operation the mean and variance, or the arrays to write them
        to."""
        if self.fixed:
            return {"statistics": (self.mean, self.variance)}
        return {"mean": self.mean, "variance": self.variance}

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
        dx = None
        if self.views:
            dx = dy
        elif wanted[0] and dy is not None:
            dx = self.ops.batch_norm_backward(
                dy,
                y,
                self.variance,
                eps=self.eps,
                fixed=self.fixed,
                out=self.buffer("bottom", y.shape),
            )
        return [dx], self._added(y, run.share, out)

    def _added(self, y: Array, share: float, out: Blobs | None) -> tuple[Array, ...]:
        """Return the terms that this pass adds to mean, variance and weight. They are zero where
        the statistics are fixed."""
        share = 0.0 if self.fixed else share
        count = y.size // y.shape[1]
        result = out or tuple(self.ops.empty(param.shape, self.dtype) for param in self.params)
        self.ops.norm_added(
            self.mean, self.variance, share, share * count / max(1, count - 1), result
        )
        return tuple(result)


@register("MVN")
class MVN(Layer):
    """Each channel of each image (or each whole image) minus its mean and, by default, divided by
    its standard deviation + eps."""

    top_is_free = False

    def _shape(self, shapes: list[Shape], setup: Setup) -> list[Shape]:
        p = self.proto.mvn_param
        shape = shapes[0]
        if len(shape) < 2:
            raise self.error("bottom", f"found shape {shape}, expected (N, C, ...)")
        self.across = p.across_channels
        self.variance = p.normalize_variance
        self.eps = float(p.eps)
        return [shape]

    def forward(self, bottoms: list[Array], blobs: Blobs, run: Run) -> list[Array]:
        x = bottoms[0]
        y, self.deviation = self.ops.mvn_forward(
            x, across_channels=self.across, normalize_variance=self.variance, eps=self.eps,
            out=self.buffer("top", x.shape),
        )  # fmt: skip
        return [y]

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
        into = self.buffer("bottom", y.shape)
        return [
            self.ops.mvn_backward(dy, y, self.deviation, across_channels=self.across, out=into)
        ], ()
