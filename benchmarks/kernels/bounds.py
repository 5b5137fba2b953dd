"""The rates of this machine that bound a kernel, measured in the same run as the kernel."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from benchmarks.helpers.report import medians, rounds

COPIED = 256 << 20  # bytes of the copy that measures the memory
SIDES = (1024, 2048)  # rows and columns of the products that measure the arithmetic


@dataclass(frozen=True)
class Bounds:
    """GB/s of a copy, and GFLOP/s of the best product of large matrices: in the backend's precision,
    and in float32."""

    copied: float
    multiplied: float
    plain: float

    def seconds(self, flops: float, size: float, *, plain: bool = False) -> float:
        """The least seconds of a kernel with so many FLOPs, whose arrays have `size` bytes. `plain`:
        it multiplies in float32 in every precision."""
        rate = self.plain if plain else self.multiplied
        return max(flops / rate, size / self.copied) / 1e9

    def facts(self) -> dict[str, float]:
        """The rates as facts of a record."""
        found = {
            "GB/s of a copy of 256 MB": self.copied,
            "GFLOP/s of the best product of large matrices": self.multiplied,
        }
        if self.plain != self.multiplied:
            found["the same in float32"] = self.plain
        return {name: round(rate, 1) for name, rate in found.items()}


def measured(ops: Any, seconds: float) -> Bounds:
    """The bounds of the kernels of a backend, with its threads."""
    from ops import get_backend

    multiplied = plain = product_rate(ops, seconds)
    if ops.stores_bfloat16:
        plain = product_rate(get_backend("cpu", threads=ops.team.size), seconds)
    return Bounds(copy_rate(ops, seconds), multiplied, plain)


def copy_rate(ops: Any, seconds: float) -> float:
    """GB/s that a copy reads and writes."""
    source = ops.empty((COPIED // 4,))
    target = ops.empty((COPIED // 4,))
    source.fill(1)
    taken = medians(rounds({"copy": lambda: ops.copy(source, target)}, seconds, least=3, most=400))
    return 2 * COPIED / taken["copy"] / 1e9


def product_rate(ops: Any, seconds: float) -> float:
    """GFLOP/s of the fastest product of two large square matrices."""
    rng = np.random.default_rng(0)
    found = []
    for side in SIDES:
        a, b = (rng.standard_normal((side, side), dtype=np.float32) for _ in range(2))
        product = partial(ops.matmul, a, b, np.empty_like(a))
        taken = medians(rounds({"product": product}, seconds, least=3, most=400))
        found.append(2 * side**3 / taken["product"] / 1e9)
    return max(found)
