"""The functions that generated loops call: the micro-kernel, the movers, a cache line ahead of
time."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any, TypeAlias

from llvmlite import ir

from ops.cpu.codegen.code import Code
from ops.cpu.codegen.ir_tools import I32, I64, VOID
from ops.cpu.codegen.ir_tools import fetch as fetch_line
from ops.cpu.codegen.values import Choice, Whole
from ops.cpu.gemm.tile import LOOKING_AHEAD

TILE = ir.FunctionType(VOID, [kind for _, kind in LOOKING_AHEAD])
Count: TypeAlias = Whole | int


class Arguments:
    """A kernel's arguments by name, each read once, at its start. A float is one number, not a
    vector."""

    def __init__(self, code: Code) -> None:
        self._code = code
        self._read = dict[str, Any]()

    def __getattr__(self, name: str) -> Any:
        if name not in self._read:
            with self._code.b.goto_entry_block():
                value = getattr(self._code, name)
                if not isinstance(value, Whole):
                    value = self._code.b.extract_element(value.value, I32(0))
            self._read[name] = value
        return self._read[name]


def value(number: Count) -> ir.Value:
    """The number as LLVM's value."""
    return I64(number) if isinstance(number, int) else number.value


def tile(code: Code, kernel: Whole, *arguments: Count, floor: ir.Value) -> None:
    """Call the micro-kernel at an address. It must be one that looks ahead."""
    code.b.call(code.b.inttoptr(kernel.value, TILE.as_pointer()), [*map(value, arguments), floor])


def mover(code: Code, address: Whole, *arguments: Count) -> None:
    """Call one of the movers (`permute`)."""
    kind = ir.FunctionType(VOID, [I64] * len(arguments))
    code.b.call(code.b.inttoptr(address.value, kind.as_pointer()), [*map(value, arguments)])


def fetch(code: Code, at: Whole, to_write: bool, nearest: bool = False) -> None:
    """Prefetch a cache line: to write it soon, or to read it, into the second-level cache, or with
    `nearest` into the first. The line need not exist."""
    fetch_line(code.b, at.value, to_write, nearest)


def either(code: Code, choice: Choice) -> AbstractContextManager[Any]:
    """if and else: `with either(code, choice) as (then, other): with then: ...; with other:
    ...`."""
    context: AbstractContextManager[Any] = code.b.if_else(choice.value)
    return context


def up(x: Whole, y: Count) -> Whole:
    """x / y rounded up."""
    return (x + (y - 1)) // y


def entry(code: Code, table: Whole, index: Count) -> Whole:
    """The int64 at this place of a table."""
    return code.get(table + index * 8)
