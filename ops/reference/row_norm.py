"""Normalisation within a row: over groups of channels (Wu and He 2018), or along one axis, such as
the channels of each place (Ba et al. 2016).

No statistic depends on other rows. Learned scale and bias are not handled here.
"""

from __future__ import annotations

from typing import Any

from ops.errors import (
    Array,
    OpsError,
    Shape,
    check_alike,
    check_axis,
    check_float,
    check_out,
    check_shape,
)
from ops.reference.normalise import without_mean_and_slope


def group_norm_forward(
    xp: Any, x: Array, groups: int, eps: float, out: Array | None, inverse: Array | None
) -> tuple[Array, Array]:
    """y = (x - mean) / sqrt(variance + eps) over each group of channels of each row -> (y, 1 /
    sqrt(variance + eps) (N, groups)). out may be x."""
    op = "group_norm_forward"
    y = _checked(xp, op, x, out)
    by_group = _by_group(op, x, groups)
    y_by_group = _by_group(op, y, groups)
    check_out(op, "inverse", inverse, (x.shape[0], groups), x.dtype)
    axes = tuple(range(2, by_group.ndim))
    return y, _normalise(xp, by_group, axes, eps, y_by_group, inverse)


def group_norm_backward(
    xp: Any, dy: Array, y: Array, inverse: Array, groups: int, out: Array | None
) -> Array:
    """dx = (dy - mean(dy) - y mean(dy y)) * inverse, means over each group. out may be dy."""
    op = "group_norm_backward"
    check_alike(op, out, dy=dy, y=y)
    check_float(op, dy=dy, inverse=inverse)
    check_shape(op, "inverse", inverse, (dy.shape[0], groups))
    dx = _checked(xp, op, dy, out)
    by_group, y_by_group, dx_by_group = (_by_group(op, a, groups) for a in (dy, y, dx))
    axes = tuple(range(2, by_group.ndim))
    _backward(xp, by_group, y_by_group, inverse, axes, dx_by_group)
    return dx


def layer_norm_forward(
    xp: Any, x: Array, axis: int, eps: float, out: Array | None, inverse: Array | None
) -> tuple[Array, Array]:
    """y = (x - mean) / sqrt(variance + eps) along one axis -> (y, 1 / sqrt(variance + eps) of x's
    shape without that axis). out may be x."""
    op = "layer_norm_forward"
    y = _checked(xp, op, x, out)
    axis = check_axis(op, axis, x.ndim)
    check_out(op, "inverse", inverse, without(x.shape, axis), x.dtype)
    return y, _normalise(xp, x, (axis,), eps, y, inverse)


def layer_norm_backward(
    xp: Any, dy: Array, y: Array, inverse: Array, axis: int, out: Array | None
) -> Array:
    """dx = (dy - mean(dy) - y mean(dy y)) * inverse, means along the axis. out may be dy."""
    op = "layer_norm_backward"
    check_alike(op, out, dy=dy, y=y)
    check_float(op, dy=dy, inverse=inverse)
    axis = check_axis(op, axis, dy.ndim)
    check_shape(op, "inverse", inverse, without(dy.shape, axis))
    dx = _checked(xp, op, dy, out)
    _backward(xp, dy, y, inverse, (axis,), dx)
    return dx


def without(shape: Shape, axis: int) -> Shape:
    """The shape without one of its axes."""
    return (*shape[:axis], *shape[axis + 1 :])


def _checked(xp: Any, op: str, x: Array, out: Array | None) -> Array:
    """Return the destination, after a check of x."""
    check_alike(op, out, x=x)
    if x.ndim < 2 or x.size == 0:
        raise OpsError(
            f"{op}: x has shape {tuple(x.shape)}, expected (N, C, ...) with no empty axis"
        )
    return xp.empty_like(x) if out is None else out


def _by_group(op: str, x: Array, groups: int) -> Array:
    """x as (N, groups, channels of a group, ...), a view whatever its strides."""
    if groups < 1 or x.shape[1] % groups:
        raise OpsError(f"{op}: groups is {groups}, expected a divisor of {x.shape[1]} channels")
    return x.reshape(x.shape[0], groups, x.shape[1] // groups, *x.shape[2:])


def _normalise(
    xp: Any, x: Array, axes: tuple[int, ...], eps: float, y: Array, inverse: Array | None
) -> Array:
    """Write y; return 1 / sqrt(variance + eps), in `inverse` if it is given."""
    xp.subtract(x, x.mean(axis=axes, keepdims=True), out=y)
    found = xp.square(y).mean(axis=axes, keepdims=True)
    found += float(eps)
    xp.sqrt(found, out=found)
    xp.divide(1, found, out=found)
    y *= found
    kept: Array = found.reshape(tuple(size for at, size in enumerate(x.shape) if at not in axes))
    if inverse is None:
        return kept
    inverse[...] = kept
    return inverse


def _backward(
    xp: Any, dy: Array, y: Array, inverse: Array, axes: tuple[int, ...], dx: Array
) -> None:
    without_mean_and_slope(xp, dy, y, axes, dx)
    dx *= inverse.reshape(tuple(1 if at in axes else size for at, size in enumerate(dy.shape)))
