"""ReLU with a learned slope (Caffe's `PReLU`)."""

from nets.layers.base import Blobs, Gradients, Layer, Run, Setup, Shape, Values, register
from nets.schema import caffe_pb2 as caffe
from ops import Array


@register("PReLU")
class PReLU(Layer):
    """max(x, 0) + slope * min(x, 0), x (N, C, ...), slope (C,), or a single slope with
    `channel_shared` (He et al. 2015)."""

    def _shape(self, shapes: list[Shape], setup: Setup) -> list[Shape]:
        p = self.proto.prelu_param
        shape = shapes[0]
        if len(shape) < 2:
            raise self.error("bottom", f"found shape {shape}, expected (N, C, ...)")
        filler = (
            p.filler if p.HasField("filler") else caffe.FillerParameter(type="constant", value=0.25)
        )
        self.declare("slope", () if p.channel_shared else shape[1:2], filler, "prelu_param.filler")
        return [shape]

    def forward(self, bottoms: list[Array], blobs: Blobs, run: Run) -> list[Array]:
        return [
            self.ops.prelu_forward(bottoms[0], blobs[0], out=self.buffer("top", bottoms[0].shape))
        ]

    def backward(
        self,
        grads: list[Array | None],
        values: Values,
        run: Run,
        wanted: list[bool],
        out: Blobs | None,
    ) -> Gradients:
        x = values.bottoms[0]
        slope = values.blobs[0]
        dy = grads[0]
        assert dy is not None
        dslope = self.ops.prelu_backward_slope(dy, x, slope.shape, out=out[0] if out else None)
        if not wanted[0]:
            return [None], (dslope,)
        return [self.ops.prelu_backward_data(dy, x, slope, out=self.buffer("bottom", x.shape))], (
            dslope,
        )
