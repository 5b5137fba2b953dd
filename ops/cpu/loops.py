"""Loops over micro-kernels as LLVM IR, written nearly as the Python they stand for.

A kernel here is a function `build(code, a, number, size)`: `code` makes loops and conditions, `a.name` is an argument of
the kernel's block, numbers add and compare as Python's do. All of an algorithm's kernels are one module, compiled in a
fraction of a second: the same loops took numba ten. What never lives here: a kernel.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from llvmlite import ir

from ops.cpu.compiled import addresses
from ops.cpu.ir_tools import F32, I32, I64, VOID, Vectors, declared
from ops.cpu.kernel import Kernel
from ops.cpu.tile import ARGUMENTS

TILE = ir.FunctionType(VOID, [kind for _, kind in ARGUMENTS])


class Number:
    """An int64 of the generated code. Division and remainder are of numbers that are not negative."""

    def __init__(self, code: Code, value: ir.Value) -> None:
        self.code, self.value = code, value

    def _with(self, operation: str, other: Number | int, swapped: bool = False) -> Number:
        pair = (self.value, self.code.ir(other))
        return Number(self.code, getattr(self.code.b, operation)(*(reversed(pair) if swapped else pair)))

    def __add__(self, other: Number | int) -> Number:
        return self._with("add", other)

    def __radd__(self, other: int) -> Number:
        return self._with("add", other)

    def __sub__(self, other: Number | int) -> Number:
        return self._with("sub", other)

    def __rsub__(self, other: int) -> Number:
        return self._with("sub", other, swapped=True)

    def __mul__(self, other: Number | int) -> Number:
        return self._with("mul", other)

    def __rmul__(self, other: int) -> Number:
        return self._with("mul", other)

    def __floordiv__(self, other: Number | int) -> Number:
        return self._with("sdiv", other)

    def __mod__(self, other: Number | int) -> Number:
        return self._with("srem", other)

    def __or__(self, other: Number | int) -> Number:
        return self._with("or_", other)

    def __lt__(self, other: Number | int) -> ir.Value:
        return self.is_("<", other)

    def __gt__(self, other: Number | int) -> ir.Value:
        return self.is_(">", other)

    def __le__(self, other: Number | int) -> ir.Value:
        return self.is_("<=", other)

    def is_(self, relation: str, other: Number | int) -> ir.Value:
        """A condition; `==` and `!=` are written this way."""
        return self.code.b.icmp_signed(relation, self.value, self.code.ir(other))


Whole = Number | int


class Variable:
    """A number that changes."""

    def __init__(self, code: Code, start: Whole) -> None:
        self._code = code
        with code.b.goto_entry_block():
            self._place = code.b.alloca(I64)
        self.set(start)

    def set(self, value: Whole) -> None:
        """Change it."""
        self._code.b.store(self._code.ir(value), self._place)

    @property
    def now(self) -> Number:
        """What it is."""
        return Number(self._code, self._code.b.load(self._place))


class Code:
    """Makes the code of one function."""

    def __init__(self, builder: ir.IRBuilder) -> None:
        self.b = builder

    def ir(self, number: Whole) -> ir.Value:
        """As LLVM sees it."""
        return number.value if isinstance(number, Number) else I64(number)

    @contextmanager
    def range(self, low: Whole, high: Whole | None = None, step: int = 1) -> Iterator[Number]:
        """for i in range(low, high, step), as a `with` statement."""
        first, end = (I64(0), self.ir(low)) if high is None else (self.ir(low), self.ir(high))
        b, before = self.b, self.b.block
        head, body, after = (b.append_basic_block(name) for name in ("head", "body", "after"))
        b.branch(head)
        b.position_at_end(head)
        index = b.phi(I64)
        index.add_incoming(first, before)
        b.cbranch(b.icmp_signed("<", index, end), body, after)
        b.position_at_end(body)
        yield Number(self, index)
        index.add_incoming(b.add(index, I64(step)), b.block)
        b.branch(head)
        b.position_at_end(after)

    def when(self, condition: ir.Value) -> AbstractContextManager[Any]:
        """if condition, as a `with` statement."""
        context: AbstractContextManager[Any] = self.b.if_then(condition)
        return context

    def either(self, condition: ir.Value) -> AbstractContextManager[Any]:
        """if and else: `with code.either(condition) as (then, other): with then: ...; with other: ...`."""
        context: AbstractContextManager[Any] = self.b.if_else(condition)
        return context

    def choose(self, condition: ir.Value, this: Whole, that: Whole) -> Number:
        """this if condition else that; both are worked out."""
        return Number(self, self.b.select(condition, self.ir(this), self.ir(that)))

    def least(self, x: Number, y: Whole) -> Number:
        """min(x, y)."""
        return self.choose(x < y, x, y)

    def most(self, x: Number, y: Whole) -> Number:
        """max(x, y)."""
        return self.choose(x > y, x, y)

    def both(self, *conditions: ir.Value) -> ir.Value:
        """All of the conditions."""
        return functools.reduce(self.b.and_, conditions)

    def any(self, *conditions: ir.Value) -> ir.Value:
        """One of the conditions or more."""
        return functools.reduce(self.b.or_, conditions)

    def up(self, x: Number, y: Whole) -> Number:
        """x / y rounded up."""
        return (x + (y - 1)) // y

    def integer(self, table: Number, index: Whole) -> Number:
        """The int64 at this place of a table."""
        return Number(self, self.b.load(self.b.inttoptr((table + index * 8).value, I64.as_pointer())))

    def float_at(self, address: Number) -> ir.Value:
        """The float32 at the address."""
        return self.b.load(self.b.inttoptr(address.value, F32.as_pointer()), align=4)

    def put(self, value: ir.Value, address: Number) -> None:
        """Write a float32."""
        self.b.store(value, self.b.inttoptr(address.value, F32.as_pointer()), align=4)

    def add_vector(self, to: Number, more: Number, lanes: int) -> None:
        """Add the vector at one address to that at another."""
        v = Vectors(self.b, lanes)
        v.store(self.b.fadd(v.load(to.value), v.load(more.value)), to.value)

    def call(self, name: str, *arguments: Whole) -> None:
        """Call a function of this module."""
        self.b.call(self.b.module.globals[name], [self.ir(argument) for argument in arguments])

    def tile(self, kernel: Number, *arguments: Whole, floor: ir.Value) -> None:
        """Call the micro-kernel at an address."""
        self.b.call(self.b.inttoptr(kernel.value, TILE.as_pointer()), [*map(self.ir, arguments), floor])

    def fetch(self, address: Number, to_write: bool) -> None:
        """Ask for a cache line: to write it soon, or to read it, into the second-level cache."""
        pointer = self.b.inttoptr(address.value, ir.IntType(8).as_pointer())
        prefetch = declared(self.b, "llvm.prefetch.p0", VOID, [pointer.type, I32, I32, I32])
        self.b.call(prefetch, [pointer, I32(int(to_write)), I32(3 if to_write else 2), I32(1)])


class Block:
    """A kernel's arguments by name; each is read once, at the start."""

    def __init__(self, code: Code, kind: type[ctypes.Structure], address: ir.Value) -> None:
        self._code, self._kind, self._address = code, kind, address
        self._read: dict[str, Any] = {}

    def __getattr__(self, name: str) -> Any:
        if name not in self._read:
            field, b = getattr(self._kind, name), self._code.b
            whole = field.size == 8
            with b.goto_entry_block():
                place = b.add(self._address, I64(field.offset))
                value = b.load(b.inttoptr(place, (I64 if whole else F32).as_pointer()))
            self._read[name] = Number(self._code, value) if whole else value
        return self._read[name]


Build = Callable[[Code, Any, Number, Number], None]


class Library:
    """Generated kernels that share a module, and functions that they share."""

    def __init__(self, name: str, *shared: Callable[[ir.Module], None]) -> None:
        self.name, self._shared = name, shared
        self._kernels: list[Generated] = []

    def kernel(self, arguments: type[ctypes.Structure], build: Build) -> Generated:
        """Add the kernel `build.__name__`."""
        self._kernels.append(Generated(self, arguments, build))
        return self._kernels[-1]

    @functools.cached_property
    def address_of(self) -> Callable[[str], int]:
        """Compiles all, or loads them from disk, when it is first asked for."""
        return addresses(self.name, self._build)

    def _build(self, module: ir.Module) -> None:
        for shared in self._shared:
            shared(module)
        for kernel in self._kernels:
            made = ir.Function(module, ir.FunctionType(VOID, [I64] * 3), kernel.name)
            entry = made.append_basic_block("entry")
            code = Code(ir.IRBuilder(made.append_basic_block("start")))
            ir.IRBuilder(entry).branch(code.b.block)
            number, size, block = made.args
            kernel.build(code, Block(code, kernel.arguments, block), Number(code, number), Number(code, size))
            code.b.ret_void()


class Generated(Kernel):
    """A kernel of a `Library`."""

    def __init__(self, library: Library, arguments: type[ctypes.Structure], build: Build) -> None:
        super().__init__(build, arguments)
        self._library, self.build = library, build

    @functools.cached_property
    def address(self) -> int:  # type: ignore[override]
        """Where its machine code lies."""
        return self._library.address_of(self.name)
