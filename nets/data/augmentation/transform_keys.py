"""Keys of a configuration that complete or replace fields of a net's transform_param, in every
phase: the size of the crop, and mean and deviation per channel."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from nets.counting import counted
from nets.data.augmentation.augment import ALTERNATING, Augment
from nets.data.augmentation.transform import Transform, transforms
from nets.definition.spec import LayerSpec, NetSpec


@dataclass(frozen=True)
class TransformKeys:
    """`crop`: the side of the crop; 0: the net's. `mean`, `deviation`: one number, or one per
    channel, on the scale of the source's numbers; (): the net's mean and scale. With a deviation,
    the net's scale does not count. `order`: the order of the source's planes; "": the format's."""

    crop: int = 0
    mean: tuple[float, ...] = ()
    deviation: tuple[float, ...] = ()
    order: str = ""

    def __bool__(self) -> bool:
        return bool(self.crop or self.mean or self.deviation)

    def cropped(self, spec: NetSpec) -> NetSpec:
        """Return the net with this crop in all of its layers that have a transform_param."""
        if not self.crop:
            return spec
        return replace(spec, layers=tuple(map(self._cropped, spec.layers)))

    def _cropped(self, layer: LayerSpec) -> LayerSpec:
        if not transforms(layer):
            return layer
        proto = type(layer.proto)()
        proto.CopyFrom(layer.proto)
        proto.transform_param.crop_size = self.crop
        return replace(layer, proto=proto)

    def on(self, transform: Transform) -> Transform:
        """Return the transform with these keys in place of its own settings."""
        found = replace(transform, crop=self.crop or transform.crop)
        if self.mean:
            found = replace(found, mean=self.mean, mean_image=None)
        return replace(found, deviation=self.deviation, scale=1.0) if self.deviation else found

    def mistakes(self, shape: tuple[int, ...]) -> Iterator[tuple[str, str]]:
        """Yield the keys that images of `shape` (C, H, W) do not allow, and the mistakes."""
        for key in ("crop", "mean", "deviation"):
            if getattr(self, key) and len(shape) != 3:
                yield key, f"found samples of shape {shape}, expected images (C, H, W)"
        if len(shape) != 3:
            return
        channels, high, wide = shape
        if self.crop > min(high, wide):
            text = f"found {self.crop}, expected at most {min(high, wide)} for images of "
            yield "crop", f"{text}{high} x {wide}"
        for key in ("mean", "deviation"):
            count = len(getattr(self, key))
            if count > 1 and count != channels:
                expected = f"1 or {channels}" if channels > 1 else "1"
                yield key, f"found {counted(count, 'number')}, expected {expected}, one per channel"

    def replaced(self, layer: LayerSpec) -> Iterator[tuple[str, str]]:
        """Yield the keys that replace another setting of this data layer, and what they replace."""
        if not transforms(layer):
            return
        said = layer.proto.transform_param
        if self.crop and said.crop_size and said.crop_size != self.crop:
            yield "crop", _replaces(layer, f"crop_size: {said.crop_size}")
        if self.mean and said.mean_file:
            yield "mean", _replaces(layer, f"mean_file: '{said.mean_file}'")
        if self.mean and said.mean_value and _differ(said.mean_value, self.mean):
            numbers = ", ".join(f"{value:g}" for value in said.mean_value)
            yield "mean", _replaces(layer, f"mean_value: {numbers}")
        if self.deviation and said.scale != 1 and _differ([1 / said.scale], self.deviation):
            yield "deviation", _replaces(layer, f"scale: {said.scale:g}")
        theirs = tuple(said.deviation_value)
        if self.deviation and theirs and _differ(theirs, self.deviation):
            numbers = ", ".join(f"{value:g}" for value in theirs)
            yield "deviation", _replaces(layer, f"deviation_value: {numbers}")


def flip_replaces(augment: Augment, layer: LayerSpec) -> str:
    """Return a text about the setting of a training layer that `augment.flip` replaces; "" if it
    replaces none."""
    said = layer.proto.transform_param
    if not augment.flip or not transforms(layer) or not said.HasField("mirror"):
        return ""
    if said.mirror and augment.flip != ALTERNATING:
        return ""
    return _replaces(layer, f"mirror: {str(said.mirror).lower()}")


def _differ(theirs: Iterable[float], ours: Iterable[float]) -> bool:
    """Whether numbers of a net's file, which are float32, differ from those of a key. One number
    stands for as many as there are channels."""
    said, given = np.asarray([*theirs]), np.asarray([*ours])
    fits = len(said) == len(given) or 1 in (len(said), len(given))
    return not (fits and np.allclose(said, given, rtol=1e-6, atol=0))


def _replaces(layer: LayerSpec, said: str) -> str:
    return f"replaces '{said}' in transform_param of layer '{layer.proto.name}'"
