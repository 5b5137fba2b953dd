"""Fixtures of the ops tests: arrays that break layout assumptions, and NaN-filled destinations."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from types import ModuleType

import numpy as np
import pytest

from ops import Array, Backend, get_backend
from ops.backends.cupy_backend import CupyBackend
from tests.fake_cudnn import HERE
from tests.ops import tried


@pytest.fixture
def backend() -> Backend:
    return get_backend("numpy")


@pytest.fixture
def random() -> np.random.Generator:
    return np.random.default_rng(7)


@pytest.fixture
def cudnn(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The stand-in, in place of an installed cuDNN frontend."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "cudnn"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.syspath_prepend(str(HERE))
    import cudnn

    yield cudnn
    del sys.modules["cudnn"]


@pytest.fixture
def make(cudnn: ModuleType, caplog: pytest.LogCaptureFixture) -> tried.Made:
    """A function that makes backends over NumPy's arrays with the stand-in."""
    caplog.set_level(logging.INFO, "ops.cudnn")
    double = tried.compiled_once()
    return lambda cudnn="deterministic", **options: CupyBackend(xp=double, cudnn=cudnn, **options)


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
