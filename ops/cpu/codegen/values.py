"""The values of generated kernels: whole numbers, and vectors of float32, int32 or float64, as LLVM
IR.

Python's operators build the instructions, so a kernel reads like its formula. Loops and memory are
in `code`. Products and sums may be contracted and reordered; NaN and infinities keep their meaning.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from ops.cpu.codegen.ir_tools import I64

FLAGS = ("reassoc", "contract", "nsz", "arcp")


class Whole:
    """A 64-bit integer: a count, an address, an offset in bytes."""

    def __init__(self, b: ir.IRBuilder, value: ir.Value) -> None:
        self.b = b
        self.value = value

    def _with(self, build: str, other: Whole | int) -> Whole:
        return Whole(self.b, getattr(self.b, build)(self.value, self._value(other)))

    def _value(self, other: Whole | int) -> ir.Value:
        return I64(other) if isinstance(other, int) else other.value

    def __add__(self, other: Whole | int) -> Whole:
        return self._with("add", other)

    def __sub__(self, other: Whole | int) -> Whole:
        return self._with("sub", other)

    def __mul__(self, other: Whole | int) -> Whole:
        return self._with("mul", other)

    def __floordiv__(self, other: Whole | int) -> Whole:
        """Rounded towards zero."""
        return self._with("sdiv", other)

    def __mod__(self, other: Whole | int) -> Whole:
        return self._with("srem", other)

    def halved(self) -> Whole:
        """Half of a number that is not negative."""
        return Whole(self.b, self.b.lshr(self.value, I64(1)))

    def __lt__(self, other: Whole | int) -> Choice:
        return Choice(self.b, self.b.icmp_signed("<", self.value, self._value(other)))

    def equals(self, other: Whole | int) -> Choice:
        """Whether the two are equal."""
        return Choice(self.b, self.b.icmp_signed("==", self.value, self._value(other)))

    def least(self, other: Whole | int) -> Whole:
        """The smaller of the two."""
        found: Whole = (self < other).pick(self, other)
        return found

    def most(self, other: Whole | int) -> Whole:
        """The larger of the two."""
        found: Whole = (self < other).pick(other, self)
        return found


class Choice:
    """True or false, or a vector of them."""

    def __init__(self, b: ir.IRBuilder, value: ir.Value) -> None:
        self.b = b
        self.value = value

    def __or__(self, other: Choice) -> Choice:
        return Choice(self.b, self.b.or_(self.value, other.value))

    def __and__(self, other: Choice) -> Choice:
        return Choice(self.b, self.b.and_(self.value, other.value))

    def pick(self, yes: Any, no: Any) -> Any:
        """`yes` where true, else `no`. Both have one type; Python integers stand for whole
        numbers."""
        yes, no = (Whole(self.b, I64(x)) if isinstance(x, int) else x for x in (yes, no))
        return type(yes)(self.b, self.b.select(self.value, yes.value, no.value))


class Vec:
    """A vector of numbers. Integer vectors have only sums and equality."""

    def __init__(self, b: ir.IRBuilder, value: ir.Value) -> None:
        self.b = b
        self.value = value

    def _with(self, build: str, other: Vec | float) -> Vec:
        return Vec(self.b, getattr(self.b, build)(self.value, self._value(other), flags=FLAGS))

    def _value(self, other: Vec | float) -> ir.Value:
        kind = self.value.type
        return (
            other.value
            if isinstance(other, Vec)
            else ir.Constant(kind, [float(other)] * kind.count)
        )

    def __add__(self, other: Vec | float) -> Vec:
        return self._with("fadd", other)

    def plus(self, other: Vec) -> Vec:
        """The sum, never reordered, for code that relies on its bits."""
        return Vec(self.b, self.b.fadd(self.value, other.value))

    def __sub__(self, other: Vec | float) -> Vec:
        return self._with("fsub", other)

    def __mul__(self, other: Vec | float) -> Vec:
        return self._with("fmul", other)

    def __truediv__(self, other: Vec | float) -> Vec:
        return self._with("fdiv", other)

    def _is(self, how: str, other: Vec | float) -> Choice:
        return Choice(self.b, self.b.fcmp_ordered(how, self.value, self._value(other)))

    def __lt__(self, other: Vec | float) -> Choice:
        return self._is("<", other)

    def __gt__(self, other: Vec | float) -> Choice:
        return self._is(">", other)

    def is_nan(self) -> Choice:
        """The lanes that are NaN."""
        return Choice(self.b, self.b.fcmp_unordered("uno", self.value, self.value))

    def matches(self, other: Vec) -> Choice:
        """The lanes in which two vectors of integers are equal."""
        return Choice(self.b, self.b.icmp_signed("==", self.value, other.value))


class Variable:
    """A value that loops change."""

    def __init__(self, b: ir.IRBuilder, start: Any) -> None:
        self.b = b
        self._kind = type(start)
        with b.goto_entry_block():
            self._slot = b.alloca(start.value.type)
        self.set(start)

    def set(self, value: Any) -> None:
        """Assign `value`."""
        self.b.store(value.value, self._slot)

    def get(self) -> Any:
        """Its present value."""
        return self._kind(self.b, self.b.load(self._slot))
