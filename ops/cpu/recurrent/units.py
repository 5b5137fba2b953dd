"""The units of recurrent layers, one step of one sequence at a time, as LLVM IR: gate inputs to
states, and back.

    forward(sums, inputs, gates, c_before, c, h, carried, count, cont, cont_next)
    backward(gates, c_before, c, h, h_before, dh, dh_after, dc, d_gates, before, count,
             cont, cont_next)

All are addresses of `count` contiguous float32 numbers, except sums, inputs and gates: of four
times as many for an LSTM (i, f, o, g), of as many for an RNN, which has only h and neither writes
gates nor reads or writes c. forward computes the gates of sums + inputs, which may be the same
array as gates, and writes `carried` = cont_next h. backward adds cont_next
dh_after to dh, and also writes `before` = cont h_before. The four gates of a unit share a division,
so a NaN in one of them appears in all.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple

from llvmlite import ir

from ops.cpu.codegen.compiled import addresses
from ops.cpu.codegen.ir_tools import F32, I64, Vectors, counted, function
from ops.cpu.codegen.kernel import calling
from ops.cpu.codegen.smooth import bounded
from ops.cpu.codegen.target import host

FORWARD = ("sums", "inputs", "gates", "c_before", "c", "h", "carried")
BACKWARD = ("gates", "c_before", "c", "h", "h_before", "dh", "dh_after", "dc", "d_gates", "before")
_LAST = (("count", I64), ("cont", F32), ("cont_next", F32))


class Units(NamedTuple):
    """Addresses of the kernels."""

    lstm_forward: int
    lstm_backward: int
    rnn_forward: int
    rnn_backward: int


@functools.cache
def units() -> Units:
    """The kernels of this machine, compiled or loaded on first use."""

    def build(module: ir.Module) -> None:
        _build(module, "lstm_forward", FORWARD, _lstm_forward)
        _build(module, "lstm_backward", BACKWARD, _lstm_backward)
        _build(module, "rnn_forward", FORWARD, _rnn_forward)
        _build(module, "rnn_backward", BACKWARD, _rnn_backward)

    at = addresses("units", build)
    return Units(*(at(name) for name in Units._fields))


class _Lanes:
    """A block of units: loads and stores by name, gates by number."""

    def __init__(self, v: Vectors, a: dict[str, ir.Value], index: ir.Value) -> None:
        self.v = v
        self.a = a
        self.b = v.b
        self._offset = v.b.mul(index, I64(4))
        self._mask = v.mask(v.b.sub(a["count"], index))
        self.cont = v.splat(a["cont"])
        self.cont_next = v.splat(a["cont_next"])

    def _at(self, name: str, gate: int) -> ir.Value:
        start = self.b.add(self.a[name], self._offset)
        return self.b.add(start, self.b.mul(self.a["count"], I64(4 * gate))) if gate else start

    def load(self, name: str, gate: int = 0) -> ir.Value:
        return self.v.load(self._at(name, gate), self._mask)

    def store(self, value: ir.Value, name: str, gate: int = 0) -> None:
        self.v.store(value, self._at(name, gate), self._mask)

    def total(self, gate: int = 0) -> ir.Value:
        """What a gate is a function of."""
        return self.b.fadd(self.load("sums", gate), self.load("inputs", gate))

    def rest(self, y: ir.Value) -> ir.Value:
        """1 - y."""
        return self.b.fsub(self.v.constant(1), y)

    def rest_of_square(self, y: ir.Value) -> ir.Value:
        """1 - y^2, the slope of y = tanh(x)."""
        return self.v.fma(self.b.fneg(y), y, self.v.constant(1))

    def product(self, *factors: ir.Value) -> ir.Value:
        """The product of all factors, from the left."""
        return functools.reduce(self.b.fmul, factors)


def _arguments(arrays: tuple[str, ...]) -> tuple[tuple[str, ir.Type], ...]:
    return (*((array, I64) for array in arrays), *_LAST)


def _build(
    module: ir.Module, name: str, arrays: tuple[str, ...], body: Callable[[_Lanes], None]
) -> None:
    b, a = function(module, name, _arguments(arrays))
    v = Vectors(b, host().lanes)
    counted(b, a["count"], v.lanes, lambda index: body(_Lanes(v, a, index)))
    b.ret_void()


def _lstm_forward(u: _Lanes) -> None:
    i, f, o, g = bounded(u.v, [u.total(gate) for gate in range(3)], [u.total(3)])
    f = u.b.fmul(f, u.cont)
    for gate, value in enumerate((i, f, o, g)):
        u.store(value, "gates", gate)
    c = u.v.fma(f, u.load("c_before"), u.b.fmul(i, g))
    u.store(c, "c")
    h = u.b.fmul(bounded(u.v, [], [c])[0], o)
    u.store(h, "h")
    u.store(u.b.fmul(h, u.cont_next), "carried")


def _lstm_backward(u: _Lanes) -> None:
    i, f, o, g = (u.load("gates", gate) for gate in range(4))
    tanh_c = bounded(u.v, [], [u.load("c")])[0]
    dh = u.v.fma(u.cont_next, u.load("dh_after"), u.load("dh"))
    dc = u.v.fma(u.product(dh, o), u.rest_of_square(tanh_c), u.load("dc"))
    u.store(u.product(dc, g, i, u.rest(i)), "d_gates", 0)
    u.store(u.product(dc, u.load("c_before"), f, u.rest(f)), "d_gates", 1)
    u.store(u.product(dh, tanh_c, o, u.rest(o)), "d_gates", 2)
    u.store(u.product(dc, i, u.rest_of_square(g)), "d_gates", 3)
    u.store(u.b.fmul(dc, f), "dc")
    u.store(u.b.fmul(u.cont, u.load("h_before")), "before")


def _rnn_forward(u: _Lanes) -> None:
    h = bounded(u.v, [], [u.total()])[0]
    u.store(h, "h")
    u.store(u.b.fmul(h, u.cont_next), "carried")


def _rnn_backward(u: _Lanes) -> None:
    dh = u.v.fma(u.cont_next, u.load("dh_after"), u.load("dh"))
    u.store(u.b.fmul(dh, u.rest_of_square(u.load("h"))), "d_gates")
    u.store(u.b.fmul(u.cont, u.load("h_before")), "before")


call_forward, call_backward = (calling(_arguments(arrays)) for arrays in (FORWARD, BACKWARD))
