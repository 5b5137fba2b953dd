"""Images of an operation of which some are float32 and some bfloat16."""

from __future__ import annotations

from typing import overload

import numpy as np

from ops.cpu.team.image_layout import channels_last
from ops.cpu.team.operands import F32, LOADED
from ops.errors import BFLOAT16, Array


def lies_well(x: Array) -> bool:
    """Whether the kernels can read x in place: images with channels side by side."""
    return x.ndim == 4 and channels_last(x, LOADED)


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
    if x is None or x.dtype != BFLOAT16:
        return x
    one = np.zeros((1,) * x.ndim, F32)
    return np.lib.stride_tricks.as_strided(one, x.shape, (0,) * x.ndim, writeable=x.flags.writeable)
