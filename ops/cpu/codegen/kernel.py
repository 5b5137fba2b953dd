"""How loops become kernels: a function with `@kernel` is compiled for this machine and kept on
disk.

A kernel is `name(number, size, at)`: the number of its thread, the size of its `Team`, and the
address of its arguments. The arguments are a `block` of named integers and floats. Addresses and
strides are integers, in bytes unless stated otherwise. So one compiled form serves every layout,
and a call allocates, converts and counts nothing. Kernels check nothing; the backend checks their
arguments.

numba compiles the kernels (`loops`). It is not imported here: where every kernel has been compiled
before, it is not needed.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Iterator, Sequence
from types import CodeType, FunctionType
from typing import Any

from llvmlite import ir

from ops.cpu.codegen.compiled import addresses_now
from ops.cpu.codegen.store import kept
from ops.cpu.codegen.wanted import want
from ops.errors import KernelsMissing

KIND = "loops"  # the kind of these kernels in the store


def layout(integers: str, numbers: str = "") -> type[ctypes.Structure]:
    """The type of a block of arguments: names of int64 fields, then of float32 fields, separated by
    spaces."""
    fields = [(name, ctypes.c_int64) for name in integers.split()] + [
        (name, ctypes.c_float) for name in numbers.split()
    ]
    return type("Block", (ctypes.Structure,), {"_fields_": fields})


def compiled_before() -> bool:
    """Whether loops have been compiled on this machine. If so, most runs find all loops that they
    need."""
    return kept(f"{KIND}-*")


class Kernel:
    """A function that runs on a team's threads. A block of arguments makes the kernel wanted
    (`wanted`): it is compiled, or loaded from disk, before the next kernel runs. It is also loaded
    when its address is asked for."""

    def __init__(self, function: Callable[..., None], arguments: type[ctypes.Structure]) -> None:
        self.name = function.__name__
        self.arguments = arguments
        self._function = function
        self._address = 0

    def __repr__(self) -> str:
        return f"<kernel {self.name}>"

    @property
    def address(self) -> int:
        """The address of its machine code."""
        if not self._address:
            self.load(wait=True)
        return self._address

    @property
    def kept_as(self) -> str:
        """The kernel's name in the store."""
        return f"{KIND}-{self.name}"

    def load(self, wait: bool) -> bool:
        """Compile the kernel or load it, see `wanted.Loadable`. Raises KernelsMissing if it must be
        compiled and numba cannot be imported."""
        found = addresses_now(self.kept_as, self._compiled, wait)
        if found is not None:
            self._address = found(self.name)
        return found is not None

    def _compiled(self) -> bytes:
        try:
            from ops.cpu.codegen.loops import machine_code
        except ImportError as error:
            raise KernelsMissing(
                f"kernel '{self.name}' is not compiled yet, and numba cannot be imported "
                f"here ({error})"
            ) from None
        return machine_code(self.name, _real(self._function), self.arguments)

    def block(self, **values: Any) -> Any:
        """Make a block of arguments, which the caller keeps and changes between calls: `block.x =
        ...`. Fields that are not given are 0."""
        if not self._address:
            want(self)
        return self.arguments(**values)


def kernel(arguments: type[ctypes.Structure]) -> Callable[[Callable[..., None]], Kernel]:
    """Decorator for a kernel name(number, size, at) whose `block(at)` has this layout."""

    def make(function: Callable[..., None]) -> Kernel:
        return Kernel(function, arguments)

    return make


class Later:
    """A part of loops that numba makes when the first kernel that uses it is compiled."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self.made = functools.cache(make)

    def __call__(self, *arguments: Any) -> Any:
        """Only for type checkers: a compiled kernel calls the object that `make` returned."""
        raise TypeError("only a kernel can call this")


def _real(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same function, in which each Later that it names is replaced by the object that it
    makes."""
    assert isinstance(function, FunctionType)
    within = dict(function.__globals__)
    for name in _names(function.__code__):
        if isinstance(within.get(name), Later):
            within[name] = within[name].made()
    made = FunctionType(
        function.__code__, within, function.__name__, function.__defaults__, function.__closure__
    )
    made.__qualname__ = function.__qualname__
    made.__kwdefaults__ = function.__kwdefaults__
    return made


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def inlined(function: Callable[..., Any]) -> Any:
    """A helper that becomes part of each kernel that calls it."""

    def make() -> Any:
        from ops.cpu.codegen import loops

        return loops.inlined(_real(function))

    return Later(make)


def instruction(
    kinds: Sequence[ir.Type], emit: Callable[[ir.IRBuilder, Sequence[ir.Value]], None]
) -> Any:
    """A function that kernels may call and that `emit` writes as IR. Its arguments are of these
    kinds, I64 or F32."""

    def make() -> Any:
        from ops.cpu.codegen import loops

        return loops.instruction(kinds, emit)

    return Later(make)


def conversion(given: str, found: str, emit: Callable[[ir.IRBuilder, ir.Value], ir.Value]) -> Any:
    """A function that kernels may call and that `emit` writes as IR: from one number of type
    `given` to one of type `found`, as numba names types."""

    def make() -> Any:
        from ops.cpu.codegen import loops

        return loops.conversion(given, found, emit)

    return Later(make)


def calling(arguments: Sequence[tuple[str, ir.Type]]) -> Any:
    """A function that calls the code at the address in its first argument. The code's own arguments
    follow."""
    kinds = [kind for _, kind in arguments]

    def emit(builder: ir.IRBuilder, args: Sequence[ir.Value]) -> None:
        code = ir.FunctionType(ir.VoidType(), kinds)
        builder.call(builder.inttoptr(args[0], code.as_pointer()), args[1:])

    return instruction([ir.IntType(64), *kinds], emit)


def _of_loops(name: str, *arguments: Any) -> Any:
    def make() -> Any:
        from ops.cpu.codegen import loops

        found = getattr(loops, name)
        return found(*arguments) if arguments else found

    return Later(make)


_carray = _of_loops("carray")
_float_pointer = _of_loops("pointer_to", "float32")
_int64_pointer = _of_loops("pointer_to", "int64")
_uint16_pointer = _of_loops("pointer_to", "uint16")


@inlined
def arguments(at: Any) -> Any:
    """A kernel's block of arguments."""
    return _carray(at, (1,))[0]


@inlined
def floats(address: int, count: int) -> Any:
    """`count` float32 numbers at `address`, as an array."""
    return _carray(_float_pointer(address), (count,))


@inlined
def halves(address: int, count: int) -> Any:
    """`count` 16-bit integers at `address`, as an array: the bits of bfloat16 numbers."""
    return _carray(_uint16_pointer(address), (count,))


@inlined
def integers(address: int, count: int) -> Any:
    """`count` int64 numbers at `address`, as an array."""
    return _carray(_int64_pointer(address), (count,))


CALL = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)  # releases the GIL
