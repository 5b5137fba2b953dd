"""Generated kernels as machine code: LLVM modules compiled once per machine, kept on disk, called
by address."""

from __future__ import annotations

import functools
import gc
from collections.abc import Callable
from functools import partial
from typing import Any

from llvmlite import binding as llvm
from llvmlite import ir

from ops.cpu.codegen.store import alone
from ops.cpu.codegen.target import host

# a dropped object is unloaded, so all are kept as long as the process lives
_LOADED: list[Any] = []


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
    """The module that `build` fills, verified and optimised. `tidy`: its loops already have their
    final form, so two passes replace fifty and take a tenth of the time."""
    module = ir.Module()
    module.triple = llvm.get_default_triple()
    collects = gc.isenabled()
    gc.disable()  # collections find nothing, and take half of the time of 50 000 instructions
    try:
        build(module)
        parsed = llvm.parse_assembly(str(module))
    finally:
        if collects:
            gc.enable()
    parsed.verify()
    builder = llvm.create_pass_builder(
        machine(), llvm.create_pipeline_tuning_options(speed_level=2)
    )
    if tidy:
        passes = llvm.create_new_module_pass_manager()
        passes.add_instruction_combine_pass()
        passes.add_simplify_cfg_pass()
    else:
        passes = builder.getModulePassManager()
    passes.run(parsed, builder)
    return parsed


def emitted(build: Callable[[ir.Module], None], *, tidy: bool = False) -> bytes:
    """The object file of the module that `build` fills. `optimised` explains `tidy`."""
    code: bytes = machine().emit_object(optimised(build, tidy=tidy))
    return code


def addresses(name: str, build: Callable[[ir.Module], None]) -> Callable[[str], int]:
    """Compile the module that `build` fills, or load the object file that is kept under `name`.
    Returns a function from the name of a function to its address."""
    found = addresses_now(name, partial(emitted, build), wait=True)
    assert found is not None
    return found


def addresses_now(name: str, emit: Callable[[], bytes], wait: bool) -> Callable[[str], int] | None:
    """Load the object file that is kept under `name`, or the one that `emit` makes. Returns a
    function from the name of a function to its address. Without `wait` returns None if another
    process makes or loads the file at this moment."""
    with alone(name, wait) as kept:
        if kept is None:
            return None
        code = kept.read()
        if code is None:
            code = emit()
            kept.write(code)
    linker = _linker()
    library = f"{name} {len(_LOADED)}"
    _LOADED.append(
        llvm.JITLibraryBuilder().add_object_img(code).add_current_process().link(linker, library)
    )

    def found(function: str) -> int:
        try:
            there = linker.lookup(library, function)
        except RuntimeError:
            text = (
                f"module '{name}' has no function '{function}': two modules are kept under one name"
            )
            raise LookupError(text) from None
        _LOADED.append(there)
        address: int = there[function]
        return address

    return found


@functools.cache
def _linker() -> Any:
    """JITLink, LLVM's linker that takes one piece of memory for the code and the constants of an
    object file. LLVM's older engine takes several pieces. It ends the process if they are more than
    2 GiB apart, as they may be once a run has mapped its arenas. One linker serves all kernels: an
    engine for each of 118 kernels takes 0.15 s of a core, one linker 0.03 s."""
    return llvm.create_lljit_compiler(machine(), use_jit_link=True)
