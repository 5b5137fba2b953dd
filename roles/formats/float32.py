"""Numbers as they are: float32, or float64 in a run in double precision."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from ops import Array, OpsError, Shape
from roles.formats.format import Format


def check_array(array: Array, shape: Shape, dtype: np.dtype[Any]) -> None:
    """Raise OpsError unless the array has this shape and dtype."""
    if array.shape != shape or array.dtype != dtype:
        raise OpsError(
            f"found {array.dtype} of shape {array.shape}, expected {dtype} of shape {shape}"
        )


class Float32(Format):
    """nothing, and nothing is copied"""

    name = "float32"
    bytes_said = "4 n"
    dtype: ClassVar[np.dtype[Any]] = np.dtype(np.float32)

    def encode(self, blob: Array, error: Array) -> Sequence[Array]:
        return (blob,)

    def decode(self, parts: Sequence[Array], shape: Shape) -> Array:
        check_array(parts[0], shape, self.dtype)
        return parts[0]

    def size(self, numbers: int) -> int:
        return numbers * self.dtype.itemsize


class Float64(Float32, listed=False):
    """The format that "float32" stands for in a run in double precision, where it is the only
    format."""

    name = "float64"
    dtype = np.dtype(np.float64)
