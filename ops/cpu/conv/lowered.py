"""Convolution by lowering, `b_p` images at a time, each thread with a part of them (Omnivore,
section 3.2).

A thread lowers and multiplies its own images, b_p / threads at a time. With b_p = 1 there is one
image: one thread lowers it and all threads share its product, as in Caffe. Lowering itself is
`ops.reference.lowering`.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import Any

import numpy as np

from ops.cpu.elementwise.reduce import Reductions
from ops.cpu.gemm.dense import DenseKernels
from ops.cpu.team.team import Team
from ops.cpu.team.workspace import Workspace
from ops.errors import Array, Shape
from ops.geometry import ConvGeometry
from ops.reference import conv
from ops.reference.lowering import Lowering


class _Products(DenseKernels):
    """Products of matrices on one team."""

    name = "products"
    xp = np

    def __init__(self, team: Team) -> None:
        super().__init__()
        self.team = team
        self.workspace = Workspace()


class Lane:
    """NumPy, except that a team computes its products of matrices."""

    def __init__(self, team: Team) -> None:
        self._products = _Products(team)

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)

    def matmul(self, a: Array, b: Array, out: Array | None = None) -> Array:
        """a (M, K) b (K, N), into `out` if given."""
        return self._products.matmul(
            a, b, np.empty((a.shape[0], b.shape[1]), a.dtype) if out is None else out
        )


class LoweredConvolutions(Reductions):
    """The convolution methods of a `CpuBackend` with a `b_p`. Without a `b_p` they pass the call on
    to the next class."""

    @cached_property
    def _lanes(self) -> tuple[Lane, list[Lane], ThreadPoolExecutor]:
        lanes = [Lane(Team(1)) for _ in range(self.team.size)]
        return (
            Lane(self.team),
            lanes,
            ThreadPoolExecutor(self.team.size, thread_name_prefix="lowering"),
        )

    def _among_lanes(self, images: int, work: Callable[[Any, Lowering, slice, int], None]) -> int:
        """Call work(xp, lowering, its images, its number) for every lane; returns the number of
        lanes."""
        assert self.b_p is not None
        whole, lanes, pool = self._lanes
        count = max(1, min(self.team.size, self.b_p, images))
        if count == 1:
            work(whole, Lowering(self.b_p), slice(0, images), 0)
            return 1
        lowering = Lowering(self.b_p // count)
        jobs = []
        for number, lane in enumerate(lanes[:count]):
            part = slice(images * number // count, images * (number + 1) // count)
            jobs.append(pool.submit(work, lane, lowering, part, number))
        for job in jobs:
            job.result()
        return count

    def conv_forward(
        self, x: Array, w: Array, b: Array | None, geometry: ConvGeometry, out: Array | None = None,
        *, rectify: bool = False,
    ) -> Array:  # fmt: skip
        if self.b_p is None:
            return super().conv_forward(x, w, b, geometry, out, rectify=rectify)
        shape = conv.check_forward(x, w, b, geometry, out)
        y = conv.channel_major(np, shape, x.dtype) if out is None else out

        def work(xp: Any, lowering: Lowering, part: slice, number: int) -> None:
            conv.forward(xp, x[part], w, b, geometry, lowering, y[part], rectify)

        self._among_lanes(shape[0], work)
        return y

    def conv_backward_data(
        self, dy: Array, w: Array, geometry: ConvGeometry, in_shape: Shape, out: Array | None = None
    ) -> Array:
        if self.b_p is None:
            return super().conv_backward_data(dy, w, geometry, in_shape, out)
        conv.check_backward_data(dy, w, geometry, in_shape, out)
        dx = conv.channel_major(np, tuple(in_shape), dy.dtype) if out is None else out

        def work(xp: Any, lowering: Lowering, part: slice, number: int) -> None:
            shape = (part.stop - part.start, *in_shape[1:])
            conv.backward_data(xp, dy[part], w, geometry, shape, lowering, dx[part])

        self._among_lanes(in_shape[0], work)
        return dx

    def conv_backward_weights(
        self, x: Array, dy: Array, geometry: ConvGeometry, w_shape: Shape, *,
        bias: bool, out_w: Array | None = None, out_b: Array | None = None,
    ) -> tuple[Array, Array | None]:  # fmt: skip
        """Each lane sums up its own images."""
        if self.b_p is None:
            return super().conv_backward_weights(
                x, dy, geometry, w_shape, bias=bias, out_w=out_w, out_b=out_b
            )
        conv.check_backward_weights(x, dy, geometry, w_shape, out_w, out_b)
        dw = np.empty(w_shape, x.dtype) if out_w is None else out_w
        sums = [dw, *(np.empty(w_shape, x.dtype) for _ in range(1, self.team.size))]

        def work(xp: Any, lowering: Lowering, part: slice, number: int) -> None:
            conv.backward_weights(
                xp, x[part], dy[part], geometry, w_shape, lowering, False, sums[number], None
            )

        for number in range(1, self._among_lanes(x.shape[0], work)):
            dw += sums[number]
        return dw, self.channel_sums(dy, out_b) if bias else None
