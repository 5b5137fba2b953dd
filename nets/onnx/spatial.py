"""Converters of convolution, pooling and local response normalisation.

Caffe rounds the sizes of pooling up. Its averages count padding, but nothing beyond the padding.
Runtimes disagree on ONNX's `ceil_mode`, so the paddings are explicit here: images have one size.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nets.layers.conv import Convolution
from nets.layers.deconv import Deconvolution
from nets.layers.normalise import LRN
from nets.layers.pool import SPP, AdaptivePooling, Pooling
from nets.onnx.graph_builder import Step, converts
from ops import PoolGeometry


@converts("Convolution", "Deconvolution", "DepthwiseConvolution", "ConvolutionDepthwise")
def _convolution(step: Step, layer: Convolution | Deconvolution) -> None:
    geometry = layer.geometry
    step.top(
        "ConvTranspose" if isinstance(layer, Deconvolution) else "Conv",
        step.x[0],
        *(step.parameter(at) for at in range(len(step.blobs))),
        kernel_shape=geometry.kernel,
        strides=geometry.stride,
        pads=(*geometry.pad, *geometry.pad),
        dilations=geometry.dilation,
        group=geometry.groups,
    )


@converts("Pooling")
def _pooling(step: Step, layer: Pooling) -> None:
    if len(step.y) > 1:
        raise step.refused("it gives the places of maxima, which ONNX numbers differently", "top")
    _pooled(step, layer.geometry, step.y[0])


@converts("AdaptivePooling")
def _adaptive_pooling(step: Step, layer: AdaptivePooling) -> None:
    """Products with the shares of pixels in means, unless all windows have one size."""
    if layer.geometry is not None:
        _pooled(step, layer.geometry, step.y[0])
        return
    high, wide = (
        _shares(size, windows)
        for size, windows in zip(step.inside[0][2:], layer.windows, strict=True)
    )
    strips = step.add("MatMul", step.x[0], step.constant(wide.T, "columns"))
    step.top("MatMul", step.constant(high, "rows"), strips)


def _shares(size: int, windows: Sequence[slice]) -> NDArray[np.float32]:
    """Return the share (outputs, size) of each pixel in the mean of each window."""
    shares = np.zeros((len(windows), size), np.float32)
    for at, window in enumerate(windows):
        shares[at, window] = 1 / (window.stop - window.start)
    return shares


@converts("SPP")
def _spp(step: Step, layer: SPP) -> None:
    parts = [
        step.graph.reshaped(_pooled(step, geometry), (-1, end - at))
        for geometry, _, at, end in layer.levels
    ]
    step.top("Concat", *parts, axis=1)


def _pooled(step: Step, geometry: PoolGeometry, to: str = "") -> str:
    """Pool the layer's bottom in windows and return the result's name."""
    if geometry.mode == "STOCHASTIC":
        raise step.refused("stochastic pooling averages by weight in test", "pooling_param.pool")
    size = step.inside[0][2:]
    _, _, *outputs = geometry.output_shape((1, *step.inside[0][1:]))
    ends = [
        max(
            0,
            (outputs[at] - 1) * geometry.stride[at]
            + geometry.kernel[at]
            - geometry.pad[at]
            - size[at],
        )
        for at in (0, 1)
    ]
    windows: dict[str, Any] = {"kernel_shape": geometry.kernel, "strides": geometry.stride}
    if geometry.mode == "MAX":
        return step.graph.add("MaxPool", step.x[0], to=to, pads=(*geometry.pad, *ends), **windows)
    pads = (0, 0, *geometry.pad, 0, 0, *ends)
    wide = (
        step.add("Pad", step.x[0], step.constant(np.array(pads), "pads"))
        if any(pads)
        else step.x[0]
    )
    factors = _factors(geometry, size)
    if (factors == 1).all():
        return step.graph.add("AveragePool", wide, to=to, **windows)
    return step.graph.add(
        "Mul",
        step.graph.add("AveragePool", wide, **windows),
        step.constant(factors, "areas"),
        to=to,
    )


def _factors(geometry: PoolGeometry, size: tuple[int, ...]) -> NDArray[np.float32]:
    """Return the factors (OH, OW) that turn averages over whole kernels into averages over Caffe's
    windows."""
    high, wide = (np.array(geometry.counts(at, size[at]), np.float64) for at in (0, 1))
    whole = geometry.kernel[0] * geometry.kernel[1]
    return (whole / np.outer(high, wide)).astype(np.float32)


@converts("LRN")
def _lrn(step: Step, layer: LRN) -> None:
    if layer.region == "ACROSS_CHANNELS":
        step.top(
            "LRN", step.x[0], size=layer.size, alpha=layer.alpha, beta=layer.beta, bias=layer.k
        )
        return
    edge = layer.size // 2
    squares: Any = step.add("Mul", step.x[0], step.x[0])
    padded = step.add("Pad", squares, step.constant(np.array((0, 0, edge, edge) * 2), "pads"))
    means = step.add("AveragePool", padded, kernel_shape=(layer.size,) * 2, strides=(1, 1))
    scale = step.add("Add", step.add("Mul", means, step.constant(layer.alpha)), step.constant(1.0))
    step.top("Div", step.x[0], step.add("Pow", scale, step.constant(layer.beta)))
