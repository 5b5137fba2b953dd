"""Arithmetic of a graph on constants: the nodes that only compute shapes and parameters.

The number of rows of a batch is not known. In shapes the number ROWS stands for it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from nets.imported.model_file import Node
from nets.imported.tensors import DTYPES

ROWS = 1_000_003  # a prime: no size of a net is a multiple of it
MOST_COMPUTED = 2**26  # numbers of an array that is computed, 256 MB
# operators that keep the numbers of parameters, and only arrange them
ARRANGES = frozenset(
    {"Identity", "Cast", "CastLike", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Gather"}
    | {"Slice", "Concat", "Split", "Transpose", "Expand"}
)
Constant: TypeAlias = NDArray[Any]
Fold: TypeAlias = Callable[[Node, Sequence[Constant]], "Constant | list[Constant]"]


class CannotFold(Exception):
    """A node of constants that cannot be computed, with the reason."""


def fold(node: Node, inputs: Sequence[Constant | None]) -> list[Constant]:
    """Compute a node whose inputs are all constants. Raises CannotFold."""
    folded = FOLDS.get(node.kind)
    if folded is None:
        raise CannotFold(
            "its inputs are all constants, and this operator is not computed in advance"
        )
    given = list(inputs)
    while given and given[-1] is None:
        given.pop()
    present = [each for each in given if each is not None]
    if len(present) != len(given):
        raise CannotFold("an input in the middle is left out")
    try:
        with np.errstate(all="ignore"):
            found = folded(node, present)
    except (ValueError, IndexError, TypeError, ZeroDivisionError, OverflowError, KeyError) as error:
        raise CannotFold(f"its constants do not fit: {error}") from None
    return [np.asarray(each) for each in (found if isinstance(found, list) else [found])]


def axes_of(node: Node, inputs: Sequence[Constant], at: int = 1) -> tuple[int, ...] | None:
    """Return the axes that a node names by an attribute or by input `at`; None: all."""
    if "axes" in node.attributes:
        return tuple(node.attributes["axes"])
    return tuple(int(axis) for axis in inputs[at].ravel()) if len(inputs) > at else None


def slices_of(node: Node, rank: int, inputs: Sequence[Constant]) -> tuple[slice, ...]:
    """Return a Slice's slice of each axis."""
    starts, ends = (inputs[at].ravel().tolist() for at in (1, 2))
    axes = inputs[3].ravel().tolist() if len(inputs) > 3 else range(len(starts))
    steps = inputs[4].ravel().tolist() if len(inputs) > 4 else [1] * len(starts)
    found = [slice(None)] * rank
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        last = None if step < 0 and end < -(2**31) else end
        found[axis] = slice(start, last, step)
    return tuple(found)


def _checked(shape: Sequence[int]) -> tuple[int, ...]:
    """Return a shape that arithmetic makes. Raises ValueError if it is too large for constants."""
    sizes = tuple(int(size) for size in shape)
    if math.prod(sizes) > MOST_COMPUTED:
        raise ValueError(f"an array of shape {sizes}")
    return sizes


def _binary(operation: Callable[[Any, Any], Any]) -> Fold:
    def folded(node: Node, inputs: Sequence[Constant]) -> Constant:
        a, b = inputs
        _checked(np.broadcast_shapes(a.shape, b.shape))
        return np.asarray(operation(a, b))

    return folded


def _unary(operation: Callable[[Any], Any]) -> Fold:
    return lambda node, inputs: np.asarray(operation(inputs[0]))


def _divide(a: Constant, b: Constant) -> Constant:
    if a.dtype.kind in "iu":
        return np.asarray(np.fix(a / b)).astype(a.dtype)
    return np.asarray(a / b)


def _reduced(operation: Callable[..., Any]) -> Fold:
    def folded(node: Node, inputs: Sequence[Constant]) -> Constant:
        axes = axes_of(node, inputs)
        keep = bool(node.attributes.get("keepdims", 1))
        return np.asarray(operation(inputs[0], axis=axes or None, keepdims=keep))

    return folded


def _cast(node: Node, inputs: Sequence[Constant]) -> Constant:
    dtype = DTYPES[node.attributes["to"]]
    return inputs[0].astype(np.float32 if dtype.kind == "f" else dtype)


def _reshape(node: Node, inputs: Sequence[Constant]) -> Constant:
    x, shape = inputs
    sizes = [x.shape[at] if size == 0 else int(size) for at, size in enumerate(shape.ravel())]
    return x.reshape(sizes)


def _squeeze(node: Node, inputs: Sequence[Constant]) -> Constant:
    return np.squeeze(inputs[0], axis=axes_of(node, inputs))


def _unsqueeze(node: Node, inputs: Sequence[Constant]) -> Constant:
    return np.expand_dims(inputs[0], axes_of(node, inputs) or ())


def _gather(node: Node, inputs: Sequence[Constant]) -> Constant:
    x, places = inputs
    axis = node.attributes.get("axis", 0)
    _checked([x.size // max(1, x.shape[axis]), places.size])
    return np.asarray(np.take(x, places, axis=axis))


def _slice(node: Node, inputs: Sequence[Constant]) -> Constant:
    return np.asarray(inputs[0][slices_of(node, inputs[0].ndim, inputs)])


def _concat(node: Node, inputs: Sequence[Constant]) -> Constant:
    return np.concatenate(inputs, axis=node.attributes["axis"])


def _split(node: Node, inputs: Sequence[Constant]) -> list[Constant]:
    axis = node.attributes.get("axis", 0)
    sizes = inputs[1].tolist() if len(inputs) > 1 else None
    at = np.cumsum(sizes)[:-1] if sizes else len(node.outputs)
    return list(np.split(inputs[0], at, axis=axis))


def _transpose(node: Node, inputs: Sequence[Constant]) -> Constant:
    return inputs[0].transpose(node.attributes.get("perm"))


def _where(node: Node, inputs: Sequence[Constant]) -> Constant:
    condition, a, b = inputs
    _checked(np.broadcast_shapes(condition.shape, a.shape, b.shape))
    return np.where(condition, a, b)


def _clip(node: Node, inputs: Sequence[Constant]) -> Constant:
    low, high = (inputs[at] if len(inputs) > at else None for at in (1, 2))
    return np.asarray(np.clip(inputs[0], low, high)).astype(inputs[0].dtype)


def _batch_norm(node: Node, inputs: Sequence[Constant]) -> Constant:
    """Standardised weights: torch writes them as a batch normalisation of parameters."""
    x, scale, bias, mean, variance = inputs[:5]
    if node.attributes.get("training_mode"):
        axes = tuple(axis for axis in range(x.ndim) if axis != 1)
        mean, variance = x.mean(axes), x.var(axes)
    shape = (-1, *(1,) * (x.ndim - 2))
    root = np.sqrt(variance + node.attributes.get("epsilon", 1e-5))
    factors, middle = (scale / root).reshape(shape), mean.reshape(shape)
    return np.asarray((x - middle) * factors + bias.reshape(shape))


def _constant_of_shape(node: Node, inputs: Sequence[Constant]) -> Constant:
    value = node.attributes.get("value")
    number = 0.0 if value is None else value.array.ravel()[0]
    return np.full(_checked(inputs[0].ravel().tolist()), number, np.asarray(number).dtype)


def _expand(node: Node, inputs: Sequence[Constant]) -> Constant:
    shape = np.broadcast_shapes(inputs[0].shape, _checked(inputs[1].ravel().tolist()))
    return np.broadcast_to(inputs[0], _checked(shape))


def _range(node: Node, inputs: Sequence[Constant]) -> Constant:
    start, limit, delta = (each.item() for each in inputs)
    _checked([max(0, math.ceil((limit - start) / delta))])
    return np.arange(start, limit, delta, dtype=inputs[0].dtype)


FOLDS: dict[str, Fold] = {
    "Add": _binary(np.add),
    "Sub": _binary(np.subtract),
    "Mul": _binary(np.multiply),
    "Div": _binary(_divide),
    "Pow": _binary(np.power),
    "Mod": _binary(np.mod),
    "Min": _binary(np.minimum),
    "Max": _binary(np.maximum),
    "Equal": _binary(np.equal),
    "Less": _binary(np.less),
    "Greater": _binary(np.greater),
    "And": _binary(np.logical_and),
    "Or": _binary(np.logical_or),
    "Not": _unary(np.logical_not),
    "Sqrt": _unary(np.sqrt),
    "Neg": _unary(np.negative),
    "Abs": _unary(np.abs),
    "Exp": _unary(np.exp),
    "Log": _unary(np.log),
    "Floor": _unary(np.floor),
    "Ceil": _unary(np.ceil),
    "Reciprocal": _unary(lambda x: 1 / x),
    "Sigmoid": _unary(lambda x: 1 / (1 + np.exp(-x))),
    "Tanh": _unary(np.tanh),
    "Identity": _unary(lambda x: x),
    "Shape": lambda node, inputs: shape_constant(node, inputs[0].shape),
    "Size": lambda node, inputs: np.array(inputs[0].size),
    "ReduceMean": _reduced(np.mean),
    "ReduceSum": _reduced(np.sum),
    "ReduceProd": _reduced(np.prod),
    "ReduceMax": _reduced(np.max),
    "ReduceMin": _reduced(np.min),
    "ReduceL2": _reduced(lambda x, **how: np.sqrt(np.sum(x * x, **how))),
    "Clip": _clip,
    "BatchNormalization": _batch_norm,
    "CastLike": lambda node, inputs: inputs[0].astype(inputs[1].dtype),
    "Where": _where,
    "Cast": _cast,
    "Reshape": _reshape,
    "Flatten": lambda node, inputs: inputs[0].reshape(
        math.prod(inputs[0].shape[: node.attributes.get("axis", 1)]), -1
    ),
    "Squeeze": _squeeze,
    "Unsqueeze": _unsqueeze,
    "Gather": _gather,
    "Slice": _slice,
    "Concat": _concat,
    "Split": _split,
    "Transpose": _transpose,
    "ConstantOfShape": _constant_of_shape,
    "Expand": _expand,
    "Range": _range,
}


def shape_constant(node: Node, shape: Sequence[int]) -> Constant:
    """Return the result of a Shape node for a value of this shape."""
    start, end = node.attributes.get("start", 0), node.attributes.get("end")
    return np.array(shape[start:end], np.int64)
