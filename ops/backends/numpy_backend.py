"""The reference backend: NumPy arrays and NumPy's BLAS, every operation as `ops.reference` writes
it."""

from __future__ import annotations

import numpy as np

from ops.interface.backend import Backend


class NumpyBackend(Backend):
    """Backend "numpy". Option `b_p`: the number of images that are lowered for one GEMM, None for
    the whole batch."""

    name = "numpy"
    xp = np
