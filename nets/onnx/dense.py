"""Converters of products with weights, factors per channel, statistics and scores."""

from __future__ import annotations

from typing import Any

import numpy as np

from nets.layers.affine import Bias, Scale
from nets.layers.dense import InnerProduct
from nets.layers.normalise import MVN, BatchNorm
from nets.layers.reduce import ArgMax, Reduction
from nets.layers.row_norm import GroupNorm, LayerNorm
from nets.layers.softmax import Softmax
from nets.onnx.graph_builder import Step, converts


@converts("InnerProduct")
def _inner_product(step: Step, layer: InnerProduct) -> None:
    outer = step.outside[0][:-1]
    x = (
        step.graph.reshaped(step.x[0], (*outer, layer.width))
        if step.inside[0] != (*outer, layer.width)
        else step.x[0]
    )
    bias = [step.parameter(1)] if len(step.blobs) > 1 else []
    if len(outer) == 1:
        step.top("Gemm", x, step.parameter(0), *bias, transB=int(not layer.transpose))
        return
    weight = step.parameter(0, step.blobs[0] if layer.transpose else step.blobs[0].T)
    if bias:
        step.top("Add", step.add("MatMul", x, weight), *bias)
    else:
        step.top("MatMul", x, weight)


@converts("Embed")
def _embed(step: Step, layer: Any) -> None:
    numbers = step.cast(step.x[0], whole=True)
    if len(step.blobs) > 1:
        step.top("Add", step.add("Gather", step.parameter(0), numbers, axis=0), step.parameter(1))
    else:
        step.top("Gather", step.parameter(0), numbers, axis=0)


@converts("BatchNorm")
def _batch_norm(step: Step, layer: BatchNorm) -> None:
    if not layer.fixed:
        raise step.refused(
            ("it takes its statistics from the batch"), "batch_norm_param.use_global_stats"
        )
    mean, variance, weight = (np.asarray(blob, np.float64) for blob in step.blobs)
    factor = 1 / weight[0] if weight[0] else 0.0
    ones = np.ones_like(mean)
    statistics = (
        (ones, "scale"),
        (0 * ones, "bias"),
        (mean * factor, "mean"),
        (variance * factor, "variance"),
    )
    step.top(
        "BatchNormalization",
        step.x[0],
        *(step.constant(array, what) for array, what in statistics),
        epsilon=layer.eps,
    )


@converts("Scale")
def _scale(step: Step, layer: Scale) -> None:
    factor = _along(step, layer, 0)
    if not layer.bias:
        step.top("Mul", step.x[0], factor)
        return
    bias = step.parameter(
        len(step.blobs) - 1, _stretched(step.blobs[-1], layer, len(step.inside[0]))
    )
    step.top("Add", step.add("Mul", step.x[0], factor), bias)


@converts("Bias")
def _bias(step: Step, layer: Bias) -> None:
    step.top("Add", step.x[0], _along(step, layer, 0))


def _along(step: Step, layer: Scale | Bias, at: int) -> str:
    """Return the factor or summand, a parameter or the second bottom, with as many axes as reach to
    the end of the first bottom."""
    axes = len(step.inside[0])
    if len(step.x) == 1:
        return step.parameter(at, _stretched(step.blobs[at], layer, axes))
    return step.graph.reshaped(
        step.x[1], (*step.inside[1], *(1,) * (axes - layer.axis - len(layer.part)))
    )


def _stretched(blob: Any, layer: Scale | Bias, axes: int) -> Any:
    return blob.reshape(*layer.part, *(1,) * (axes - layer.axis - len(layer.part)))


@converts("Softmax")
def _softmax(step: Step, layer: Softmax) -> None:
    step.top("Softmax", step.x[0], axis=layer.axis)


@converts("MVN")
def _mvn(step: Step, layer: MVN) -> None:
    axes = list(range(1 if layer.across else 2, len(step.inside[0])))
    mean = step.add("ReduceMean", step.x[0], axes=axes, keepdims=1)
    if not layer.variance:
        step.top("Sub", step.x[0], mean)
        return
    centred = step.add("Sub", step.x[0], mean)
    variance = step.add("ReduceMean", step.add("Mul", centred, centred), axes=axes, keepdims=1)
    step.top("Div", centred, step.add("Add", step.add("Sqrt", variance), step.constant(layer.eps)))


@converts("LayerNorm")
def _layer_norm(step: Step, layer: LayerNorm) -> None:
    _normalised(step, step.x[0], layer.axis, layer.eps, to=step.y[0])


@converts("GroupNorm")
def _group_norm(step: Step, layer: GroupNorm) -> None:
    """ONNX has an operator of this name from opset 18 on."""
    by_group = (0, layer.groups, -1)
    y = _normalised(step, step.graph.reshaped(step.x[0], by_group), 2, layer.eps)
    step.graph.reshaped(y, step.outside[0], to=step.y[0])


def _normalised(step: Step, x: str, axis: int, eps: float, to: str = "") -> str:
    """Return (x - mean) / sqrt(variance + eps) along one axis."""
    centred = step.add("Sub", x, step.add("ReduceMean", x, axes=[axis], keepdims=1))
    square = step.add("Mul", centred, centred)
    variance = step.add("ReduceMean", square, axes=[axis], keepdims=1)
    deviation = step.add("Sqrt", step.add("Add", variance, step.constant(eps)))
    return step.graph.add("Div", centred, deviation, to=to)


@converts("Reduction")
def _reduction(step: Step, layer: Reduction) -> None:
    axes = list(range(layer.axis, len(step.inside[0])))
    if layer.operation == "SUM":
        found = step.add("ReduceSum", step.x[0], step.constant(np.array(axes), "axes"), keepdims=0)
    else:
        kind = {"ASUM": "ReduceL1", "SUMSQ": "ReduceSumSquare", "MEAN": "ReduceMean"}[
            layer.operation
        ]
        found = step.add(kind, step.x[0], axes=axes, keepdims=0)
    step.top("Mul", found, step.constant(layer.coeff))


@converts("ArgMax")
def _arg_max(step: Step, layer: ArgMax) -> None:
    x, axis = (
        (step.x[0], layer.axis)
        if layer.axis is not None
        else (step.graph.reshaped(step.x[0], _flat(step)), 1)
    )
    values, places = (
        step.graph.named(f"{step.layer.name}.{what}") for what in ("values", "places")
    )
    count = step.constant(np.array([layer.top_k]), "top_k")
    helper = step.graph.onnx.helper
    step.graph.nodes.append(helper.make_node("TopK", [x, count], [values, places], axis=axis))
    numbers = step.cast(places)
    if layer.axis is not None:
        step.top("Identity", values if layer.values else numbers)
        return
    both = step.add("Concat", numbers, values, axis=1) if layer.values else numbers
    step.graph.reshaped(both, step.outside[0], to=step.y[0])


def _flat(step: Step) -> tuple[int, int]:
    return -1, int(np.prod(step.inside[0][1:]))
