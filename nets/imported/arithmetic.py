"""Converters of sums, products, differences and quotients, with constants and of two values."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nets.imported.converters import converts
from nets.imported.layers_made import ONE, Fixed, Step, Unsupported, Value, shown
from nets.imported.pointwise import power
from nets.schema import caffe_pb2 as caffe


@converts("Add", "Sub", "Mul", "Div")
def _binary(step: Step) -> None:
    a, b = step.inputs
    kind = step.node.kind
    if isinstance(a, Value) and isinstance(b, Value):
        step.give(_of_two(step, a, b))
    elif isinstance(a, Value) and isinstance(b, Fixed):
        array = -b.array if kind == "Sub" else 1 / b.array if kind == "Div" else b.array
        step.give(_with(step, a, replace(b, array=array), sums=kind in ("Add", "Sub"), at=0))
    elif isinstance(b, Value) and isinstance(a, Fixed):
        x = b
        if kind == "Sub":
            x = power(step, b, "negative", scale=-1.0)
        if kind == "Div":
            x = power(step, b, "reciprocal", power=-1.0)
        step.give(_with(step, x, a, sums=kind in ("Add", "Sub"), at=1))


@converts("Sum", "Max")
def _several(step: Step) -> None:
    values = [step.plain(at) for at in range(len(step.inputs))]
    if any(value.sizes != values[0].sizes for value in values):
        raise Unsupported("its inputs have several shapes")
    if len(values) == 1:
        step.give(values[0])
        return
    operation = "SUM" if step.node.kind == "Sum" else "MAX"
    blobs = [value.blob for value in values]
    step.give(step.add("Eltwise", blobs, values[0].sizes, eltwise_param={"operation": operation}))


@converts("Pow")
def _pow(step: Step) -> None:
    exponent = step.array(1)
    if exponent.size != 1:
        raise Unsupported(f"its exponent has shape {exponent.shape}, expected one number")
    step.give(power(step, step.value(), power=float(exponent.ravel()[0])))


def _with(step: Step, x: Value, constant: Fixed, *, sums: bool, at: int) -> Value:
    """Return x plus, or times, a constant."""
    array = np.asarray(constant.array, np.float32)
    if array.size == 1 and array.ndim <= len(x.order):
        number = float(array.ravel()[0])
        if number == (0 if sums else 1):
            return x
        return power(step, x, shift=number) if sums else power(step, x, scale=number)
    first, array = _covered(x, array)
    if sums and (y := _as_bias(step, x, first, array, at)) is not None:
        return y
    options: dict[str, Any] = {"axis": first, "num_axes": array.ndim}
    fixed = not constant.learned
    if sums:
        y = step.add("Bias", [x.blob], x.sizes, [array], fixed=fixed, bias_param=options)
    else:
        options["filler"] = ONE
        y = step.add("Scale", [x.blob], x.sizes, [array], fixed=fixed, scale_param=options)
    return replace(y, order=x.order)


def _covered(x: Value, array: NDArray[Any]) -> tuple[int, NDArray[Any]]:
    """Return the first axis of the blob along which the constant changes, and the constant for all
    axes from there to the last."""
    rank = len(x.order)
    if array.ndim > rank:
        raise Unsupported(f"it adds axes: {shown(x.shape)} with a constant of {array.shape}")
    whole = array.reshape((1,) * (rank - array.ndim) + array.shape)
    found = whole.transpose([x.order.index(axis) for axis in range(rank)])
    axes = [axis for axis, size in enumerate(found.shape) if size != 1]
    fits = all(found.shape[axis] == x.sizes[axis] for axis in axes)
    if not fits or axes[0] == 0:
        raise Unsupported(f"a constant of shape {array.shape} does not fit {shown(x.shape)}")
    first, last = axes[0], axes[-1] + 1
    target = x.sizes[first:last]
    return first, np.broadcast_to(found.reshape(found.shape[first:last]), target)


def _as_bias(step: Step, x: Value, first: int, array: NDArray[Any], at: int) -> Value | None:
    """Return the sum as the bias of the product that made x, if no other node reads the
    product."""
    layer = step.made.maker(x.blob)
    if layer is None or not step.takes_only(at, "MatMul", "Conv") or array.ndim != 1:
        return None
    block: caffe.InnerProductParameter | caffe.ConvolutionParameter | None = None
    if layer.type == "InnerProduct":
        block = layer.inner_product_param
    if layer.type == "Convolution":
        block = layer.convolution_param
    if (
        block is None
        or block.bias_term
        or first != (1 if layer.type == "Convolution" else len(x.sizes) - 1)
    ):
        return None
    block.bias_term = True
    step.made.weights[layer.name].append(np.ascontiguousarray(array))
    return x


def _of_two(step: Step, a: Value, b: Value) -> Value:
    """Return the sum, difference, product or quotient of two values, whose sizes may be 1."""
    kind = step.node.kind
    if kind == "Div":
        b = power(step, b, "reciprocal", power=-1.0)
    sums = kind in ("Add", "Sub")
    if a.shape == b.shape:
        if a.order != b.order:
            a, b = step.straight(a), step.straight(b)
        options: dict[str, Any] = {"operation": "SUM" if sums else "PROD"}
        if kind == "Sub":
            options["coeff"] = [1.0, -1.0]
        y = step.add("Eltwise", [a.blob, b.blob], a.sizes, eltwise_param=options)
        return replace(y, order=a.order)
    if kind == "Sub":
        b = power(step, b, "negative", scale=-1.0)
    rank = max(len(a.order), len(b.order))
    shapes = [(*(1,) * (rank - len(x.order)), *x.shape) for x in (a, b)]
    if len(a.order) != len(b.order):
        raise Unsupported(f"it adds axes: {shown(a.shape)} with {shown(b.shape)}")
    a, b = step.straight(a), step.straight(b)
    target = np.broadcast_shapes(*shapes)
    if target == b.sizes:
        a, b = b, a
    if target != a.sizes:
        raise Unsupported(f"both inputs are repeated: {shown(a.shape)} and {shown(b.shape)}")
    return _spread(step, a, b, sums)


def _spread(step: Step, large: Value, small: Value, sums: bool) -> Value:
    """Return the sum or product of two values, of which the small one is repeated along some
    axes."""
    axes = [axis for axis, size in enumerate(small.sizes) if size != 1]
    last = axes[-1] + 1
    if axes == list(range(last)):  # one number for all later axes, as in squeeze and excitation
        factors = step.reshaped(small, small.sizes[:last], "factors")
        blobs, rows = [large.blob, factors.blob], {"axis": 0}
        if sums:
            return step.add("Bias", blobs, large.sizes, bias_param=rows)
        return step.add("Scale", blobs, large.sizes, scale_param=rows)
    for axis, size in enumerate(large.sizes):
        small = step.tiled(small, axis, size)
    operation = {"operation": "SUM" if sums else "PROD"}
    return step.add("Eltwise", [large.blob, small.blob], large.sizes, eltwise_param=operation)
