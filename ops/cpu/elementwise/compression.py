"""Smaller forms of float32 arrays, by kernels."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ops.cpu.codegen.kernel import Kernel
from ops.cpu.elementwise.feedback import (
    RECORD,
    count_beyond,
    signs_and_means,
    spread_means,
    spread_steps,
    write_beyond,
)
from ops.cpu.elementwise.halves import (
    from_bfloat16,
    from_float16,
    has_float16,
    to_bfloat16,
    to_float16,
)
from ops.cpu.elementwise.scaled_blocks import DECODE, ENCODE
from ops.cpu.team.fast import Fast
from ops.cpu.team.operands import address
from ops.errors import Array
from ops.reference.compression import check_places


class Compression(Fast):
    """One pass over the numbers for the formats of two bytes, two for those that keep an error."""

    def _half_encode(self, x: Array, kind: str, out: Array) -> Array:
        if kind == "float16" and not has_float16():
            return super()._half_encode(x, kind, out)
        return self._converted(to_float16 if kind == "float16" else to_bfloat16, x, out)

    def _half_decode(self, bits: Array, out: Array) -> Array:
        if bits.dtype == np.float16 and not has_float16():
            return super()._half_decode(bits, out)
        return self._converted(
            from_float16 if bits.dtype == np.float16 else from_bfloat16, bits, out
        )

    def _converted(self, kernel: Kernel, x: Array, out: Array) -> Array:
        if x.size:
            self.team.run(kernel, kernel.block(x=address(x), y=address(out), count=x.size))
        return out

    def _one_bit_encode(
        self, x: Array, error: Array, signs: Array, means: Array
    ) -> tuple[Array, Array]:
        self._blocks(signs_and_means, x, signs, means, error=address(error))
        return signs, means

    def _one_bit_decode(self, signs: Array, means: Array, out: Array) -> Array:
        self._blocks(spread_means, out, signs, means)
        return out

    def _blocks(self, kernel: Kernel, x: Array, signs: Array, means: Array, **more: int) -> None:
        blocks, octets = signs.shape
        block = kernel.block(x=address(x), total=x.size, width=octets * 8, blocks=blocks, **more)
        block.signs = address(signs)
        block.means = address(means)
        self.team.run(kernel, block)

    def _threshold_encode(self, x: Array, error: Array, tau: float) -> tuple[Array, Array]:
        self.team.spoil()  # the number of codes is another one each time
        counts = np.empty((self.team.size, RECORD // 8), np.int64)
        block = count_beyond.block(
            x=address(x), error=address(error), total=x.size, tau=tau, counts=address(counts)
        )
        self.team.run(count_beyond, block)
        found, odd = map(int, counts.sum(0))
        codes = self.empty((found,), np.uint32)
        steps = self.empty((1,), np.float32)
        steps[0] = math.nan if odd else tau
        if found:
            block.codes = address(codes)
            self.team.run(write_beyond, block)
        return codes, steps

    def _threshold_decode(self, codes: Array, steps: Array, out: Array) -> Array:
        self.team.spoil()  # Python looks at what the kernel found
        wrong = np.empty(1, np.int64)
        block: Any = spread_steps.block(
            codes=address(codes), steps=address(steps), count=codes.size, total=out.size
        )
        block.y = address(out)
        block.wrong = address(wrong)
        self.team.run(spread_steps, block)
        check_places("threshold_decode", int(wrong[0]) - 1 if wrong[0] else -1, out.size)
        return out

    def _scaled_encode(
        self, x: Array, error: Array, bits: int, codes: Array, steps: Array
    ) -> tuple[Array, Array]:
        self._coded(ENCODE[bits], x, codes, steps, error=address(error))
        return codes, steps

    def _scaled_decode(self, codes: Array, steps: Array, bits: int, out: Array) -> Array:
        self._coded(DECODE[bits], out, codes, steps)
        return out

    def _coded(self, kernel: Kernel, x: Array, codes: Array, steps: Array, **more: int) -> None:
        block = kernel.block(x=address(x), codes=address(codes), total=x.size, **more)
        block.steps = address(steps)
        self.team.run(kernel, block)
