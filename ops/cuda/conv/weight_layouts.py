"""Weights between Caffe's order (K, C/groups, kh, kw) and that of windows,
[K][kh][kw][C/groups]."""

from __future__ import annotations

import math

from ops.cuda.conv.algorithm import ConvShape
from ops.cuda.device import OnDevice
from ops.errors import Array


class WeightOrder:
    """The order of the weights of one convolution. Scratch memory is taken only if the two orders
    differ, or if weights are rounded to bfloat16."""

    def __init__(self, shape: ConvShape, ops: OnDevice) -> None:
        self._ops = ops
        self._k, self._own, *kernel = shape.weight_shape
        self._taps = math.prod(kernel)
        self.matrix = (self._k, self._own * self._taps)
        self.turns = self._taps > 1 and self._own > 1
        self._factors = shape.factors
        self._rounds = shape.factors != shape.dtype
        apart = self.turns or self._rounds
        self.scratch_bytes = math.prod(self.matrix) * shape.dtype.itemsize if apart else 0

    def packed(self, w: Array) -> Array:
        """w in Caffe's order -> (K, kh * kw * C/groups) in that of windows, as factors of
        products."""
        if not self.turns and not self._rounds:
            return w.reshape(self.matrix)
        packed = self._ops.scratch.take("weights", self.matrix, self._factors)
        rows, columns = (self._own, self._taps) if self.turns else (1, math.prod(self.matrix))
        self._ops.turn(w, packed, rows, columns)
        return packed

    def room(self, dw: Array) -> Array:
        """Return the array for a gradient (K, kh * kw * C/groups) in the order of windows; call
        `unpack` after writing it."""
        return (
            self._ops.scratch.take("weights", self.matrix, dw.dtype)
            if self.turns
            else dw.reshape(self.matrix)
        )

    def unpack(self, room: Array, dw: Array) -> None:
        """Copy the gradient that was written to `room` to dw, in Caffe's order."""
        if self.turns:
            self._ops.turn(room, dw, self._taps, self._own)
