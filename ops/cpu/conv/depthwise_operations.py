"""Depthwise convolution on the CPU backend: convolution with one channel in each group, where the
kernels can read the arrays, else the reference."""

from __future__ import annotations

from collections.abc import Iterable

from ops.cpu.conv.algorithm import ConvShape
from ops.cpu.conv.depthwise import supports
from ops.cpu.conv.operations import Convolutions
from ops.cpu.team.image_layout import lies_well
from ops.errors import Array, Shape
from ops.geometry import ConvGeometry
from ops.reference import depthwise
from ops.reference.mixed_images import checked


class DepthwiseConvolutions(Convolutions):
    """Overrides the depthwise methods, too."""

    def depthwise_forward(
        self, x: Array, w: Array, b: Array | None, geometry: ConvGeometry, out: Array | None = None,
        *, rectify: bool = False,
    ) -> Array:  # fmt: skip
        if not self._by_channel((x, out), w.shape, x.shape, geometry):
            return super().depthwise_forward(x, w, b, geometry, out, rectify=rectify)
        depthwise.check_forward(checked(x), w, b, geometry, checked(out))
        return self.conv_forward(x, w, b, geometry, out, rectify=rectify)

    def depthwise_backward_data(
        self, dy: Array, w: Array, geometry: ConvGeometry, in_shape: Shape, out: Array | None = None
    ) -> Array:
        if not self._by_channel((dy, out), w.shape, in_shape, geometry):
            return super().depthwise_backward_data(dy, w, geometry, in_shape, out)
        depthwise.check_backward_data(checked(dy), w, geometry, in_shape, checked(out))
        return self.conv_backward_data(dy, w, geometry, in_shape, out)

    def depthwise_backward_weights(
        self, x: Array, dy: Array, geometry: ConvGeometry, w_shape: Shape, *,
        bias: bool, out_w: Array | None = None, out_b: Array | None = None,
    ) -> tuple[Array, Array | None]:  # fmt: skip
        if not self._by_channel((x, dy), w_shape, x.shape, geometry):
            return super().depthwise_backward_weights(
                x, dy, geometry, w_shape, bias=bias, out_w=out_w, out_b=out_b
            )
        depthwise.check_backward_weights(checked(x), checked(dy), geometry, w_shape, out_w, out_b)
        return self.conv_backward_weights(
            x, dy, geometry, w_shape, bias=bias, out_w=out_w, out_b=out_b
        )

    def depthwise_scratch(
        self, in_shape: Shape, w_shape: Shape, geometry: ConvGeometry, *,
        training: bool, narrow: bool = False,
    ) -> int:  # fmt: skip
        if self.b_p is not None or not _has_kernel(w_shape, in_shape, geometry):
            return super().depthwise_scratch(in_shape, w_shape, geometry, training=training)
        return self.conv_scratch(in_shape, w_shape, geometry, training=training, narrow=narrow)

    def _by_channel(
        self,
        images: Iterable[Array | None],
        w_shape: Shape,
        in_shape: Shape,
        geometry: ConvGeometry,
    ) -> bool:
        """Whether the kernels of depthwise convolution can read these images. Without them the
        reference is faster than any other algorithm."""
        return (
            self.b_p is None
            and all(one is None or lies_well(one) for one in images)
            and _has_kernel(w_shape, in_shape, geometry)
        )


def _has_kernel(w_shape: Shape, in_shape: Shape, geometry: ConvGeometry) -> bool:
    if len(w_shape) != 4 or len(in_shape) != 4:
        return False  # the reference reports it
    channelwise = w_shape[1] == 1 and geometry.groups == in_shape[1]
    return channelwise and supports(ConvShape(tuple(in_shape), w_shape[0], geometry))
