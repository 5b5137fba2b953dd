"""Kernels that are loops in Python: numba makes machine code of them, once for each machine.

This module is imported only if a kernel has to be compiled: numba has 220 modules and takes 0.4 s
of a core. The machine code needs nothing of numba. numba's own wrapper, which could raise Python's
errors, is left out.
"""

from __future__ import annotations

import ctypes
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from llvmlite import binding as llvm
from llvmlite import ir
from numba import carray, cfunc, config, njit, types
from numba.core.registry import cpu_target
from numba.extending import intrinsic
from numba.np.numpy_support import from_dtype

from ops.cpu.codegen.compiled import machine
from ops.cpu.codegen.ir_tools import F32, I32, I64, VOID
from ops.cpu.codegen.target import host

__all__ = [
    "carray",
    "conversion",
    "inlined",
    "instruction",
    "machine_code",
    "pointer_to",
    "prepare",
]

config.CPU_NAME = host().cpu
config.CPU_FEATURES = host().features
# Sums may be reordered and contracted; NaN and infinities keep their meaning.
OPTIONS: dict[str, Any] = {
    "error_model": "numpy",
    "fastmath": {"reassoc", "contract", "nsz", "arcp"},
}
ANY = ir.IntType(8).as_pointer()


def prepare() -> None:
    """Load numba's registries of types and functions now instead of before the first kernel."""
    cpu_target.typing_context.refresh()
    cpu_target.target_context.refresh()


def machine_code(
    name: str, function: Callable[..., None], arguments: type[ctypes.Structure]
) -> bytes:
    """Return an object file with the function `name(number, size, at)`, whose arguments are all
    int64."""
    block = types.CPointer(from_dtype(np.dtype(arguments)))
    made = cfunc(types.void(types.int64, types.int64, block), **OPTIONS)(function)
    module = llvm.parse_assembly(made._library.get_llvm_str())
    entry = llvm.parse_assembly(
        str(_entry(name, made._wrapper_name.removeprefix("cfunc."), module.triple))
    )
    entry.data_layout = module.data_layout
    module.link_in(entry)
    for found in module.functions:
        if not found.is_declaration and found.name != name:
            found.linkage = "internal"  # else it is kept
    passes = llvm.create_new_module_pass_manager()
    passes.add_global_dead_code_eliminate_pass()
    passes.run(module, llvm.create_pass_builder(machine(), llvm.create_pipeline_tuning_options()))
    code: bytes = machine().emit_object(module)
    return code


def _entry(name: str, inner: str, triple: str) -> ir.Module:
    """A function that calls the loops in the form that numba's code expects, with places for a
    result and an error. The loops write neither."""
    module = ir.Module()
    module.triple = triple
    place = ANY.as_pointer()
    loops = ir.Function(module, ir.FunctionType(I32, [place, place, I64, I64, ANY]), inner)
    made = ir.Function(module, ir.FunctionType(VOID, [I64] * 3), name)
    b = ir.IRBuilder(made.append_basic_block("entry"))
    number, size, at = made.args
    b.call(loops, [b.alloca(ANY), b.alloca(ANY), number, size, b.inttoptr(at, ANY)])
    b.ret_void()
    return module


def inlined(function: Callable[..., Any]) -> Any:
    """A helper that becomes part of each kernel that calls it."""
    return njit(inline="always", **OPTIONS)(function)


def instruction(
    kinds: Sequence[ir.Type], emit: Callable[[ir.IRBuilder, Sequence[ir.Value]], None]
) -> Any:
    """A function that `emit` writes as IR. Its arguments are of these kinds, each int64 or float32;
    it returns nothing."""
    signature = types.void(*(types.float32 if kind == F32 else types.int64 for kind in kinds))

    def written(_typing: Any, *_given: Any) -> Any:
        def generate(context: Any, builder: ir.IRBuilder, _signature: Any, args: Any) -> Any:
            emit(builder, args)
            return context.get_dummy_value()

        return signature, generate

    # numba counts the parameters of a signature
    names = "typing", *(f"a{number}" for number in range(len(kinds)))
    parameters = [
        inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in names
    ]
    written.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return intrinsic(written)


def conversion(given: str, found: str, emit: Callable[[ir.IRBuilder, ir.Value], ir.Value]) -> Any:
    """A function of one number of type `given`, which `emit` writes as IR. It returns a number of
    type `found`."""
    signature = getattr(types, found)(getattr(types, given))

    @intrinsic  # type: ignore[untyped-decorator]
    def convert(_typing: Any, _number: Any) -> Any:
        def generate(_context: Any, builder: ir.IRBuilder, _signature: Any, args: Any) -> Any:
            return emit(builder, args[0])

        return signature, generate

    return convert


def pointer_to(name: str) -> Any:
    """A function that turns an address into a pointer to numbers of this type."""
    kind = getattr(types, name)

    @intrinsic  # type: ignore[untyped-decorator]
    def pointer(_typing: Any, _address: Any) -> Any:
        def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> Any:
            return builder.inttoptr(args[0], context.get_value_type(signature.return_type))

        return types.CPointer(kind)(types.int64), generate

    return pointer
