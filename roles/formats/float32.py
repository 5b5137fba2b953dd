"""Numbers as they are: float32, and in a run in double precision float64."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from ops import Array, OpsError, Shape
from roles.formats.format import Format


def check_array(array: Array, shape: Shape, dtype: np.dtype[Any]) -> None:
    """OpsError unless the array is one of numbers of this type and shape."""
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
        """See Format.encode."""
        return (blob,)

    def decode(self, parts: Sequence[Array], shape: Shape) -> Array:
        """See Format.decode."""
        check_array(parts[0], shape, self.dtype)
        return parts[0]

    def size(self, numbers: int) -> int:
        """See Format.size."""
        return numbers * self.dtype.itemsize


class Float64(Float32, listed=False):
    """What "float32" stands for in a run in double precision, which has no other format."""

    name = "float64"
    dtype = np.dtype(np.float64)
