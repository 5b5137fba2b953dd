"""Converters of layers that change shapes, cut blobs, or join several blobs to one."""

from __future__ import annotations

from typing import Any

import numpy as np

from nets.layers.arrange import Pad, Permute
from nets.layers.combine import Concat, Slice
from nets.layers.shape import Crop, View
from nets.onnx.graph_builder import Step, converts


@converts("Flatten", "Reshape")
def _reshape(step: Step, layer: View) -> None:
    if step.outside[0].count(-1) > 1:
        raise step.refused("two of its sizes follow the number of rows")
    step.graph.reshaped(step.x[0], step.outside[0], to=step.y[0])


@converts("Permute")
def _permute(step: Step, layer: Permute) -> None:
    step.top("Transpose", step.x[0], perm=list(layer.order))


@converts("Pad")
def _pad(step: Step, layer: Pad) -> None:
    p = layer.proto.pad_param
    widths = np.array([0, 0, p.top, p.left, 0, 0, p.bottom, p.right])
    given = [step.x[0], step.constant(widths, "pads")]
    if layer.border:
        step.top("Pad", *given, mode="edge")
    else:
        step.top("Pad", *given, step.constant(layer.value, "value"))


@converts("Concat")
def _concat(step: Step, layer: Concat) -> None:
    step.top("Concat", *step.x, axis=len(layer.parts[0]) - 1)


@converts("Slice")
def _slice(step: Step, layer: Slice) -> None:
    for name, part in zip(step.y, layer.parts, strict=True):
        axis = len(part) - 1
        _cut(step, name, [part[axis].start], [part[axis].stop], [axis])


@converts("Crop")
def _crop(step: Step, layer: Crop) -> None:
    axes = [
        at
        for at, part in enumerate(layer.window)
        if part.start is not None or part.stop is not None
    ]
    if any(step.outside[0][at] == -1 for at in axes):
        raise step.refused("it cuts rows", "crop_param.axis")
    _cut(
        step,
        step.y[0],
        [layer.window[at].start for at in axes],
        [layer.window[at].stop for at in axes],
        axes,
    )


def _cut(step: Step, to: str, starts: list[int], ends: list[int], axes: list[int]) -> None:
    where = {"starts": starts, "ends": ends, "axes": axes}
    step.graph.add(
        "Slice",
        step.x[0],
        *(step.constant(np.array(values), what) for what, values in where.items()),
        to=to,
    )


@converts("Tile")
def _tile(step: Step, layer: Any) -> None:
    axes = len(step.inside[0])
    repeats = np.ones(axes, np.int64)
    repeats[layer.proto.tile_param.axis % axes] = layer.proto.tile_param.tiles
    step.top("Tile", step.x[0], step.constant(repeats, "repeats"))


@converts("Split")
def _split(step: Step, layer: Any) -> None:
    for name in step.y:
        step.graph.add("Identity", step.x[0], to=name)


@converts("Silence")
def _silence(step: Step, layer: Any) -> None:
    """Add no operator."""


@converts("Parameter")
def _parameter(step: Step, layer: Any) -> None:
    step.top("Identity", step.parameter(0))
