"""Plans of the passes that make images: the kernels' arguments apart from addresses, and the tables
that they read."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ops.cpu.codegen.amx import DEPTH
from ops.cpu.codegen.code import Generated
from ops.cpu.codegen.stored import Stored
from ops.cpu.codegen.target import second_level
from ops.cpu.gemm.permute import movers
from ops.cpu.team.operands import goes_past
from ops.cpu.team.workspace import LINE, aligned
from ops.cpu.tiled.block import BLOCK_BYTES, SIDE, block
from ops.cpu.tiled.images import TOGETHER, images_kernel
from ops.cpu.tiled.pack import CHUNK, pack_bytes, pack_pairs
from ops.cpu.tiled.windows import Axis

FLOAT = 4
COPY_BYTES = second_level() * 3 // 8  # of x, that a unit of work reads again for each panel
PANEL_BYTES = second_level() // 4  # of weights, that all blocks of a unit read
# Chunks of a group, at most: half of a first-level cache of 48 KiB. Sums are read and written once
# more for each group.
GROUP = 12
RUN_BYTES = second_level() // 8  # of the sums of a run
FEW = 4  # units of work for each thread, at least, if images have so many rows


class Steps(NamedTuple):
    """Strides in bytes: image, row, column, channel. Channels are neighbours unless a plan says
    otherwise. Numbers are stored so."""

    n: int
    h: int
    w: int
    c: int
    stored: Stored


class Weights(NamedTuple):
    """How a pass sees the weights of a group: strides in bytes from output to output and from
    channel to channel, and the kernel's taps."""

    by_output: int
    by_channel: int
    kernel: tuple[int, int]
    w_group: int


@dataclass(frozen=True)
class Sweep:
    """Images y from images x: `channels` and `outputs` of each of `groups` groups."""

    images: int
    channels: int
    outputs: int
    groups: int
    rows: Axis
    columns: Axis

    @property
    def depth(self) -> int:
        """Channels of the copy: whole chunks."""
        return aligned(self.channels, DEPTH)


class Tables:
    """Tables of int64 numbers that kernels read. They live as long as this object."""

    def __init__(self) -> None:
        self._kept: list[NDArray[np.int64]] = []

    def keep(self, numbers: NDArray[Any]) -> int:
        """The address of a copy of these numbers."""
        table = np.ascontiguousarray(numbers, np.int64)
        self._kept.append(table)
        return table.ctypes.data


class ImagePlan:
    """One sweep that is ready to run: blocks of arguments without addresses, and the offset of its
    first result."""

    def __init__(
        self, s: Sweep, x: Steps, y: Steps, w: Weights, threads: int, y_at: int = 0
    ) -> None:
        self.y_at = y_at
        self._s = s
        self._tables = Tables()
        self._in_place = self._read_in_place(x)
        self._images, self._high = self._unit(threads)
        self.kernel = self._kernel(x, y)
        self.block = self.kernel.arguments(
            **self._copy(x), **self._results(y), **self._panels(), **block()._asdict()
        )
        self.packing = self._packing(w)
        self.weights_bytes: int = aligned(s.groups * self.block.w_group)
        scratch: int = max(self.block.scratch_each, self.packing.scratch_each)
        self.bytes = self.weights_bytes + threads * scratch
        size = s.images * s.rows.results * s.columns.results * s.outputs * s.groups * y.stored.size
        self.past = s.outputs % (LINE // y.stored.size) == 0 and goes_past(size, (), y[:3])

    def _read_in_place(self, x: Steps) -> bool:
        return in_one_run(self._s, x)

    def _unit(self, threads: int) -> tuple[int, int]:
        """Images and rows of a unit of work: as many as the copy of x has room for. All images of a
        batch, if so or if they are read in place, since they lie side by side."""
        s = self._s
        images = s.images
        column = s.columns.copied(s.columns.results) * s.depth * 2
        while (
            not self._in_place
            and images % 2 == 0
            and images > SIDE // 2
            and s.rows.copied(4) * column * images > COPY_BYTES
        ):
            images //= 2
        high = 1
        while high < s.rows.results and s.rows.copied(high + 1) * column * images <= COPY_BYTES:
            high += 1
        return images, rows_of_unit(s, threads, images, high)

    def _kernel(self, x: Steps, y: Steps) -> Generated:
        return images_kernel(x.stored, y.stored)

    @property
    def _pixel(self) -> int:
        """Bytes of a pixel of the copy, with its images."""
        return self._images * self._s.depth * 2

    @property
    def _line(self) -> int:
        """Bytes of a line of the copy."""
        return self._s.columns.copied(self._s.columns.results) * self._pixel

    @property
    def _merged(self) -> bool:
        """Whether the pixels of all results of a unit are one run of the copy."""
        axes = (self._s.rows, self._high), (self._s.columns, self._s.columns.results)
        return all(axis.copied(results) == results for axis, results in axes)

    @cached_property
    def _groups(self) -> NDArray[np.int64]:
        """The number of the first chunk of each group, and of all chunks."""
        s = self._s
        chunks = len(s.rows.taps) * len(s.columns.taps) * s.depth // DEPTH
        each = -(-chunks // max(1, -(-chunks // GROUP)))
        return np.append(np.arange(0, max(1, chunks), max(1, each)), chunks)

    @cached_property
    def _parts(self) -> tuple[int, int]:
        """The parts of the panels, and the panels of a part."""
        panels = -(-self._s.outputs // SIDE)
        panel_bytes = int(self._groups[-1]) * CHUNK
        parts = min(panels, max(1, -(-panels * panel_bytes // PANEL_BYTES)))
        return parts, -(-panels // parts)

    @property
    def _run(self) -> tuple[int, int]:
        """The blocks of a run, and the panels whose sums are made together."""
        together = min(self._parts[1], TOGETHER)
        width = self._s.columns.results * self._images
        lines = -(-self._high * width // SIDE) if self._merged else self._high * -(-width // SIDE)
        return max(1, min(lines, RUN_BYTES // (together * BLOCK_BYTES))), together

    @property
    def _sums_bytes(self) -> int:
        return math.prod(self._run) * BLOCK_BYTES

    def _copy(self, x: Steps) -> dict[str, int]:
        """How the part of x that a unit reads is copied."""
        s = self._s
        columns = s.columns.sources(s.columns.results)
        inside = (columns >= 0) & (columns < s.columns.size)
        lines = s.rows.copied(self._high)
        size = x.stored.size
        joined = s.depth == s.channels and (self._images == 1 or x.n == s.channels * size)
        return {
            "xn": x.n,
            "xh": x.h,
            "x_group": s.channels * size,
            "height": s.rows.size,
            "step_h": s.rows.step,
            "rows_of": self._tables.keep(s.rows.sources(self._high)),
            "line_count": lines,
            "line": self._line,
            "columns_of": self._tables.keep(np.append(np.where(inside, columns * x.w, -1), 0)),
            "column_count": len(columns),
            "pixel": self._pixel,
            "runs": 1 if joined else self._images,
            "run": s.channels * (self._images if joined else 1),
            "run_step": x.n,
            "row_bytes": x.n if self._in_place else s.depth * 2,
            "in_place": int(self._in_place),
            # the last block of a line reads whole tiles
            "scratch_each": aligned(
                self._sums_bytes
                + (0 if self._in_place else lines * self._line + SIDE * s.depth * 2)
            ),
        }

    def _results(self, y: Steps) -> dict[str, int]:
        """The units of work, and where their results lie."""
        s = self._s
        return {
            "yn": y.n,
            "yh": y.h,
            "y_group": s.outputs * y.stored.size,
            "high": s.rows.results,
            "outputs": s.outputs,
            "groups": s.groups,
            "units_n": s.images // self._images,
            "block_n": self._images,
            "units_h": -(-s.rows.results // self._high),
            "block_h": self._high,
            "merged": int(self._merged),
            "width": s.columns.results * self._images,
            "rows": self._tables.keep(
                _results(s, y, self._images, self._high if self._merged else 1)
            ),
        }

    def _panels(self) -> dict[str, int]:
        """The panels of weights, where the chunks of a block begin, and how they are grouped."""
        s = self._s
        starts = _chunks(s, self._high, self._line, self._pixel)
        panels = -(-s.outputs // SIDE)
        panel_bytes = len(starts) * CHUNK
        parts, part_panels = self._parts
        run, together = self._run
        return {
            "table": self._tables.keep(starts),
            "groups_of": self._tables.keep(self._groups),
            "k_groups": len(self._groups) - 1,
            "w_group": panels * panel_bytes,
            "panels": panels,
            "panel_bytes": panel_bytes,
            "parts": parts,
            "part_panels": part_panels,
            "run_blocks": run,
            "together": together,
            "sums_bytes": self._sums_bytes,
        }

    def _packing(self, w: Weights) -> Any:
        s = self._s
        taps = [i * w.kernel[1] + j for i in s.rows.taps for j in s.columns.taps]
        all_taps = math.prod(w.kernel)
        return pack_pairs.block(
            w_group=w.w_group,
            by_output=w.by_output,
            by_channel=w.by_channel,
            all_taps=all_taps,
            outputs=s.outputs,
            channels=s.channels,
            groups=s.groups,
            panels=self.block.panels,
            chunks=s.depth // DEPTH,
            order=self._tables.keep(np.array(taps, np.int64)),
            taps=len(taps),
            panel_bytes=self.block.panel_bytes,
            scratch_each=aligned(pack_bytes(all_taps)),
            transpose=movers().transpose,
        )


def in_one_run(s: Sweep, x: Steps) -> bool:
    """Whether x itself has the layout of a copy of all its images, with a whole block in each of
    its rows."""
    plain = all(
        len(axis.taps) == axis.step == 1 and axis.off == 0 and axis.size == axis.results
        for axis in (s.rows, s.columns)
    )
    row = s.images * s.columns.results
    alike = x.w == s.images * x.n and x.h == row * x.n
    return plain and alike and x.stored.size == 2 and s.depth == s.channels and row >= SIDE


def rows_of_unit(s: Sweep, threads: int, images: int, high: int) -> int:
    """Rows of a unit of work of so many images: `high` at most, in units alike, and so few that
    each thread gets some units."""
    most = s.rows.results
    units = s.groups * (s.images // images)
    if threads > 1 and units * -(-most // high) < FEW * threads:
        high = max(1, min(high, most * units // (FEW * threads)))
    return -(-most // -(-most // high))


def _results(s: Sweep, y: Steps, images: int, high: int) -> NDArray[np.int64]:
    """The offsets of results, images first, then columns, then rows."""
    p, q, n = np.ogrid[:high, : s.columns.results, :images]
    offsets: NDArray[np.int64] = (p * y.h + q * y.w + n * y.n).ravel()
    return offsets


def _chunks(s: Sweep, high: int, line: int, pixel: int) -> NDArray[np.int64]:
    """Where each chunk begins in the copy and in a panel: taps, then channels."""
    i, j = s.rows.places(high), s.columns.places(s.columns.results)
    c = np.arange(s.depth // DEPTH) * DEPTH * 2
    starts = (i[:, None, None] * line + j[None, :, None] * pixel + c).ravel()
    return np.stack([starts, np.arange(len(starts)) * CHUNK], 1)
