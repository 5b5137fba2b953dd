"""The choice of a plan for each product: in bfloat16 where that is wanted and faster, else in
float32. The one place that decides by shape."""

from __future__ import annotations

from typing import TypeAlias

from ops.cpu.gemm.bfloat16_product import BFloat16Product, planned_bfloat16
from ops.cpu.gemm.gemm import Product, Strides, planned
from ops.cpu.team.team import Team

BFLOAT16 = "bf16"  # the precision whose products are in bfloat16
Plan: TypeAlias = Product | BFloat16Product
# The least sizes for which rounding and packing pay: a smaller product took 0.6 to 1.1 times as
# long in float32, a larger one 1.1 to 9 times (891 shapes on one core with AMX).
LEAST_EDGE = 32
LEAST_PRODUCTS = 1 << 18


def pays(m: int, n: int, k: int) -> bool:
    """Whether a product (m, k) (k, n) is faster in bfloat16, on a processor with fast
    instructions."""
    return min(m, n, k) >= LEAST_EDGE and m * n * k >= LEAST_PRODUCTS


def planned_as(
    precision: str,
    team: Team,
    shape: tuple[int, int, int],
    a: Strides,
    b: Strides,
    c: Strides,
    *,
    bias: bool = False,
) -> Plan | None:
    """The plan of C (m, n) = A (m, k) B (k, n) + bias in a precision of the CPU backend. None if no
    kernel takes these layouts."""
    found = None
    if precision == BFLOAT16 and pays(*shape):
        found = planned_bfloat16(team, shape, a, b, c, bias=bias)
    return found or planned(team, shape, a, b, c, bias=bias)
