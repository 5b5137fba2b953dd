"""Smaller forms of float32 arrays, for slow links: the sender encodes, the receiver decodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ops.errors import Array, Shape
from ops.reference import compression, scaled_codes


class CompressionOps:
    """Arrays are float32 in C order, of any shape. A `shape` argument is the shape of the decoded
    array. `ops.reference.compression` describes the formats."""

    xp: Any
    empty: Callable[..., Array]

    def half_encode(self, x: Array, kind: str, out: Array | None = None) -> Array:
        """x rounded to "float16", or to "bfloat16" as uint16.

        The relative error of float16 is at most 2^-11 from 6.1e-5 to 65504. Below that the absolute
        error is at most 2^-25; above it the result is an infinity. The relative error of bfloat16
        is at most 2^-8 for every normal float32.
        """
        compression.check_half("half_encode", kind)
        compression.check_whole("half_encode", x=x)
        dtype = compression.HALVES[kind]
        out = compression.destination("half_encode", out, x.shape, dtype, self.empty)
        return self._half_encode(x, kind, out)

    def half_decode(self, bits: Array, out: Array | None = None) -> Array:
        """float16, or bfloat16 as uint16 -> float32. Exact."""
        compression.check_halves("half_decode", bits)
        out = compression.destination("half_decode", out, bits.shape, np.float32, self.empty)
        return self._half_decode(bits, out)

    def one_bit_encode(
        self,
        x: Array,
        error: Array,
        block: int,
        out_signs: Array | None = None,
        out_means: Array | None = None,
    ) -> tuple[Array, Array]:
        """x + error -> signs (blocks, block / 8) uint8 and means (blocks, 2); `error` becomes the
        part that the code leaves out.

        `block`: the number of neighbours that share their means, a multiple of 32.
        """
        compression.check_error("one_bit_encode", x, error)
        first, second = compression.one_bit_shapes(x.size, block)
        signs = compression.destination("one_bit_encode", out_signs, first, np.uint8, self.empty)
        means = compression.destination("one_bit_encode", out_means, second, np.float32, self.empty)
        return self._one_bit_encode(x, error, signs, means)

    def one_bit_decode(
        self, signs: Array, means: Array, shape: Shape, out: Array | None = None
    ) -> Array:
        """Return the numbers that signs and means stand for."""
        out = compression.destination("one_bit_decode", out, shape, np.float32, self.empty)
        compression.check_one_bit("one_bit_decode", signs, means, out.size)
        return self._one_bit_decode(signs, means, out)

    def threshold_encode(self, x: Array, error: Array, tau: float) -> tuple[Array, Array]:
        """x + error -> codes (n,) uint32 of the n numbers beyond +-tau, and [tau]; `error` becomes
        the rest."""
        compression.check_error("threshold_encode", x, error)
        compression.check_tau("threshold_encode", tau, x.size)
        return self._threshold_encode(x, error, tau)

    def threshold_decode(
        self, codes: Array, steps: Array, shape: Shape, out: Array | None = None
    ) -> Array:
        """+-tau at the places that `codes` names, 0 elsewhere."""
        out = compression.destination("threshold_decode", out, shape, np.float32, self.empty)
        compression.check_threshold("threshold_decode", codes, steps)
        return self._threshold_decode(codes, steps, out)

    def scaled_encode(self, x: Array, error: Array, bits: int) -> tuple[Array, Array]:
        """x + error -> codes of 8 or 4 `bits` as uint8, and the step of each block as float32;
        `error` becomes the part that the code leaves out."""
        compression.check_error("scaled_encode", x, error)
        first, second = scaled_codes.code_shapes(x.size, bits)
        codes = self.empty(first, np.uint8)
        steps = self.empty(second, np.float32)
        return self._scaled_encode(x, error, bits, codes, steps)

    def scaled_decode(
        self, codes: Array, steps: Array, bits: int, shape: Shape, out: Array | None = None
    ) -> Array:
        """Return the numbers that codes of so many bits and the steps of blocks stand for."""
        out = compression.destination("scaled_decode", out, shape, np.float32, self.empty)
        scaled_codes.check_codes("scaled_decode", codes, steps, bits, out.size)
        return self._scaled_decode(codes, steps, bits, out)

    # The methods that a backend overrides. Arguments have been checked, destinations exist.

    def _half_encode(self, x: Array, kind: str, out: Array) -> Array:
        return compression.half_encode(self.xp, x, kind, out)

    def _half_decode(self, bits: Array, out: Array) -> Array:
        return compression.half_decode(self.xp, bits, out)

    def _one_bit_encode(
        self, x: Array, error: Array, signs: Array, means: Array
    ) -> tuple[Array, Array]:
        return compression.one_bit_encode(self.xp, x, error, signs, means)

    def _one_bit_decode(self, signs: Array, means: Array, out: Array) -> Array:
        return compression.one_bit_decode(self.xp, signs, means, out)

    def _threshold_encode(self, x: Array, error: Array, tau: float) -> tuple[Array, Array]:
        return compression.threshold_encode(self.xp, x, error, tau, self.empty)

    def _threshold_decode(self, codes: Array, steps: Array, out: Array) -> Array:
        return compression.threshold_decode(self.xp, codes, steps, out)

    def _scaled_encode(
        self, x: Array, error: Array, bits: int, codes: Array, steps: Array
    ) -> tuple[Array, Array]:
        return scaled_codes.scaled_encode(self.xp, x, error, bits, codes, steps)

    def _scaled_decode(self, codes: Array, steps: Array, bits: int, out: Array) -> Array:
        return scaled_codes.scaled_decode(self.xp, codes, steps, bits, out)
