"""Fixtures of the ops tests: arrays that break layout assumptions, and NaN-filled destinations."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from ops import Array, Backend, get_backend


@pytest.fixture
def backend() -> Backend:
    return get_backend("numpy")


@pytest.fixture
def random() -> np.random.Generator:
    return np.random.default_rng(7)


def strided(x: Array) -> Array:
    """The same values as [H][W][N][C] storage inside a larger block, contiguous along no axis."""
    order = (2, 3, 0, 1) if x.ndim == 4 else tuple(reversed(range(x.ndim)))
    back = tuple(int(k) for k in np.argsort(order))
    block = np.full([2 * s for s in x.transpose(order).shape], 77, x.dtype)
    view = block[tuple(slice(None, None, 2) for _ in order)]
    view[...] = x.transpose(order)
    return view.transpose(back)


def channel_major(x: Array) -> Array:
    """The same values stored as [C][N][H][W]."""
    return np.ascontiguousarray(x.transpose(1, 0, 2, 3)).transpose(1, 0, 2, 3)


def channels_last(x: Array) -> Array:
    """The same values stored as [H][W][N][C]."""
    return np.ascontiguousarray(x.transpose(2, 3, 0, 1)).transpose(2, 3, 0, 1)


LAYOUTS: list[Callable[[Array], Array]] = [
    np.ascontiguousarray,
    strided,
    channel_major,
    channels_last,
]


def nans(shape: tuple[int, ...], dtype: object = np.float64) -> Array:
    return np.full(shape, np.nan, dtype)  # type: ignore[call-overload, no-any-return]
