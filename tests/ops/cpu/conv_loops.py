"""Convolution by its definition, in float64 loops, and the memory layouts that its operands may
have."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np

from ops import Array
from ops.cpu.conv.algorithm import ConvShape


def in_memory(x: Array) -> Array:
    """The same values stored as [H][W][N][C]."""
    return np.ascontiguousarray(x.transpose(2, 3, 0, 1)).transpose(2, 3, 0, 1)


def image_by_image(x: Array) -> Array:
    """The same values stored as [N][H][W][C]."""
    return np.ascontiguousarray(x.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)


def row_by_row(x: Array) -> Array:
    """The same values stored as [H][N][W][C]."""
    return np.ascontiguousarray(x.transpose(2, 0, 3, 1)).transpose(1, 3, 0, 2)


def slice_of_channels(x: Array) -> Array:
    """The same values stored as [H][W][N][C] between other channels."""
    n, c, h, w = x.shape
    block = np.full((h, w, n, c + 8), np.nan, x.dtype)
    block[..., 5 : 5 + c] = x.transpose(2, 3, 0, 1)
    return block[..., 5 : 5 + c].transpose(2, 3, 0, 1)


LAYOUTS = (in_memory, image_by_image, slice_of_channels)


@dataclass(frozen=True)
class Case:
    """Operands, and the three results by float64 loops."""

    x: Array
    w: Array
    b: Array
    dy: Array
    y: Array
    dx: Array
    dw: Array


@functools.cache
def operands(shape: ConvShape) -> tuple[Array, Array, Array, Array]:
    """x, w, b and dy in float32."""
    random = np.random.default_rng(5)
    sizes = shape.in_shape, shape.weight_shape, (shape.outputs,), shape.out_shape
    x, w, b, dy = (random.standard_normal(size, dtype=np.float32) for size in sizes)
    return x, w, b, dy


@functools.cache
def case(shape: ConvShape) -> Case:
    """The operands in float64, with their results."""
    x, w, b, dy = (part.astype(np.float64) for part in operands(shape))
    return convolved(shape, x, w, b, dy)


def convolved(shape: ConvShape, x: Array, w: Array, b: Array, dy: Array) -> Case:
    """The results of these operands."""
    g = shape.geometry
    y = np.zeros(dy.shape) + b[None, :, None, None]
    dx = np.zeros(x.shape)
    dw = np.zeros(w.shape)
    k_each = shape.outputs // g.groups
    c_each = w.shape[1]
    for group, p, q, i, j in np.ndindex(g.groups, *dy.shape[2:], *g.kernel):
        r, s = (
            at * g.stride[a] - g.pad[a] + tap * g.dilation[a]
            for a, at, tap in ((0, p, i), (1, q, j))
        )
        if 0 <= r < x.shape[2] and 0 <= s < x.shape[3]:
            k, c = (slice(group * each, (group + 1) * each) for each in (k_each, c_each))
            y[:, k, p, q] += x[:, c, r, s] @ w[k, :, i, j].T
            dx[:, c, r, s] += dy[:, k, p, q] @ w[k, :, i, j]
            dw[k, :, i, j] += dy[:, k, p, q].T @ x[:, c, r, s]
    return Case(x, w, b, dy, y, dx, dw)
