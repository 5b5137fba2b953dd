"""Rectifier, gates, sum and dropout of a device: one launch each, over arrays that lie in rows."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ops.cuda.device import OnDevice
from ops.cuda.image_layout import arithmetic, in_fours, step_of, width
from ops.cuda.kernels.gates import KINDS
from ops.cuda.launch import NOTHING, divisor
from ops.cuda.repeats import repeated
from ops.errors import Array, check_alike
from ops.reference import philox
from ops.reference.mixed_images import checked


class Pointwise(OnDevice):
    """Overrides the operations that nets spend time in. The reference handles arrays that do not
    lie in rows."""

    @repeated
    def relu_forward(
        self, x: Array, negative_slope: float = 0.0, out: Array | None = None
    ) -> Array:
        check_alike("relu_forward", checked(out), x=checked(x))
        y = self.xp.empty_like(x) if out is None else out
        found = self._steps(x, y)
        if found is None:
            return super().relu_forward(x, negative_slope, out)
        self.launch(
            "rectify",
            x.size,
            real := arithmetic(x),
            *found,
            x.size,
            divisor(width(x)),
            real.type(negative_slope),
        )
        return y

    @repeated
    def relu_backward(
        self, dy: Array, y_or_x: Array, negative_slope: float = 0.0, out: Array | None = None
    ) -> Array:
        op = "relu_backward"
        check_alike(op, checked(out), dy=checked(dy), y_or_x=checked(y_or_x))
        dx = self.xp.empty_like(dy) if out is None else out
        found = self._steps(dy, y_or_x, dx)
        if found is None:
            return super().relu_backward(dy, y_or_x, negative_slope, out)
        real = arithmetic(dy)
        slope = real.type(negative_slope)
        self.launch("rectify_back", dy.size, real, *found, dy.size, divisor(width(dy)), slope)
        return dx

    @repeated
    def swish_forward(self, x: Array, beta: float = 1.0, out: Array | None = None) -> Array:
        y = self._gate("swish", x, out, beta)
        return super().swish_forward(x, beta, out) if y is None else y

    @repeated
    def swish_backward(
        self, dy: Array, x: Array, beta: float = 1.0, out: Array | None = None
    ) -> Array:
        dx = self._gate_back("swish", dy, x, out, beta)
        return super().swish_backward(dy, x, beta, out) if dx is None else dx

    @repeated
    def gelu_forward(self, x: Array, *, tanh: bool = False, out: Array | None = None) -> Array:
        y = self._gate("gelu tanh" if tanh else "gelu", x, out)
        return super().gelu_forward(x, tanh=tanh, out=out) if y is None else y

    @repeated
    def gelu_backward(
        self, dy: Array, x: Array, *, tanh: bool = False, out: Array | None = None
    ) -> Array:
        dx = self._gate_back("gelu tanh" if tanh else "gelu", dy, x, out)
        return super().gelu_backward(dy, x, tanh=tanh, out=out) if dx is None else dx

    @repeated
    def hard_sigmoid_forward(self, x: Array, out: Array | None = None) -> Array:
        y = self._gate("hard sigmoid", x, out)
        return super().hard_sigmoid_forward(x, out) if y is None else y

    @repeated
    def hard_sigmoid_backward(self, dy: Array, x: Array, out: Array | None = None) -> Array:
        dx = self._gate_back("hard sigmoid", dy, x, out)
        return super().hard_sigmoid_backward(dy, x, out) if dx is None else dx

    @repeated
    def hard_swish_forward(self, x: Array, out: Array | None = None) -> Array:
        y = self._gate("hard swish", x, out)
        return super().hard_swish_forward(x, out) if y is None else y

    @repeated
    def hard_swish_backward(self, dy: Array, x: Array, out: Array | None = None) -> Array:
        dx = self._gate_back("hard swish", dy, x, out)
        return super().hard_swish_backward(dy, x, out) if dx is None else dx

    @repeated
    def add(self, a: Array, b: Array, out: Array | None = None) -> Array:
        check_alike("add", checked(out), a=checked(a), b=checked(b))
        total = self.xp.empty_like(a) if out is None else out
        found = self._steps(a, b, total) if arithmetic(a).char in "fd" else None
        if found is None:
            return super().add(a, b, out)
        wide = 4 if in_fours(width(a), a, b, total) else 1
        steps = [part // wide if type(part) is int else part for part in found]
        count = a.size // wide
        self.launch(
            "plus" if wide == 1 else "plus4",
            count,
            arithmetic(a),
            *steps,
            count,
            divisor(width(a) // wide),
        )
        return total

    def dropout(
        self, x: Array, ratio: float, key: int, first: int = 0, out: Array | None = None
    ) -> Array:
        """Numbers are drawn where they are used."""
        philox.check(ratio, key, first)
        y = self._dropped(x, ratio, philox.numbers(key, first), NOTHING, out)
        return super().dropout(x, ratio, key, first, out) if y is None else y

    def dropout_by(self, x: Array, ratio: float, numbers: Array, out: Array | None = None) -> Array:
        philox.check(ratio, 0, 0)
        y = self._dropped(x, ratio, philox.numbers(0, 0), numbers, out)
        return super().dropout_by(x, ratio, numbers, out) if y is None else y

    def _dropped(
        self, x: Array, ratio: float, numbers: NDArray[np.int32], given: Any, out: Array | None
    ) -> Array | None:
        """Return the result of `dropout`; None if an array does not lie in rows. `given` has the
        numbers on the device, or is a null pointer."""
        check_alike("dropout", checked(out), x=checked(x))
        y = self.xp.empty_like(x) if out is None else out
        if x.ndim not in (0, 2, 4) and x.size and x.flags.c_contiguous and y.flags.c_contiguous:
            rows = x.reshape(len(x), -1)
            self._dropped(rows, ratio, numbers, given, y.reshape(len(x), -1))
            return y
        found = self._steps(x, y) if x.ndim in (2, 4) else None
        if found is None:
            return None
        pixels = math.prod(x.shape[2:])
        real = arithmetic(x)
        gain = real.type(1 / (1 - float(ratio)))
        self.launch(
            "dropout",
            x.size,
            real,
            *found,
            x.size,
            divisor(width(x)),
            divisor(pixels),
            *numbers,
            given,
            philox.signed(philox.least_kept(ratio)),
            gain,
        )
        return y

    def _gate(self, kind: str, x: Array, out: Array | None, beta: float = 1.0) -> Array | None:
        """Return the activation of x; None if an array does not lie in rows."""
        check_alike(f"{kind} forward", checked(out), x=checked(x))
        y = self.xp.empty_like(x) if out is None else out
        found = self._steps(x, y)
        if found is None:
            return None
        self._launch_gate("gate", kind, x, found, beta)
        return y

    def _gate_back(
        self, kind: str, dy: Array, x: Array, out: Array | None, beta: float = 1.0
    ) -> Array | None:
        check_alike(f"{kind} backward", checked(out), dy=checked(dy), x=checked(x))
        dx = self.xp.empty_like(dy) if out is None else out
        found = self._steps(dy, x, dx)
        if found is None:
            return None
        self._launch_gate("gate_back", kind, x, found, beta)
        return dx

    def _launch_gate(
        self, kernel: str, kind: str, x: Array, steps: list[object], beta: float
    ) -> None:
        number = KINDS.index(kind)
        real = arithmetic(x)
        self.launch(
            kernel, x.size, real, *steps, x.size, divisor(width(x)), number, real.type(beta)
        )

    def _steps(self, *arrays: Array) -> list[object] | None:
        """Return each array and the distance between its rows. None if one of them does not lie in
        rows."""
        steps = [step_of(a) for a in arrays]
        if arrays[0].size == 0 or any(step is None for step in steps):
            return None
        return [part for pair in zip(arrays, steps, strict=True) for part in pair]
