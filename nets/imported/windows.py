"""Converters of convolution and pooling."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nets.imported.converters import converts
from nets.imported.layers_made import MSRA, ONE, Shape, Step, Unsupported, Value, shown

LOWEST = -3.4e38  # a border that no maximum takes


@converts("Conv")
def _conv(step: Step) -> None:
    weight = step.array(1)
    x = step.plain()
    line = weight.ndim == 3 and len(x.sizes) == 3
    if line:  # along one axis: images of height 1
        x = step.reshaped(x, (*x.sizes[:2], 1, x.sizes[2]), "image")
        weight = weight[:, :, np.newaxis, :]
    if len(x.sizes) != 4 or weight.ndim != 4:
        raise Unsupported(
            f"a convolution of {shown(x.sizes)} by {weight.shape}, expected images (N, C, H, W)"
        )
    kernel = weight.shape[2:]
    stride, dilation = (_pair(step, key) for key in ("strides", "dilations"))
    group = int(step.attribute("group", 1))
    channels = x.sizes[1]
    if group < 1 or channels != weight.shape[1] * group or weight.shape[0] % group:
        raise Unsupported(
            f"its weight has shape {weight.shape} with {group} groups, but x has {channels} "
            "channels"
        )
    extent = tuple((k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True))
    x, pad = _padded(step, x, _pads(step, x, extent, stride), 0.0)
    sizes = (x.sizes[0], weight.shape[0], *_out(x.sizes[2:], extent, stride, pad))
    options = _window(kernel, stride, pad) | {"num_output": weight.shape[0], "weight_filler": MSRA}
    if dilation != (1, 1):
        options["dilation"] = list(dilation)
    bias = _bias(step, options, weight.shape[0])
    if group == channels > 1:
        kind = "DepthwiseConvolution"
    else:
        kind = "Convolution"
        options |= {"group": group} if group > 1 else {}
    y = step.add(kind, [x.blob], sizes, [weight, *bias], convolution_param=options)
    step.give(step.reshaped(y, (*y.sizes[:2], y.sizes[3]), "line") if line else y)


@converts("ConvTranspose")
def _conv_transpose(step: Step) -> None:
    x, weight = step.image(), step.array(1)
    if weight.ndim != 4 or weight.shape[0] != x.sizes[1]:
        raise Unsupported(f"its weight has shape {weight.shape}, but x has {shown(x.sizes)}")
    if any(step.attribute("output_padding", ())) or "output_shape" in step.node.attributes:
        raise Unsupported("output_padding has no counterpart")
    kernel = weight.shape[2:]
    stride, dilation = (_pair(step, key) for key in ("strides", "dilations"))
    group = int(step.attribute("group", 1))
    before, after = _halves(step.attribute("pads", (0, 0, 0, 0)))
    if before != after or step.attribute("auto_pad", "NOTSET") not in ("NOTSET", "VALID"):
        raise Unsupported("its padding differs from side to side")
    outputs = weight.shape[1] * group
    sizes = [
        s * (n - 1) + (k - 1) * d + 1 - 2 * p
        for n, k, s, d, p in zip(x.sizes[2:], kernel, stride, dilation, before, strict=True)
    ]
    options = _window(kernel, stride, before) | {"num_output": outputs, "weight_filler": MSRA}
    options |= {"group": group} if group > 1 else {}
    options |= {"dilation": list(dilation)} if dilation != (1, 1) else {}
    bias = _bias(step, options, outputs)
    top = (x.sizes[0], outputs, *sizes)
    step.give(step.add("Deconvolution", [x.blob], top, [weight, *bias], convolution_param=options))


@converts("MaxPool", "AveragePool")
def _pool(step: Step) -> None:
    x = step.image()
    average = step.node.kind == "AveragePool"
    kernel = tuple(step.attribute("kernel_shape"))
    stride = _pair(step, "strides")
    if _pair(step, "dilations") != (1, 1):
        raise Unsupported("its window is dilated")
    if len(step.node.outputs) > 1 and step.made.readers[step.node.outputs[1]]:
        raise Unsupported("the places of maxima are not read")
    pads = _pads(step, x, kernel, stride)
    padding = any(side for half in pads for side in half)
    inside = average and padding and not step.attribute("count_include_pad", 0)
    high, wide = x.sizes[2:]
    x, pad = _padded(step, x, pads, 0.0 if average else LOWEST)
    ceil = bool(step.attribute("ceil_mode", 0))
    sizes = (*x.sizes[:2], *_out(x.sizes[2:], kernel, stride, pad, ceil))
    options = _window(kernel, stride, pad) | {
        "pool": "AVE" if average else "MAX",
        "round_mode": "CEIL" if ceil else "FLOOR",
    }
    y = step.add("Pooling", [x.blob], sizes, pooling_param=options)
    if inside:  # the border is left out of the means
        if ceil:
            raise Unsupported("ceil_mode and count_include_pad 0 go with no padding only")
        axes = zip((high, wide), kernel, stride, pads[0], sizes[2:], strict=True)
        down, across = (_shares(*axis) for axis in axes)
        factors = np.asarray(np.outer(down, across), np.float32)
        options = {"axis": 2, "num_axes": 2, "filler": ONE}
        y = step.add(
            "Scale", [y.blob], sizes, [factors], part="inside", fixed=True, scale_param=options
        )
    step.give(y)


def _shares(size: int, window: int, pace: int, before: int, count: int) -> list[float]:
    """Return, for each window along an axis, its pixels divided by those that are inside the
    image."""
    starts = [at * pace - before for at in range(count)]
    return [window / (min(size, start + window) - max(0, start)) for start in starts]


@converts("GlobalAveragePool", "GlobalMaxPool")
def _global_pool(step: Step) -> None:
    x = step.image()
    kind = "AVE" if step.node.kind == "GlobalAveragePool" else "MAX"
    step.give(global_pool(step, x, kind))


def global_pool(step: Step, x: Value, kind: str, part: str = "") -> Value:
    """Return the mean (AVE) or the maximum (MAX) of each plane of x."""
    options = {"pool": kind, "global_pooling": True}
    sizes = (*x.sizes[:2], 1, 1)
    return step.add("Pooling", [x.blob], sizes, part=part, pooling_param=options)


@converts("Pad")
def _pad(step: Step) -> None:
    x = step.value()
    axes = step.fixed(3)
    rank = len(x.order)
    widths = [int(width) for width in step.array(1).ravel()]
    named = list(range(rank)) if axes is None else [int(axis) % rank for axis in axes.array]
    mode = step.attribute("mode", "constant")
    if mode not in ("constant", "edge"):
        raise Unsupported(f"its mode is {mode}, expected constant or edge")
    if min(widths, default=0) < 0 or len(widths) != 2 * len(named):
        raise Unsupported(f"found widths {widths}, expected two numbers >= 0 for each axis")
    before, after = [0] * rank, [0] * rank
    for at, axis in enumerate(named):
        before[x.order[axis]], after[x.order[axis]] = widths[at], widths[at + len(named)]
    if not any(widths):
        step.give(x)
        return
    if rank != 4 or any(before[:2] + after[:2]):
        raise Unsupported("it pads other axes than height and width")
    number = step.fixed(2)
    value = 0.0 if number is None else float(number.array.ravel()[0])
    pads = (tuple(before[2:]), tuple(after[2:]))
    y = bordered(step, x, pads, "", value=value, mode=mode.upper())
    step.give(replace(y, order=x.order))


def _pair(step: Step, key: str) -> tuple[int, int]:
    """Return an attribute with a number for height and width."""
    found = tuple(step.attribute(key, (1, 1)))
    found = (1, *found) if len(found) == 1 else found
    if len(found) != 2 or min(found) < 1:
        raise Unsupported(f"found {key} {list(found)}, expected two numbers >= 1")
    return int(found[0]), int(found[1])


Pads = tuple[tuple[int, ...], tuple[int, ...]]  # before and after, for height and width


def _halves(pads: Sequence[int]) -> Pads:
    pads = (0, pads[0], 0, pads[1]) if len(pads) == 2 else tuple(pads)
    if len(pads) != 4 or min(pads) < 0:
        raise Unsupported(f"found pads {list(pads)}, expected four numbers >= 0")
    return tuple(pads[:2]), tuple(pads[2:])


def _pads(step: Step, x: Value, extent: Sequence[int], stride: Sequence[int]) -> Pads:
    auto = step.attribute("auto_pad", "NOTSET")
    if auto not in ("SAME_UPPER", "SAME_LOWER"):
        return _halves(step.attribute("pads", (0, 0, 0, 0)) if auto == "NOTSET" else (0, 0, 0, 0))
    less, more = [], []
    for size, window, pace in zip(x.sizes[2:], extent, stride, strict=True):
        whole = max(0, (-(-size // pace) - 1) * pace + window - size)
        less.append(whole // 2)
        more.append(whole - whole // 2)
    return (tuple(less), tuple(more)) if auto == "SAME_UPPER" else (tuple(more), tuple(less))


def _padded(step: Step, x: Value, pads: Pads, value: float) -> tuple[Value, Shape]:
    """Return x, and the padding that the layer itself can add: the same on opposite sides. Another
    padding is a layer."""
    if pads[0] == pads[1]:
        return x, pads[0]
    return bordered(step, x, pads, "pad", value=value), (0, 0)


def bordered(
    step: Step, x: Value, pads: Pads, part: str, *, value: float = 0.0, mode: str = "CONSTANT"
) -> Value:
    """Return x with a border: a number, or its nearest pixels (EDGE)."""
    (top, left), (bottom, right) = pads
    high, wide = x.sizes[2:]
    options: dict[str, Any] = {"top": top, "bottom": bottom, "left": left, "right": right}
    options |= {"mode": mode} if mode == "EDGE" else {"value": value}
    sizes = (*x.sizes[:2], top + high + bottom, left + wide + right)
    return step.add("Pad", [x.blob], sizes, part=part, pad_param=options)


def _out(
    sizes: Sequence[int], extent: Sequence[int], stride: Sequence[int], pad: Sequence[int],
    ceil: bool = False,
) -> Shape:  # fmt: skip
    found = []
    for size, window, pace, side in zip(sizes, extent, stride, pad, strict=True):
        room = size + 2 * side - window
        count = (-(-room // pace) if ceil else room // pace) + 1
        if ceil and (count - 1) * pace >= size + side:
            count -= 1  # the last window would begin behind the image
        if room < 0:
            raise Unsupported(f"its window of {window} is larger than {size} pixels with padding")
        found.append(count)
    return tuple(found)


def _window(kernel: Sequence[int], stride: Sequence[int], pad: Sequence[int]) -> dict[str, Any]:
    found: dict[str, Any] = {"kernel_h": kernel[0], "kernel_w": kernel[1]}
    if tuple(stride) != (1, 1):
        found |= {"stride_h": stride[0], "stride_w": stride[1]}
    if tuple(pad) != (0, 0):
        found |= {"pad_h": pad[0], "pad_w": pad[1]}
    return found


def _bias(step: Step, options: dict[str, Any], outputs: int) -> list[NDArray[Any]]:
    """Return the bias as a list, and note in the options that there is none."""
    found = step.fixed(2)
    if found is None or not (found.learned or found.array.any()):
        options["bias_term"] = False
        return []
    if found.array.shape != (outputs,):
        raise Unsupported(f"its bias has shape {found.array.shape}, expected ({outputs},)")
    return [found.array]
