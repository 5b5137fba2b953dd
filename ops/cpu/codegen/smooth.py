"""exp, sigmoid and tanh of float32 vectors, as LLVM IR.

Errors: sigmoid 2e-7 absolute, tanh 3e-7 relative (tests hold them to 1e-6). Infinities give the
limits, NaN stays NaN.
"""

from __future__ import annotations

import math

from llvmlite import ir

from ops.cpu.codegen.ir_tools import I32, Vectors, declared

LOWEST = -87.0  # exp(LOWEST) is still a normal number
# 1.5 * 2^23: adding it rounds to a whole number, which then stands in the lowest bits
ROUND = 12582912.0
LN2_HIGH = 0.693359375  # it has few bits, so its whole multiples are exact
LN2_LOW = -2.12194440e-4
# Cephes' expf
EXP = (1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 0.5)
# Cephes' tanhf
TANH = (-5.70498872745e-3, 2.06390887954e-2, -5.37397155531e-2, 1.33314422036e-1, -3.33332819422e-1)
SMALL = 0.625  # below it tanh is a polynomial: 1 - exp(..) would lose digits


def magnitude(v: Vectors, x: ir.Value) -> ir.Value:
    """|x|."""
    return v.b.call(declared(v.b, f"llvm.fabs.v{v.lanes}f32", v.type, [v.type]), [x])


def exp_negative(v: Vectors, x: ir.Value) -> ir.Value:
    """exp(-x) for x >= 0."""
    b = v.b
    x = b.fneg(x)
    x = b.select(b.fcmp_ordered("<", x, v.constant(LOWEST)), v.constant(LOWEST), x)
    shifted = v.fma(x, v.constant(1 / math.log(2)), v.constant(ROUND))
    whole = b.fsub(shifted, v.constant(ROUND))
    rest = v.fma(whole, v.constant(-LN2_LOW), v.fma(whole, v.constant(-LN2_HIGH), x))
    value = v.constant(EXP[0])
    for factor in EXP[1:]:
        value = v.fma(value, rest, v.constant(factor))
    value = b.fadd(v.fma(value, b.fmul(rest, rest), rest), v.constant(1))
    integers = ir.VectorType(I32, v.lanes)
    power = b.shl(b.bitcast(shifted, integers), ir.Constant(integers, [23] * v.lanes))
    power = b.add(power, b.bitcast(v.constant(1), integers))
    return b.fmul(value, b.bitcast(power, v.type))


def inverses(v: Vectors, numbers: list[ir.Value]) -> list[ir.Value]:
    """1 / x of numbers from 1 to 2. Every four numbers share one division, which takes as long as
    16 products."""
    b = v.b
    if len(numbers) == 1:
        return [b.fdiv(v.constant(1), numbers[0])]
    half = len(numbers) // 2
    left = numbers[:half]
    right = numbers[half:]
    if len(numbers) > 4:
        return [*inverses(v, left), *inverses(v, right)]
    product_left = _product(v, left)
    product_right = _product(v, right)
    whole = b.fdiv(v.constant(1), b.fmul(product_left, product_right))
    found = []
    for part, inverse in (
        (left, b.fmul(whole, product_right)),
        (right, b.fmul(whole, product_left)),
    ):
        found += (
            [inverse] if len(part) == 1 else [b.fmul(inverse, part[1]), b.fmul(inverse, part[0])]
        )
    return found


def _product(v: Vectors, numbers: list[ir.Value]) -> ir.Value:
    return numbers[0] if len(numbers) == 1 else v.b.fmul(numbers[0], numbers[1])


def bounded(v: Vectors, sigmoids: list[ir.Value], tanhs: list[ir.Value]) -> list[ir.Value]:
    """The sigmoid of each number of the first list, then the tanh of each of the second."""
    b = v.b
    sizes = [magnitude(v, x) for x in (*sigmoids, *tanhs)]
    doubled = [b.fadd(size, size) for size in sizes[len(sigmoids) :]]
    falling = [exp_negative(v, x) for x in (*sizes[: len(sigmoids)], *doubled)]
    inverse = inverses(v, [b.fadd(e, v.constant(1)) for e in falling])
    found = []
    for x, e, one in zip(sigmoids, falling, inverse, strict=False):
        found.append(b.select(b.fcmp_ordered("<", x, v.constant(0)), b.fmul(e, one), one))
    start = len(sigmoids)
    for x, size, e, one in zip(tanhs, sizes[start:], falling[start:], inverse[start:], strict=True):
        far = b.fmul(b.fsub(v.constant(1), e), one)
        far = b.select(b.fcmp_ordered("<", x, v.constant(0)), b.fneg(far), far)
        found.append(b.select(b.fcmp_ordered("<", size, v.constant(SMALL)), _small_tanh(v, x), far))
    return found


def _small_tanh(v: Vectors, x: ir.Value) -> ir.Value:
    square = v.b.fmul(x, x)
    value = v.constant(TANH[0])
    for factor in TANH[1:]:
        value = v.fma(value, square, v.constant(factor))
    return v.fma(v.b.fmul(value, square), x, x)
