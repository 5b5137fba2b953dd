"""The converter of images that become larger by whole factors."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from nets.imported.converters import converts
from nets.imported.layers_made import Shape, Step, Unsupported, Value
from nets.imported.windows import bordered

NEAREST, LINEAR = "nearest", "linear"
CENTRED = ("half_pixel", "pytorch_half_pixel")  # the places of pixels are those of their centres
EXPECTED = (
    "expected whole factors, and nearest pixels or linear between the centres of pixels "
    "(align_corners=False)"
)


@converts("Resize")
def _resize(step: Step) -> None:
    x = step.image()
    target = _target(step, x)
    paces = [new // old for new, old in zip(target, x.sizes[2:], strict=True)]
    mode, manner = _manner(step)
    if not manner or min(paces) < 1 or [*_times(x.sizes[2:], paces)] != target:
        raise Unsupported(f"it is {mode} from {x.sizes[2:]} to {target}, {EXPECTED}")
    if manner == LINEAR and max(paces) > 1:
        edges = tuple(int(pace > 1) for pace in paces)
        x = bordered(step, x, (edges, edges), "edge", mode="EDGE")
    step.give(_enlarged(step, x, target, paces, manner))


def _times(sizes: Shape, paces: list[int]) -> Iterator[int]:
    return (size * pace for size, pace in zip(sizes, paces, strict=True))


def _manner(step: Step) -> tuple[str, str]:
    """The interpolation in the words of ONNX, and as NEAREST or LINEAR; "" if no layer computes
    it."""
    mode = step.attribute("mode", NEAREST)
    places = step.attribute("coordinate_transformation_mode", "half_pixel")
    rounding = step.attribute("nearest_mode", "round_prefer_floor") if mode == NEAREST else ""
    fits = {
        (LINEAR, ""): places in CENTRED,
        (NEAREST, "floor"): places == "asymmetric",
        (NEAREST, "round_prefer_floor"): places in CENTRED,
        (NEAREST, "round_prefer_ceil"): places in CENTRED,
    }.get((mode, rounding), False)
    return ", ".join(filter(None, (mode, places, rounding))), mode if fits else ""


def _target(step: Step, x: Value) -> list[int]:
    """The height and width of the result."""
    scales, sizes = step.fixed(2), step.fixed(3)
    if sizes is not None:
        return [int(size) for size in sizes.array.ravel()][2:]
    if scales is not None and scales.array.size == 4:
        factors = scales.array.ravel()[2:].tolist()
        return [int(size * factor) for size, factor in zip(x.sizes[2:], factors, strict=True)]
    raise Unsupported("it has neither scales nor sizes of four axes")


def _enlarged(step: Step, x: Value, target: list[int], paces: list[int], mode: str) -> Value:
    """A deconvolution of each channel with fixed weights. A linear one also cuts the border off."""
    channels = x.sizes[1]
    high, wide = (_weights(pace, mode) for pace in paces)
    pads = [
        (len(of) + pace) // 2 if len(of) > pace else 0
        for of, pace in zip((high, wide), paces, strict=True)
    ]
    options = {
        "num_output": channels, "group": channels, "bias_term": False,
        "kernel_h": len(high), "kernel_w": len(wide), "stride_h": paces[0], "stride_w": paces[1],
        "pad_h": pads[0], "pad_w": pads[1],
    }  # fmt: skip
    window = np.broadcast_to(np.outer(high, wide), (channels, 1, len(high), len(wide)))
    sizes = (*x.sizes[:2], *target)
    return step.add(
        "Deconvolution", [x.blob], sizes, [window], fixed=True, convolution_param=options
    )


def _weights(pace: int, mode: str) -> NDArray[np.float32]:
    """The weights of a pixel along one axis of the result: ones for its own places, or a triangle
    that reaches to the centres of its neighbours."""
    if mode == NEAREST:
        return np.ones(pace, np.float32)
    size = 2 * pace - pace % 2
    middle = (size - 1) / 2
    return np.array([1 - abs(at - middle) / pace for at in range(size)], np.float32)
