"""Images of an operation of which some are float32 and some bfloat16."""

from __future__ import annotations

import functools
from typing import overload

import numpy as np

from ops.errors import BFLOAT16, Array, Shape


def any_narrow(*images: Array) -> bool:
    """Whether some of the images are bfloat16."""
    return any(x.dtype == BFLOAT16 for x in images)


@overload
def checked(x: Array) -> Array: ...


@overload
def checked(x: Array | None) -> Array | None: ...


def checked(x: Array | None) -> Array | None:
    """x, or in place of a bfloat16 array a float32 array of its shape for the checks of the
    reference, which knows one type in a call."""
    if x is None or getattr(x, "dtype", None) != BFLOAT16:
        return x
    return _made_up(tuple(x.shape), getattr(x.flags, "writeable", True))


@functools.lru_cache(maxsize=1024)  # a step asks for each of its shapes several times
def _made_up(shape: Shape, writeable: bool) -> Array:
    """A float32 array of this shape over one number."""
    one = np.zeros((1,) * len(shape), np.float32)
    return np.lib.stride_tricks.as_strided(one, shape, (0,) * len(shape), writeable=writeable)
