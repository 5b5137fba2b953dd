"""Intel's AMX in generated kernels: registers of tiles, 16 rows of 64 bytes each, that multiply
matrices of bfloat16 numbers.

TDPBF16PS adds to a tile of 16 x 16 float32 sums the products of a tile of 16 x 32 numbers and one
of 32 x 16. In the second tile the numbers of rows 2 p and 2 p + 1 are pairs. The sum of each pair
is added in order; denormal numbers count as 0. A system must allow a process to use the registers.
A forked process keeps the permission.
"""

from __future__ import annotations

import ctypes
import functools
import os
import platform

from llvmlite import ir

from ops.cpu.codegen.ir_tools import I64, VOID, declared
from ops.cpu.codegen.target import host
from ops.errors import KernelsMissing

TILE_ROWS = 16  # rows of a tile, and float32 numbers in a row of sums
TILE_BYTES = 64  # of a row: 32 bfloat16 numbers, 16 pairs, or 16 float32 numbers
TILES = 8
DEPTH = 32  # bfloat16 numbers along k in a tile
FEATURES = {"+amx-tile", "+amx-bf16"}
ARCH_PRCTL = 158  # Linux's number of the system call
ARCH_REQ_XCOMP_PERM = 0x1023
XFEATURE_XTILEDATA = 18
I8 = ir.IntType(8)


@functools.cache
def amx_missing() -> str:
    """The reason why this process has no tiles; empty if it has. The first call asks the system for
    the permission, which then holds for all threads."""
    if not FEATURES.issubset(host().features.split(",")):
        return f"this processor ({host().cpu}) lacks AMX-BF16, which Intel's Sapphire Rapids has"
    if host().bits < 512:
        return f"AMX needs vectors of 512 bits, and kernels here use {host().bits}"
    system = platform.system(), platform.machine()
    if system != ("Linux", "x86_64"):
        return f"no permission to use AMX is known for {' on '.join(system)}"
    call = ctypes.CDLL(None, use_errno=True).syscall
    call.argtypes = [ctypes.c_long] * 3
    call.restype = ctypes.c_long
    if call(ARCH_PRCTL, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA):
        return f"the system does not permit AMX: {os.strerror(ctypes.get_errno())}"
    return ""


def has_amx() -> bool:
    """Whether this process may multiply tiles of bfloat16 numbers."""
    return not amx_missing()


def check_amx() -> None:
    """Check that this process may use tiles. Raises KernelsMissing with the reason."""
    if reason := amx_missing():
        raise KernelsMissing(f"products of tiles: {reason}; use precision 'fast'")


class TileRegisters:
    """The instructions on tiles, by the tiles' numbers. Addresses and strides are i64, in bytes.

    `configure` gives all tiles their full size and must come first on each thread. `release` ends
    the use: the system then saves no tiles when it switches threads.
    """

    def __init__(self, builder: ir.IRBuilder) -> None:
        self.b = builder

    def configure(self, sizes: ir.GlobalVariable) -> None:
        """Configure all tiles; `sizes` is the constant that `full_sizes` makes."""
        self._do("ldtilecfg", self.b.bitcast(sizes, I8.as_pointer()))

    def release(self) -> None:
        """End the use of tiles by this thread."""
        self._do("tilerelease")

    def zero(self, tile: int) -> None:
        """Set all numbers of a tile to 0."""
        self._do("tilezero", I8(tile))

    def load(self, tile: int, address: ir.Value, stride: ir.Value) -> None:
        """Read 16 rows of 64 bytes, `stride` apart."""
        self._do("tileloadd64", I8(tile), self.b.inttoptr(address, I8.as_pointer()), stride)

    def store(self, tile: int, address: ir.Value, stride: ir.Value) -> None:
        """Write 16 rows of 64 bytes, `stride` apart."""
        self._do("tilestored64", I8(tile), self.b.inttoptr(address, I8.as_pointer()), stride)

    def multiply(self, sums: int, x: int, y: int) -> None:
        """sums[m, n] += x[m, 2 p] y[p, 2 n] + x[m, 2 p + 1] y[p, 2 n + 1] for p < 16."""
        self._do("tdpbf16ps", I8(sums), I8(x), I8(y))

    def _do(self, name: str, *arguments: ir.Value) -> None:
        kinds = [argument.type for argument in arguments]
        self.b.call(declared(self.b, f"llvm.x86.{name}", VOID, kinds), arguments)


def full_sizes(module: ir.Module) -> ir.GlobalVariable:
    """The constant that configures every tile with 16 rows of 64 bytes."""
    sizes = bytearray(64)
    sizes[0] = 1  # the palette
    for tile in range(TILES):
        sizes[16 + 2 * tile] = TILE_BYTES
        sizes[48 + tile] = TILE_ROWS
    kind = ir.ArrayType(I8, len(sizes))
    made = ir.GlobalVariable(module, kind, "full_sizes")
    made.global_constant = True
    made.linkage = "internal"
    made.align = 64
    made.initializer = ir.Constant(kind, sizes)
    return made


def room(builder: ir.IRBuilder, size: int) -> ir.Value:
    """The address of `size` bytes on the stack, aligned to a cache line."""
    with builder.goto_entry_block():
        place = builder.alloca(ir.ArrayType(I8, size))
        place.align = 64
        return builder.ptrtoint(place, I64)
