"""Converters of normalisations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nets.imported.converters import converts
from nets.imported.layers_made import ONE, Step, Unsupported, Value

EPS = 1e-5


@converts("BatchNormalization")
def _batch_norm(step: Step) -> None:
    x = step.value()
    if len(x.sizes) < 2 or x.order[:2] != (0, 1):
        x = step.plain()
    scale, bias, mean, variance = (step.array(at) for at in (1, 2, 3, 4))
    keep = float(step.attribute("momentum", 0.9))
    # Caffe's sums of terms that fade by `keep`: their weight is 1 / (1 - keep) in the long run
    weight = 1 / (1 - keep) if keep < 1 else 1.0
    statistics = [mean * weight, variance * weight, np.array([weight])]
    options = {"eps": _eps(step), "moving_average_fraction": keep}
    normed = step.add("BatchNorm", [x.blob], x.sizes, statistics, batch_norm_param=options)
    _check(x, 1, scale, bias)
    y = _scaled(step, normed, 1, scale, bias)
    step.give(replace(y, order=x.order))


@converts("LayerNormalization")
def _layer_norm(step: Step) -> None:
    x = step.value()
    scale = step.array(1)
    given = step.fixed(2)
    bias = np.zeros_like(scale) if given is None else given.array
    rank = len(x.order)
    axis = int(step.attribute("axis", -1)) % rank
    if axis == rank - 1:
        place = x.axis(axis)
        options = {"axis": place, "eps": _eps(step)}
        normed = step.add("LayerNorm", [x.blob], x.sizes, layer_norm_param=options)
    elif axis == 1:
        x = step.straight(x)
        place = 1
        options = {"groups": 1, "eps": _eps(step)}
        normed = step.add("GroupNorm", [x.blob], x.sizes, group_norm_param=options)
    else:
        raise Unsupported("it normalises several axes, but not all of a row")
    _check(x, place, scale, bias)
    step.give(replace(_scaled(step, normed, place, scale, bias), order=x.order))


@converts("InstanceNormalization")
def _instance_norm(step: Step) -> None:
    x = step.plain()
    _grouped(step, x, x.sizes[1], step.array(1), step.array(2))


@converts("GroupNormalization")
def _group_norm(step: Step) -> None:
    x = step.plain()
    groups = int(step.attribute("num_groups"))
    scale, bias = step.array(1), step.array(2)
    if groups < 1 or x.sizes[1] % groups:
        raise Unsupported(f"found {groups} groups of {x.sizes[1]} channels")
    if step.opset < 21 and groups != x.sizes[1]:  # one number per group
        scale, bias = (np.repeat(each, x.sizes[1] // groups) for each in (scale, bias))
    _grouped(step, x, groups, scale, bias)


def _grouped(step: Step, x: Value, groups: int, scale: NDArray[Any], bias: NDArray[Any]) -> None:
    _check(x, 1, scale, bias)
    options = {"groups": groups, "eps": _eps(step)}
    normed = step.add("GroupNorm", [x.blob], x.sizes, group_norm_param=options)
    if (scale == 1).all() and not bias.any():  # scale and bias follow as nodes of their own
        step.give(normed)
    else:
        step.give(_scaled(step, normed, 1, scale, bias))


@converts("LRN")
def _lrn(step: Step) -> None:
    x = step.image()
    size = int(step.attribute("size"))
    if size % 2 == 0:
        raise Unsupported(f"its size is {size}, expected an odd number")
    options = {
        "local_size": size,
        "alpha": step.attribute("alpha", 1e-4),
        "beta": step.attribute("beta", 0.75),
        "k": step.attribute("bias", 1.0),
    }
    step.give(step.add("LRN", [x.blob], x.sizes, lrn_param=options))


def _eps(step: Step) -> float:
    return float(step.attribute("epsilon", EPS))


def _check(x: Value, axis: int, *arrays: NDArray[Any]) -> None:
    for array in arrays:
        if array.shape != x.sizes[axis : axis + array.ndim]:
            raise Unsupported(
                f"a parameter has shape {array.shape}, but x has {x.sizes[axis]} channels"
            )


def _scaled(step: Step, x: Value, axis: int, scale: NDArray[Any], bias: NDArray[Any]) -> Value:
    options: dict[str, Any] = {"bias_term": True, "filler": ONE}
    if axis != 1 or scale.ndim != 1:
        options |= {"axis": axis, "num_axes": scale.ndim}
    weights: Sequence[NDArray[Any]] = [scale, bias]
    return step.add("Scale", [x.blob], x.sizes, weights, part="scale", scale_param=options)
