"""Generated kernels as machine code: LLVM modules compiled once per machine, kept on disk, called by address."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from llvmlite import binding as llvm
from llvmlite import ir

from ops.cpu.codegen.store import OBJECT, alone
from ops.cpu.codegen.target import host

_ENGINES: list[Any] = []  # an engine owns the code it compiled, so it is kept for ever


def machine() -> Any:
    """LLVM's target machine for `host()`, at its highest optimisation."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    llvm.initialize_native_asmparser()  # a pause instruction is inline assembly
    target = host()
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=target.cpu, features=target.features, opt=3, reloc="pic", codemodel="default"
    )


def optimised(build: Callable[[ir.Module], None], *, tidy: bool = False) -> Any:
    """The module that `build` fills, verified and optimised; `tidy`: its loops are written as they are to be, so that
    two passes do instead of fifty, in a tenth of the time."""
    module = ir.Module()
    module.triple = llvm.get_default_triple()
    collects = gc.isenabled()
    gc.disable()  # it finds nothing, and takes half of the time of 50 000 instructions
    try:
        build(module)
        parsed = llvm.parse_assembly(str(module))
    finally:
        if collects:
            gc.enable()
    parsed.verify()
    builder = llvm.create_pass_builder(machine(), llvm.create_pipeline_tuning_options(speed_level=2))
    if tidy:
        passes = llvm.create_new_module_pass_manager()
        passes.add_instruction_combine_pass()
        passes.add_simplify_cfg_pass()
    else:
        passes = builder.getModulePassManager()
    passes.run(parsed, builder)
    return parsed


def emitted(build: Callable[[ir.Module], None], *, tidy: bool = False) -> bytes:
    """The object file of the module that `build` fills. `tidy`: see `optimised`."""
    code: bytes = machine().emit_object(optimised(build, tidy=tidy))
    return code


def addresses(name: str, build: Callable[[ir.Module], None]) -> Callable[[str], int]:
    """Compile the module that `build` fills, or load it as kept under `name`; returns where each function lies."""
    found = addresses_now(name, partial(emitted, build), wait=True)
    assert found is not None
    return found


def addresses_now(name: str, emit: Callable[[], bytes], wait: bool) -> Callable[[str], int] | None:
    """Load the object file that is kept under `name`, or the one that `emit` makes; returns where each function lies.
    Without `wait` None if another process makes or loads it at this moment."""
    with alone(name, wait) as folder:
        if folder is None:
            return None
        path = folder / f"{name}{OBJECT}"
        try:
            code = path.read_bytes()
        except FileNotFoundError:
            code = emit()
            _keep(path, code)
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine())
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    _ENGINES.append(engine)

    def found(function: str) -> int:
        address: int = engine.get_function_address(function)
        if not address:
            raise LookupError(f"module '{name}' has no function '{function}': two modules are kept under one name")
        return address

    return found


def _keep(path: Any, code: bytes) -> None:
    """Write to the cache in one step, so that no process reads half of it; a failure is ignored."""
    new = path.with_suffix(f".{os.getpid()}")
    with suppress(OSError):
        new.write_bytes(code)
        new.replace(path)
