"""The table of micro-kernels for this machine's vectors, and how loops call them."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from functools import partial

import numpy as np
from llvmlite import ir
from numpy.typing import NDArray

from ops.cpu.codegen.compiled import addresses_now, emitted
from ops.cpu.codegen.kernel import calling
from ops.cpu.codegen.target import host
from ops.cpu.codegen.wanted import want
from ops.cpu.gemm.tile import ARGUMENTS, LOOKING_AHEAD, build_tile

MAX_ROWS = 16
USUAL = 3  # most vectors of a panel, unless rows come in long runs


def shapes(long: bool = False) -> dict[int, int]:
    """Most rows by number of vectors; `long`: also those for long runs.

    Sums, one row of B and one broadcast number have to fit into the registers.
    """
    if host().registers >= 32:
        # 3 x 8: the images of a batch come in eights. 6 x 4 is as fast; 14 x 2 too, where 8 x 2
        # takes 1.1 times as long while another thread works on the same core
        return {1: 16, 2: 14, 3: 8} | ({4: 6} if long else {})
    return {1: 10, 2: 6, 3: 4}


def tidy(dense: str) -> bool:
    """Whether two passes of LLVM do for these kernels (`optimised`): they then run in 0.93 to 1.04
    of the time, and compile in 0.6 of the time.

    With a dense B alone, LLVM's loop passes must take the products of A's stride out of the loop:
    otherwise it runs in 2.3 times the time.
    """
    return dense != "B"


class Tiles:
    """The micro-kernels of one kind, for vectors of `lanes` numbers.

    rows[v - 1]: the most rows with v vectors; `vectors`: the usual number of vectors of a panel at
    most.
    """

    def __init__(self, ahead: bool, dense: str, pairs: bool) -> None:
        self._most = shapes(long="A" in dense)
        self._ahead = ahead
        self._dense = dense
        self._pairs = pairs
        self.kept_as = "tiles" + "_ahead" * ahead + f"_{dense}" * bool(dense) + "_bfloat16" * pairs
        self.rows: NDArray[np.int64] = np.array(
            [self._most[v + 1] for v in range(len(self._most))], np.int64
        )
        self.vectors = USUAL
        self.lanes = host().lanes
        self._table: NDArray[np.int64] = np.zeros((len(self._most), MAX_ROWS), np.int64)
        self._loaded = False

    def __repr__(self) -> str:
        return f"<Tiles {self.kept_as}>"

    @property
    def table(self) -> NDArray[np.int64]:
        """table[v - 1, r - 1]: the address of the kernel of r rows and v vectors, 0 if there is
        none. Reading the table makes the kernels wanted (`wanted`): it is filled before the next
        kernel runs."""
        if not self._loaded:
            want(self)
        return self._table

    def load(self, wait: bool) -> bool:
        """Compile the kernels or load them, see `wanted.Loadable`."""
        at = addresses_now(
            self.kept_as, partial(emitted, self._build, tidy=tidy(self._dense)), wait
        )
        if at is None:
            return False
        for vectors, count in self._each():
            self._table[vectors - 1, count - 1] = at(f"tile_{count}x{vectors}")
        self._loaded = True
        return True

    def _build(self, module: ir.Module) -> None:
        for vectors, count in self._each():
            name = f"tile_{count}x{vectors}"
            build_tile(
                module,
                name,
                count,
                vectors,
                self.lanes,
                ahead=self._ahead,
                dense=self._dense,
                pairs=self._pairs,
            )

    def _each(self) -> Iterator[tuple[int, int]]:
        return (
            (vectors, count) for vectors, rows in self._most.items() for count in range(1, rows + 1)
        )


@functools.cache
def tiles(ahead: bool = False, dense: str = "", pairs: bool = False) -> Tiles:
    """The micro-kernels of this machine of one kind; `build_tile` explains the arguments."""
    return Tiles(ahead, dense, pairs)


def panels(width: int, most: int, lanes: int) -> tuple[tuple[int, int, int], ...]:
    """Split `width` columns into panels of up to `most` vectors: (first column, vectors, columns)
    of each.

    All but the last are whole vectors. Panels of one vector are avoided: 4 vectors are 2 + 2.
    """
    total = -(-width // lanes)
    count = -(-total // most)
    found = []
    start = 0
    for panel in range(count):
        vectors = -(-(total - start // lanes) // (count - panel))
        found.append((start, vectors, min(width - start, vectors * lanes)))
        start += vectors * lanes
    return tuple(found)


call_tile = calling(ARGUMENTS)
call_tile_ahead = calling(LOOKING_AHEAD)
