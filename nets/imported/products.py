"""Converters of products with a matrix of parameters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nets.imported.converters import converts
from nets.imported.layers_made import MSRA, Fixed, Step, Unsupported, Value, shown


@converts("Gemm")
def _gemm(step: Step) -> None:
    x, weight = step.plain(), step.array(1)
    if len(x.sizes) != 2 or weight.ndim != 2 or step.attribute("transA", 0):
        raise Unsupported(f"found shapes {shown(x.shape)} and {weight.shape}, expected (N, D)")
    weight = weight if step.attribute("transB", 0) else weight.T
    weight = weight * np.float32(step.attribute("alpha", 1.0))
    weights = [weight]
    given = step.fixed(2)
    if given is not None:
        bias = given.array * np.float32(step.attribute("beta", 1.0))
        if bias.size not in (1, weight.shape[0]):
            raise Unsupported(f"its bias has shape {bias.shape}, expected ({weight.shape[0]},)")
        weights.append(np.broadcast_to(bias.ravel(), weight.shape[:1]))
    step.give(_product(step, x, weights))


@converts("MatMul")
def _matmul(step: Step) -> None:
    if not isinstance(step.inputs[1], Fixed):
        raise Unsupported("a product of two computed arrays, as in attention, has no layer")
    x, weight = step.value(), step.array(1)
    if weight.ndim != 2:
        raise Unsupported(f"found a constant of shape {weight.shape}, expected a matrix (D, O)")
    step.give(_product(step, x, [weight.T]))


def _product(step: Step, x: Value, weights: Sequence[NDArray[Any]]) -> Value:
    """Return the product of the last axis of x with a matrix (O, D), plus a bias (O,) if given. If
    the last axis is the channels of images, it is a convolution."""
    outputs, inputs = weights[0].shape
    if x.shape[-1] != inputs:
        raise Unsupported(f"its matrix has {inputs} rows, but x has shape {shown(x.shape)}")
    options: dict[str, Any] = {
        "num_output": outputs,
        "bias_term": len(weights) > 1,
        "weight_filler": MSRA,
    }
    if len(x.sizes) == 4 and x.order[-1] == 1:
        sizes = (x.sizes[0], outputs, *x.sizes[2:])
        kernel = weights[0][:, :, np.newaxis, np.newaxis]
        y = step.add(
            "Convolution", [x.blob], sizes, [kernel, *weights[1:]],
            convolution_param=options | {"kernel_size": [1]},
        )  # fmt: skip
        return replace(y, order=x.order)
    x = step.straight(x)
    if len(x.sizes) > 2:
        options["axis"] = len(x.sizes) - 1
    sizes = (*x.sizes[:-1], outputs)
    return step.add("InnerProduct", [x.blob], sizes, weights, inner_product_param=options)
