"""Depthwise convolution, as forks of Caffe name it."""

from collections.abc import Callable, Sequence

from nets.layers.base import Shape, register
from nets.layers.conv import BLOCK, Backward, Convolution
from ops import Array


@register("ConvolutionDepthwise")
@register("DepthwiseConvolution")
class DepthwiseConvolution(Convolution):
    """x (N, C, H, W), weight (K, 1, kh, kw), bias (K,) -> y (N, K, OH, OW). K is a multiple of C,
    and each output reads one channel: a Convolution of C groups, without a loop over groups.

    Forks of Caffe have it under both names. `group` need not be given.
    """

    of_caffe = False
    replayable = Convolution.replayable

    def _groups(self, channels: int) -> int:
        p = self.proto.convolution_param
        if p.HasField("group") and p.group != channels:
            raise self.error(
                f"{BLOCK}.group",
                f"found {p.group}, expected {channels}, one for each channel, or no such key",
            )
        if p.num_output % channels:
            raise self.error(
                f"{BLOCK}.num_output",
                f"found {p.num_output}, expected a multiple of {channels} channels",
            )
        return channels

    def scratch(self, bottoms: Sequence[Shape], training: bool) -> int:
        return self.ops.depthwise_scratch(
            bottoms[0], self.params[0].shape, self.geometry,
            training=training, narrow=bool(self.dtypes),
        )  # fmt: skip

    @property
    def _forward(self) -> Callable[..., Array]:
        return self.ops.depthwise_forward

    def _back(self) -> Backward:
        return self.ops.depthwise_backward_weights, self.ops.depthwise_backward_data
