"""Convolutions that try cuDNN: a stand-in for its frontend, on kernels compiled for the processor."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ops import Array, ConvGeometry, OpsError, get_backend
from ops.backends.cupy_backend import CupyBackend
from ops.cuda.conv.algorithm import Direction
from ops.cuda.image_layout import new_images
from tests.ops.host_cupy import HostCupy

FLOAT = np.dtype(np.float32)
SMALL = ConvGeometry((3, 3), pad=(1, 1))
Made = Callable[..., CupyBackend]


@functools.cache
def compiled_once() -> HostCupy:
    """NumPy with our kernels, shared by all backends of these tests."""
    try:
        double = HostCupy()
    except OpsError as missing:
        pytest.skip(str(missing))
    double.RawModule = functools.cache(double.RawModule)  # type: ignore[method-assign]
    return double


def convolved(
    backend: Any, geometry: ConvGeometry, channels: int = 4, outputs: int = 6, n: int = 3
) -> list[Array]:
    """Results of every pass over the same numbers: y, max(y, 0) with a bias, dx, dw, db."""
    random = np.random.default_rng(1)

    def given(*shape: int) -> Array:
        made = random.standard_normal(shape).astype(np.float32)
        if len(shape) != 4 or not isinstance(backend, CupyBackend):
            return made
        images = new_images(np, shape, FLOAT)
        images[...] = made
        return images

    x = given(n, channels, 9, 8)
    b = given(outputs)
    w = np.ascontiguousarray(given(outputs, channels // geometry.groups, *geometry.kernel))
    dy = given(*geometry.output_shape(x.shape, outputs))
    y = backend.conv_forward(x, w, None, geometry)
    rectified = backend.conv_forward(x, w, b, geometry, rectify=True)
    dx = backend.conv_backward_data(dy, w, geometry, x.shape)
    dw, db = backend.conv_backward_weights(x, dy, geometry, w.shape, bias=True)
    assert db is not None
    return [y, rectified, dx, dw, db]


def right(found: list[Array], geometry: ConvGeometry, *sizes: int) -> None:
    for got, expected in zip(found, convolved(get_backend("numpy"), geometry, *sizes), strict=True):
        np.testing.assert_allclose(got, expected, atol=1e-5 * np.abs(expected).max(), rtol=0)


def algorithms(backend: CupyBackend) -> list[type]:
    """The algorithms that the passes got, in the order of `Direction`."""
    chosen = backend.chooser._chosen
    return [
        type(chosen[key]) for key in sorted(chosen, key=lambda key: list(Direction).index(key[1]))
    ]


def told(caplog: pytest.LogCaptureFixture, level: int = logging.INFO) -> list[str]:
    """The lines of the cuDNN log, without the first, which has the version."""
    return [record.getMessage() for record in caplog.records if record.levelno >= level][
        level == logging.INFO :
    ]
