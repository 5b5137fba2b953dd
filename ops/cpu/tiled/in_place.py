"""Convolution on tiles without a copy of x.

The 32 rows of a block are images at one pixel, and images in bfloat16 lie side by side there. So a
block reads them where they are, if their channels fill whole chunks. Each block has a table of the
taps that meet x at its pixel: taps on the padding are left out. Products with the zeros of the
padding change no sum, so the bits are those of a convolution with a copy.

Copying took 0.2 to 0.4 of the time of a pass, and of 3 x 3 taps on 7 x 7 pixels 0.18 meet the
padding (measured once, 2026-11-30).
"""

from __future__ import annotations

import functools

import numpy as np
from numpy.typing import NDArray

from ops.cpu.codegen.amx import DEPTH
from ops.cpu.codegen.code import Generated
from ops.cpu.codegen.kernel import layout
from ops.cpu.codegen.stored import AS_BFLOAT16, Stored
from ops.cpu.codegen.values import Whole
from ops.cpu.gemm.calls import entry
from ops.cpu.tiled.block import SIDE
from ops.cpu.tiled.image_plan import COPY_BYTES, ImagePlan, Steps, Sweep, rows_of_unit
from ops.cpu.tiled.images import IMAGE_FIELDS, Both, ImagesCode
from ops.cpu.tiled.pack import CHUNK
from ops.cpu.tiled.windows import Axis

# column_step: bytes from the pixel of a result to that of the next one. row_kinds, column_kinds:
# for each line and column of results its kind, the taps that meet x there; kinds_w: how
# many kinds columns have. tables: two addresses for each kind of line and of column, of the table
# of chunks and of the first chunk of each group.
IN_PLACE = layout(f"{IMAGE_FIELDS} column_step row_kinds column_kinds kinds_w tables", "floor")


def supports(s: Sweep, x: Steps) -> bool:
    """Whether each block can read x where it lies."""
    whole = s.depth == s.channels and s.images % SIDE == 0
    return whole and x.stored is AS_BFLOAT16


def images_of_unit(s: Sweep) -> int:
    """Images of a unit of work: whole blocks that divide the batch, as many as have the source of
    two lines of results in the cache, or one block. All of the batch, if no tap reaches a source,
    as where a stride steps over pixels."""
    blocks = s.images // SIDE
    block_bytes = s.rows.copied(2) * s.columns.size * s.depth * 2 * SIDE
    fit = max(1, COPY_BYTES // block_bytes) if block_bytes else blocks
    return SIDE * max(n for n in range(1, blocks + 1) if blocks % n == 0 and n <= fit)


@functools.cache
def in_place_kernel(written: Stored) -> Generated:
    """As `images_kernel`, for x that is read in place."""
    name = f"tiled_in_place_{written.size}"
    return Generated(name, IN_PLACE, lambda code: _InPlace(code, AS_BFLOAT16, written).write())


class _InPlace(ImagesCode):
    """The kernel."""

    def _operand(self, read: Whole, row: Both, m: Whole) -> tuple[Whole, Whole, Whole]:
        code, a = self.code, self.a
        p, i = row
        q = m // a.block_n
        A = read + i * a.step_h * a.xh + q * a.column_step + m % a.block_n * a.xn
        kind = entry(code, a.row_kinds, p + i) * a.kinds_w + entry(code, a.column_kinds, q)
        return A, entry(code, a.tables, kind * 2), entry(code, a.tables, kind * 2 + 1)


class InPlacePlan(ImagePlan):
    """A sweep over x as it lies in memory."""

    def _read_in_place(self, x: Steps) -> bool:
        return True

    @property
    def _merged(self) -> bool:
        return False

    def _unit(self, threads: int) -> tuple[int, int]:
        """Images and rows of a unit of work: few images, so that the rows of x which a line of
        results reads stay in the cache for the next line."""
        images = images_of_unit(self._s)
        return images, rows_of_unit(self._s, threads, images, self._s.rows.results)

    def _kernel(self, x: Steps, y: Steps) -> Generated:
        return in_place_kernel(y.stored)

    def _copy(self, x: Steps) -> dict[str, int]:
        s = self._s
        rows, row_kinds = _kinds(s.rows)
        columns, column_kinds = _kinds(s.columns)
        tables = []
        for i in rows:
            for j in columns:
                chunks = self._chunks_of(i, j, x)
                groups = np.searchsorted(chunks[:, 1], self._groups * CHUNK)
                tables += [self._tables.keep(chunks), self._tables.keep(groups)]
        return super()._copy(x) | {
            "column_step": s.columns.step * x.w,
            "row_kinds": self._tables.keep(row_kinds),
            "column_kinds": self._tables.keep(column_kinds),
            "kinds_w": len(columns),
            "tables": self._tables.keep(np.array(tables)),
        }

    def _chunks_of(
        self, rows: tuple[int, ...], columns: tuple[int, ...], x: Steps
    ) -> NDArray[np.int64]:
        """Where each chunk of these taps begins, from a result's pixel and in a panel."""
        s = self._s
        found = []
        for i in rows:
            for j in columns:
                at = (s.rows.off + i * s.rows.hop) * x.h + (s.columns.off + j * s.columns.hop) * x.w
                tap = i * len(s.columns.taps) + j
                for c in range(s.depth // DEPTH):
                    chunk = tap * (s.depth // DEPTH) + c
                    found.append((at + c * DEPTH * 2, chunk * CHUNK))
        return np.array(found, np.int64).reshape(-1, 2)


def _kinds(axis: Axis) -> tuple[list[tuple[int, ...]], NDArray[np.int64]]:
    """The kinds of results along an axis, each the taps that meet the source, and the number of
    each result's kind."""
    taps = range(len(axis.taps))
    found = [
        tuple(t for t in taps if 0 <= p * axis.step + axis.off + t * axis.hop < axis.size)
        for p in range(axis.results)
    ]
    kinds = sorted(set(found))
    return kinds, np.array([kinds.index(kind) for kind in found], np.int64)
