"""Convolution of images with few channels on tiles, by `patches`."""

from __future__ import annotations

from ops.cpu.codegen.bfloat16 import LANES
from ops.cpu.codegen.code import Generated
from ops.cpu.codegen.stored import AS_BFLOAT16, AS_FLOAT32
from ops.cpu.tiled.convolution import Tiled
from ops.cpu.tiled.image_plan import FLOAT, ImagePlan, Steps, Weights
from ops.cpu.tiled.patches import (
    PatchedImagePlan,
    PatchedWeightPlan,
    Patches,
    patched_images_kernel,
    patched_weights_kernel,
)
from ops.cpu.tiled.weight_plan import WeightPlan
from ops.geometry import ConvGeometry


def supports(geometry: ConvGeometry) -> bool:
    """Whether the convolution has one group and its kernel's rows fit a vector."""
    return geometry.groups == 1 and geometry.dilation[1] == 1 and geometry.kernel[1] <= LANES


class Patched(Tiled):
    """As `Tiled`, for x with any strides, plain NCHW among them. Only the gradient by x asks for
    neighbouring channels."""

    def __repr__(self) -> str:
        return f"<Patched {self._in_shape} -> {self._outputs} {self._geometry}>"

    @property
    def _patches(self) -> Patches:
        return Patches(self._in_shape, self._geometry)

    def _usual(self) -> tuple[Generated, ...]:
        """The layer that reads the data gets them in float32."""
        kinds = AS_FLOAT32, AS_BFLOAT16
        return patched_images_kernel(*kinds), patched_weights_kernel(*kinds)

    def _forward(self, x: Steps, y: Steps) -> tuple[ImagePlan, ...]:
        """The plan of a forward pass."""
        patches = self._patches
        w = Weights(patches.numbers * FLOAT, FLOAT, (1, 1), self._group_bytes)
        sweep = patches.sweep(self._outputs)
        return (PatchedImagePlan(patches, sweep, x, y, w, self._team.size),)

    def _weights(self, x: Steps, dy: Steps) -> WeightPlan:
        patches = self._patches
        return PatchedWeightPlan(patches, patches.sweep(self._outputs), x, dy, self._team.size)
