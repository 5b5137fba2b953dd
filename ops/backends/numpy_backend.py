"""The reference backend: NumPy arrays and its BLAS, every operation as the families write it."""

from __future__ import annotations

import numpy as np

from ops.interface.backend import Backend


class NumpyBackend(Backend):
    """Backend "numpy". Option `b_p`: how many images are lowered for one GEMM, None for the whole
    batch."""

    name = "numpy"
    xp = np
