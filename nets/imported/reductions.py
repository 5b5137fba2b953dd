"""Converters of means, sums and maxima along axes."""

from __future__ import annotations

import math

from nets.imported.converters import converts
from nets.imported.folding import axes_of
from nets.imported.layers_made import Shape, Step, Unsupported, Value
from nets.imported.pointwise import power
from nets.imported.windows import global_pool

POOLS = {"ReduceMean": "AVE", "ReduceSum": "AVE", "ReduceL2": "AVE", "ReduceMax": "MAX"}


@converts(*POOLS)
def _reduce(step: Step) -> None:
    x = step.value()
    kind = step.node.kind
    rank = len(x.order)
    named = axes_of(step.node, step.constants)
    if named is None and step.attribute("noop_with_empty_axes", 0):
        step.give(x)
        return
    axes = sorted(axis % rank for axis in (range(rank) if named is None else named))
    if 0 in (x.order[axis] for axis in axes):
        raise Unsupported("it joins the rows of the batch")
    left = [axis for axis in range(rank) if axis not in axes]
    kept = tuple(1 if axis in axes else size for axis, size in enumerate(x.shape))
    shape = kept if step.attribute("keepdims", 1) else tuple(kept[axis] for axis in left)
    if kind == "ReduceL2":
        x = power(step, x, "square", power=2.0)
    if {x.order[axis] for axis in axes} == {2, 3} and rank == 4:
        y = global_pool(step, x, POOLS[kind])
        y = Value(y.blob, y.sizes, x.order)
        if y.shape != shape:  # only axes of size 1 are left out
            y = _without_order(step, y, shape)
        if kind in ("ReduceSum", "ReduceL2"):
            y = power(step, y, "sum", scale=float(x.sizes[2] * x.sizes[3]))
    else:
        y = _reduced(step, x, axes, left, shape)
    step.give(power(step, y, "root", power=0.5) if kind == "ReduceL2" else y)


def _without_order(step: Step, y: Value, shape: Shape) -> Value:
    """Return (N, C, 1, 1) in another shape of N rows and C numbers."""
    return step.reshaped(Value.plain(y.blob, y.sizes), shape, "means")


def _reduced(step: Step, x: Value, axes: list[int], left: list[int], shape: Shape) -> Value:
    operation = {"ReduceMean": "MEAN", "ReduceMax": None}.get(step.node.kind, "SUM")
    sizes = x.shape
    last = Value(x.blob, x.sizes, tuple(x.order[axis] for axis in (*left, *axes)))
    last = step.straight(last)
    if operation is None:
        return _maximum(step, last, len(left), shape)
    options = {"operation": operation, "axis": len(left)}
    y = step.add("Reduction", [last.blob], [sizes[axis] for axis in left], reduction_param=options)
    return step.reshaped(y, shape, "kept")


def _maximum(step: Step, x: Value, outer: int, shape: Shape) -> Value:
    """Return the maximum of the last axes of x, as a pooling of images."""
    rows, *middle = x.sizes[:outer]
    plane = step.reshaped(x, (rows, math.prod(middle), 1, math.prod(x.sizes[outer:])), "plane")
    return step.reshaped(global_pool(step, plane, "MAX"), shape, "kept")
