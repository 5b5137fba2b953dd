"""How loops become kernels: `@kernel` compiles a function with numba for this machine and keeps it on disk.

A kernel is `name(number, size, at)`: which thread of a `Team` of how many runs it, and the address of its arguments, a
`block` of named integers and numbers. Addresses and strides are integers, in bytes unless said otherwise. So one
compiled form serves every layout, and a call allocates, converts and counts nothing. Kernels check nothing; the backend
does.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import carray, cfunc, config, njit, types
from numba.core.registry import cpu_target
from numba.extending import intrinsic
from numba.np.numpy_support import from_dtype

from ops.cpu.codegen.store import alone, folder
from ops.cpu.codegen.target import host
from ops.cpu.codegen.wanted import want

config.CACHE_DIR = str(folder())
config.CPU_NAME, config.CPU_FEATURES = host().cpu, host().features
# Sums may be reordered and contracted; NaN and infinities keep their meaning.
FLAGS = {"reassoc", "contract", "nsz", "arcp"}


def layout(integers: str, numbers: str = "") -> type[ctypes.Structure]:
    """The type of a block of arguments: names of int64 fields, then of float32 fields, separated by spaces."""
    fields = [(name, ctypes.c_int64) for name in integers.split()] + [
        (name, ctypes.c_float) for name in numbers.split()
    ]
    return type("Block", (ctypes.Structure,), {"_fields_": fields})


def prepare() -> None:
    """Load numba's registries of types and functions now instead of before the first kernel."""
    cpu_target.typing_context.refresh()
    cpu_target.target_context.refresh()


class Kernel:
    """A function on a team's threads. Whoever makes a block of arguments for it wants it (`wanted`); it is compiled, or
    loaded from disk, before the next kernel runs, or when its address is asked for."""

    def __init__(self, function: Callable[..., None], arguments: type[ctypes.Structure]) -> None:
        self.name, self.arguments, self._function = function.__name__, arguments, function
        self._address = 0
        self._compiled: Any = None  # kept: it owns the code

    def __repr__(self) -> str:
        return f"<kernel {self.name}>"

    @property
    def address(self) -> int:
        """Where its machine code lies."""
        if not self._address:
            self.load(wait=True)
        return self._address

    @property
    def kept_as(self) -> str:
        """Its name in the store."""
        return self.name

    def load(self, wait: bool) -> bool:
        """See `wanted.Loadable`."""
        signature = types.void(types.int64, types.int64, types.CPointer(from_dtype(np.dtype(self.arguments))))
        with alone(self.kept_as, wait) as place:
            if place is None:
                return False
            self._compiled = cfunc(signature, cache=True, error_model="numpy", fastmath=FLAGS)(self._function)
        self._address = self._compiled.address
        return True

    def block(self, **values: Any) -> Any:
        """A block of arguments, to be kept and changed between calls: `block.x = ...`; fields not given are 0."""
        if not self._address:
            want(self)
        return self.arguments(**values)


def kernel(arguments: type[ctypes.Structure]) -> Callable[[Callable[..., None]], Kernel]:
    """Decorator for name(number, size, at) with `block(at)` of this layout."""

    def make(function: Callable[..., None]) -> Kernel:
        return Kernel(function, arguments)

    return make


def inlined(function: Callable[..., Any]) -> Any:
    """A helper that becomes part of each kernel that calls it."""
    return njit(inline="always", error_model="numpy", fastmath=FLAGS)(function)


@inlined
def arguments(at: Any) -> Any:
    """A kernel's block of arguments."""
    return carray(at, (1,))[0]


def _pointer_to(kind: Any) -> Any:
    @intrinsic  # type: ignore[untyped-decorator]
    def pointer(typingctx: Any, address: Any) -> Any:
        def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> Any:
            return builder.inttoptr(args[0], context.get_value_type(signature.return_type))

        return types.CPointer(kind)(types.int64), generate

    return pointer


_float_pointer = _pointer_to(types.float32)
_double_pointer = _pointer_to(types.float64)
_int32_pointer = _pointer_to(types.int32)
_int64_pointer = _pointer_to(types.int64)


@inlined
def floats(address: int, count: int) -> Any:
    """`count` float32 numbers at `address`, as an array."""
    return carray(_float_pointer(address), (count,))


@inlined
def doubles(address: int, count: int) -> Any:
    """`count` float64 numbers at `address`, as an array."""
    return carray(_double_pointer(address), (count,))


@inlined
def places(address: int, count: int) -> Any:
    """`count` int32 numbers at `address`, as an array."""
    return carray(_int32_pointer(address), (count,))


@inlined
def integers(address: int, count: int) -> Any:
    """`count` int64 numbers at `address`, as an array."""
    return carray(_int64_pointer(address), (count,))


CALL = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)  # releases the GIL
