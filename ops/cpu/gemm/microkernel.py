"""The table of micro-kernels for this machine's vectors, and how numba's loops call them."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numpy.typing import NDArray

from ops.cpu.codegen.compiled import addresses
from ops.cpu.codegen.target import host
from ops.cpu.gemm.tile import ARGUMENTS, LOOKING_AHEAD, build_tile

MAX_ROWS = 16
USUAL = 3  # most vectors of a panel, unless rows come in long runs


class Tiles(NamedTuple):
    """table[v - 1, r - 1]: the address of the kernel of r rows and v vectors of `lanes` numbers (0: there is none).

    rows[v - 1]: the most rows with v vectors; `vectors`: the most vectors of a panel as a rule.
    """

    table: NDArray[np.int64]
    rows: NDArray[np.int64]
    vectors: int
    lanes: int


def shapes(long: bool = False) -> dict[int, int]:
    """Most rows by number of vectors; `long`: also those for long runs.

    Sums, one row of B and one broadcast number have to fit into the registers.
    """
    if host().registers >= 32:
        # 3 x 8: the images of a batch come in eights. 6 x 4 is as fast; 14 x 2 too, where 8 x 2 takes 1.1 times as
        # long while another thread works on the same core
        return {1: 16, 2: 14, 3: 8} | ({4: 6} if long else {})
    return {1: 10, 2: 6, 3: 4}


@functools.cache
def tiles(ahead: bool = False, dense: str = "") -> Tiles:
    """The micro-kernels of this machine, compiled or loaded on first use; which: see `build_tile`."""
    most, lanes = shapes(long="A" in dense), host().lanes

    def build(module: ir.Module) -> None:
        for vectors, rows in most.items():
            for count in range(1, rows + 1):
                build_tile(module, f"tile_{count}x{vectors}", count, vectors, lanes, ahead=ahead, dense=dense)

    at = addresses("tiles" + "_ahead" * ahead + f"_{dense}" * bool(dense), build)
    table = np.zeros((max(most), MAX_ROWS), np.int64)
    for vectors, rows in most.items():
        for count in range(1, rows + 1):
            table[vectors - 1, count - 1] = at(f"tile_{count}x{vectors}")
    return Tiles(table, np.array([most[v + 1] for v in range(len(most))], np.int64), USUAL, lanes)


def panels(width: int, most: int, lanes: int) -> tuple[tuple[int, int, int], ...]:
    """Split `width` columns into panels of up to `most` vectors: (first column, vectors, columns) of each.

    All but the last are whole vectors. No panel of one vector where it can be helped: 4 vectors are 2 + 2.
    """
    total = -(-width // lanes)
    count = -(-total // most)
    found, start = [], 0
    for panel in range(count):
        vectors = -(-(total - start // lanes) // (count - panel))
        found.append((start, vectors, min(width - start, vectors * lanes)))
        start += vectors * lanes
    return tuple(found)


@intrinsic
def call_tile(  # type: ignore[no-untyped-def]
    tc,
    kernel,
    A,
    sAr,
    sAk,
    sAo,
    B,
    sBk,
    sBo,
    C,
    sCr,
    I,
    sIr,
    nk,
    no,
    lanes,
    floor,  # BLAS's names
):
    """Call the micro-kernel at address `kernel`; the arguments are those of `tile`."""
    signature = types.void(*[types.int64] * 15, types.float32)

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> Any:
        kind = ir.FunctionType(ir.VoidType(), [kind for _, kind in ARGUMENTS])
        builder.call(builder.inttoptr(args[0], kind.as_pointer()), args[1:])
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def call_tile_ahead(  # type: ignore[no-untyped-def]
    tc,
    kernel,
    A,
    sAr,
    sAk,
    sAo,
    B,
    sBk,
    sBo,
    C,
    sCr,
    I,
    sIr,
    nk,
    no,
    lanes,
    P,
    sP,
    Q,
    sQ,
    past,
    floor,
):
    """Call a micro-kernel that looks ahead."""
    signature = types.void(*[types.int64] * (len(LOOKING_AHEAD)), types.float32)

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> Any:
        kind = ir.FunctionType(ir.VoidType(), [kind for _, kind in LOOKING_AHEAD])
        builder.call(builder.inttoptr(args[0], kind.as_pointer()), args[1:])
        return context.get_dummy_value()

    return signature, generate
