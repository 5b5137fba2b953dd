"""The fast backend of the CPU: generated float32 kernels on a team of threads. The reference
computes everything else.

Results are stored as [H][W][N][C] behind logical NCHW views.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from ops.cpu.conv.depthwise_operations import DepthwiseConvolutions
from ops.cpu.elementwise.activation import Activations
from ops.cpu.elementwise.compression import Compression
from ops.cpu.elementwise.dropout import Dropouts
from ops.cpu.elementwise.embedding import Tables
from ops.cpu.elementwise.gates import Gates
from ops.cpu.elementwise.group_norm import GroupNormalisation
from ops.cpu.elementwise.layer_norm import LayerNormalisation
from ops.cpu.elementwise.lrn import ResponseNormalisation
from ops.cpu.elementwise.plane_factors import PlaneFactors
from ops.cpu.elementwise.pooling import Pooling
from ops.cpu.elementwise.rearrange import Rearrangement
from ops.cpu.elementwise.rectified_sums import RectifiedSums
from ops.cpu.elementwise.softmax import Softmax
from ops.cpu.elementwise.update import Updates
from ops.cpu.gemm.bfloat16_choice import best_blocks
from ops.cpu.gemm.products import BFLOAT16
from ops.cpu.recurrent.recurrent import RecurrentKernels
from ops.cpu.team.image_layout import TO_LOGICAL, empty_aligned, empty_images
from ops.cpu.team.operands import seen
from ops.cpu.team.recorder import Recorder
from ops.cpu.team.team import Team
from ops.cpu.team.workspace import Workspace
from ops.errors import Array, Shape, check_choice
from ops.interface.backend import Backend
from ops.recording import Recording

PRECISIONS = ("exact", "fast", BFLOAT16)


class CpuBackend(
    DepthwiseConvolutions,
    RecurrentKernels,
    PlaneFactors,
    Pooling,
    ResponseNormalisation,
    RectifiedSums,
    GroupNormalisation,
    LayerNormalisation,
    Activations,
    Gates,
    Dropouts,
    Updates,
    Rearrangement,
    Softmax,
    Tables,
    Compression,
    Backend,
):
    """Backend "cpu". Options: `b_p`; `threads` of the team; `precision`, "exact" (errors < 1e-5),
    "fast" (1e-4) or "bf16": images are stored in bfloat16, and the operands of products are rounded
    to it where that is faster. Raises KernelsMissing if it is faster nowhere on this processor."""

    name = "cpu"
    channels_last = joins = compiles = True

    def __init__(
        self, b_p: int | None = None, *, threads: int = 1, precision: str = "fast"
    ) -> None:
        super().__init__(b_p)
        check_choice("precision", precision, PRECISIONS)
        if precision == BFLOAT16:
            best_blocks()
        self.precision = precision
        self.stores_bfloat16 = precision == BFLOAT16 and b_p is None  # lowering is in float32
        self.team = Team(threads)
        self.workspace = Workspace()

    @property
    def xp(self) -> Any:  # the caller may do something that is not recorded
        """NumPy."""
        self.team.spoil()
        return np

    @property
    def replays_layers(self) -> bool:  # type: ignore[override]  # lowering computes by NumPy, too
        """Whether nets replay recordings of their layers."""
        return self.b_p is None

    def place_of(self, array: Array | None) -> tuple[Any, ...] | None:
        return None if array is None else seen(array)[1:]

    def record(self, pieces: Iterable[tuple[str, Callable[[], object]]]) -> Recording:
        recorder = Recorder(self.workspace)
        gap = ""
        with self.team.recording(recorder):
            for name, work in pieces:
                work()
                gap = gap if gap or recorder.whole else name
        return recorder.recording(self.team.run_all, gap)

    def empty(self, shape: Shape, dtype: Any = np.float32) -> Array:
        """Images (N, C, H, W) lie in memory as [H][W][N][C]."""
        self.team.spoil()  # the next result would lie elsewhere
        if self.memory is not None:
            return super().empty(shape, dtype)
        return empty_images(shape, dtype) if len(shape) == 4 else empty_aligned(shape, dtype)

    def carve(self, block: Array, offset: int, shape: Shape, dtype: Any = np.float32) -> Array:
        """Images are laid out as [H][W][N][C]."""
        if len(shape) != 4:
            return super().carve(block, offset, shape, dtype)
        n, c, h, w = shape
        return super().carve(block, offset, (h, w, n, c), dtype).transpose(TO_LOGICAL)
