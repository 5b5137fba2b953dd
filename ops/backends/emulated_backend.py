"""The backend of an emulated device: arrays of true shapes whose numbers mean nothing, and
operations that compute nothing.

All its arrays lie in one block of zeros, so hundreds of emulated workers cost the memory of the
largest array. It has the operations that servers apply to parameters and gradients (updates, sums,
wire formats). Layers are never run on it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ops.errors import Array, OpsError, Shape
from ops.interface.backend import Backend
from ops.interface.updates import Parameter

# [H][W][N][C] -> N, C, H, W: images travel as the compiled kernels lay them out
TO_LOGICAL = (2, 3, 0, 1)


class EmulatedBackend(Backend):
    """Backend "emulated". Arrays are NumPy's. Numbers written to one array may show in any
    other."""

    name = "emulated"
    xp = np
    channels_last = True
    _zeros = np.zeros(0, np.uint8)

    def empty(self, shape: Shape, dtype: Any = np.float32) -> Array:
        """Return an array of this shape, in the memory that all arrays share; images lie as
        [H][W][N][C]."""
        size = math.prod(shape) * np.dtype(dtype).itemsize
        if size > EmulatedBackend._zeros.size:
            # untouched pages take no memory
            EmulatedBackend._zeros = np.zeros(size, np.uint8)
        return self.carve(EmulatedBackend._zeros, 0, shape, dtype)

    def carve(self, block: Array, offset: int, shape: Shape, dtype: Any = np.float32) -> Array:
        """Images are laid out as [H][W][N][C]."""
        if len(shape) != 4:
            return super().carve(block, offset, shape, dtype)
        n, c, h, w = shape
        return super().carve(block, offset, (h, w, n, c), dtype).transpose(TO_LOGICAL)

    def zeros(self, shape: Shape, dtype: Any = np.float32) -> Array:
        """Return an array as `empty` does."""
        return self.empty(shape, dtype)

    def copy(self, x: Array, out: Array) -> Array:
        """Copy nothing."""
        return out

    def add(self, a: Array, b: Array, out: Array | None = None) -> Array:
        """Return an array of the sum's shape."""
        return a if out is None else out

    def add_all(self, arrays: Sequence[Array], out: Array | None = None) -> Array:
        """Return an array of the sum's shape."""
        return arrays[0] if out is None else out

    def l2_norm_squared(self, x: Array) -> float:
        """Return 0.0."""
        return 0.0

    def sgd_update(self, w: Array, *args: Any, **kwargs: Any) -> tuple[Array, Array]:
        """Change nothing."""
        return _unchanged(w, args, kwargs)

    def nesterov_update(self, w: Array, *args: Any, **kwargs: Any) -> tuple[Array, Array]:
        """Change nothing."""
        return _unchanged(w, args, kwargs)

    def adagrad_update(self, w: Array, *args: Any, **kwargs: Any) -> tuple[Array, Array]:
        """Change nothing."""
        return _unchanged(w, args, kwargs)

    def rmsprop_update(self, w: Array, *args: Any, **kwargs: Any) -> tuple[Array, Array]:
        """Change nothing."""
        return _unchanged(w, args, kwargs)

    def adadelta_update(self, w: Array, *args: Any, **kwargs: Any) -> tuple[Array, Array, Array]:
        """Change nothing."""
        return (*_unchanged(w, args, kwargs), args[2])

    def adam_update(self, w: Array, *args: Any, **kwargs: Any) -> tuple[Array, Array, Array]:
        """Change nothing."""
        return (*_unchanged(w, args, kwargs), args[2])

    def sgdw_update(self, w: Array, *args: Any, **kwargs: Any) -> tuple[Array, Array]:
        """Change nothing."""
        return _unchanged(w, args, kwargs)

    def adamw_update(self, w: Array, *args: Any, **kwargs: Any) -> tuple[Array, Array, Array]:
        """Change nothing."""
        return (*_unchanged(w, args, kwargs), args[2])

    def lars_update(self, w: Array, *args: Any, **kwargs: Any) -> tuple[Array, Array]:
        """Change nothing."""
        return _unchanged(w, args, kwargs)

    def muon_update(self, w: Array, *args: Any, **kwargs: Any) -> tuple[Array, Array]:
        """Change nothing."""
        return _unchanged(w, args, kwargs)

    def muon_together(self, parameters: Sequence[Parameter], **kwargs: Any) -> None:
        """Change nothing."""

    def moving_average(
        self, average: Array, w: Array, keep: float, out: Array | None = None
    ) -> Array:
        """Change nothing."""
        return average if out is None else out

    def _half_encode(self, x: Array, kind: str, out: Array) -> Array:
        return out

    def _half_decode(self, bits: Array, out: Array) -> Array:
        return out

    def _one_bit_encode(
        self, x: Array, error: Array, signs: Array, means: Array
    ) -> tuple[Array, Array]:
        return signs, means

    def _one_bit_decode(self, signs: Array, means: Array, out: Array) -> Array:
        return out

    def _scaled_encode(
        self, x: Array, error: Array, bits: int, codes: Array, steps: Array
    ) -> tuple[Array, Array]:
        return codes, steps

    def _scaled_decode(self, codes: Array, steps: Array, bits: int, out: Array) -> Array:
        return out

    def _threshold_encode(self, x: Array, error: Array, tau: float) -> tuple[Array, Array]:
        raise OpsError(
            "threshold_encode: the amount sent depends on the gradients' values, which "
            "an emulated device does not have"
        )

    def _threshold_decode(self, codes: Array, steps: Array, out: Array) -> Array:
        return out


def _unchanged(w: Array, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Array, Array]:
    """Return the array where the new parameter is expected, and the history (the updates' arguments
    are w, g, history, ...)."""
    out: Array | None = kwargs.get("out_w")
    return (w if out is None else out), args[1]
