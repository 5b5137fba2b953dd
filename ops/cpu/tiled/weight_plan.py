"""The plan of the pass that makes gradients of weights."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ops.cpu.codegen.amx import DEPTH
from ops.cpu.codegen.code import Generated
from ops.cpu.gemm.permute import movers
from ops.cpu.team.workspace import LINE, aligned
from ops.cpu.tiled.block import BLOCK_BYTES, SIDE, block
from ops.cpu.tiled.image_plan import COPY_BYTES, FLOAT, Steps, Sweep, Tables
from ops.cpu.tiled.weights import tiled_total, weights_kernel

PARTS = 8  # most parts of the sums, usually
# Bytes of all parts, if there are several: so many, or this share of dy's. Threads that share no
# parts copy all of dy each, which takes a third of the pass.
PART_BYTES = 1 << 20
PART_SHARE = 1 / 4
LEAST_SHARE = 2 * SIDE  # channels of a share, if there are so many
TILE = SIDE // 2


class WeightPlan:
    """Blocks of arguments without addresses. `in_place`: the sums are dw itself, since there is one
    part and one tap. `most_parts`: of the sums. `whole`: a share of the sums has all channels."""

    most_parts = PARTS
    whole = False

    def __init__(self, s: Sweep, x: Steps, y: Steps, threads: int) -> None:
        self._s = s
        self._tables = Tables()
        most, self._images, self._high = self._unit()
        self._chunks, self._pixels = self._line_of(self._images)
        taps = len(s.rows.taps) * len(s.columns.taps)
        panels = -(-s.channels // SIDE)
        w_tap = panels * BLOCK_BYTES
        w_part = -(-s.outputs // SIDE) * taps * w_tap
        units = s.images // self._images * -(-s.rows.results // self._high)
        parts = self._parts(units, s.groups * w_part)
        self.in_place = taps == parts == 1
        w_row = s.channels * FLOAT
        if self.in_place:
            w_part = s.outputs * w_row
        shares = max(-(-s.channels // most), -(-threads // (s.groups * parts)))
        shares = 1 if self.whole else min(panels, shares)
        self._share = -(-panels // shares) * SIDE
        totals = {
            "w_part": w_part,
            "w_panel": taps * w_tap,
            "w_tap": w_tap,
            "parts": parts,
            "taps": taps,
            "outputs": s.outputs,
            "channels": s.channels,
            "groups": s.groups,
        }
        self.kernel = self._kernel(x, y)
        direct = {"direct": int(self.in_place), "w_row": w_row}
        work = totals | direct | self._work(x, y) | self._copies(x, y)
        self.block = self.kernel.arguments(**work, **block()._asdict())
        self.total = tiled_total.block(**totals, transpose=movers().transpose)
        self.sums_bytes = 0 if self.in_place else aligned(s.groups * parts * w_part)
        self.bytes: int = self.sums_bytes + threads * self.block.scratch_each

    def _parts(self, units: int, part_bytes: int) -> int:
        """The parts of the sums: a power of two, so that threads get as many each."""
        s = self._s
        gradients = s.images * s.rows.results * s.columns.results * s.outputs * s.groups * 2
        room = max(PART_BYTES, int(gradients * PART_SHARE)) // part_bytes
        return 1 << max(1, min(self.most_parts, units, room)).bit_length() - 1

    def _kernel(self, x: Steps, y: Steps) -> Generated:
        return weights_kernel(x.stored, y.stored)

    def _line_of(self, images: int) -> tuple[int, int]:
        """Chunks of a line of dy, and pixels of a line of x for each remainder of the step."""
        chunks = -(-self._s.columns.results * aligned(images, 2) // DEPTH)
        return chunks, chunks * DEPTH + self._s.columns.reach * aligned(images, 2)

    def _unit(self) -> tuple[int, int, int]:
        """The most channels of a share, and the images and rows of a unit of work.

        Each unit but the first reads and writes all sums once more. Units are larger if they are
        those of fewer channels; then each share of the channels copies dy once more, unless there
        is only one unit.
        """
        s = self._s
        sums = len(s.rows.taps) * len(s.columns.taps) * s.channels * s.outputs
        gradients = s.images * s.rows.results * s.columns.results * s.outputs
        found: list[tuple[int, int, int, int]] = []
        most = s.channels
        while (most >= LEAST_SHARE and not (self.whole and found)) or not found:
            images, high = self._unit_of(most)
            units = s.images // images * -(-s.rows.results // high)
            again = 0 if units == 1 else -(-s.channels // most) - 1
            found.append(((units - 1) * sums + again * gradients, -most, images, high))
            most = aligned(-(-most // 2), SIDE)
        _, least, images, high = min(found)
        return -least, images, high

    def _unit_of(self, channels: int) -> tuple[int, int]:
        """Images and rows of a unit of work on so many channels."""
        s = self._s

        def size(images: int, high: int) -> int:
            chunks, pixels = self._line_of(images)
            x = s.rows.copied(high) * len(s.columns.remainders) * pixels * aligned(channels, TILE)
            return 2 * (x + high * chunks * DEPTH * aligned(s.outputs, TILE))

        images = s.images
        while images % 4 == 0 and images > SIDE // 2 and size(images, 4) > COPY_BYTES:
            images //= 2
        high = 1
        while high < s.rows.results and size(images, high + 1) <= COPY_BYTES:
            high += 1
        return images, -(-s.rows.results // -(-s.rows.results // high))

    def _work(self, x: Steps, y: Steps) -> dict[str, int]:
        """The units of work, and the operands."""
        s = self._s
        return {
            "xn": x.n,
            "xh": x.h,
            "x_group": s.channels * x.stored.size,
            "height": s.rows.size,
            "step_h": s.rows.step,
            "yn": y.n,
            "yh": y.h,
            "y_group": s.outputs * y.stored.size,
            "high": s.rows.results,
            "units_n": s.images // self._images,
            "block_n": self._images,
            "units_h": -(-s.rows.results // self._high),
            "block_h": self._high,
            "c_shares": -(-s.channels // self._share),
            "c_share": self._share,
        }

    def _copies(self, x: Steps, y: Steps) -> dict[str, int]:
        """How a unit's part of x and dy is copied, and where the chunks of a block begin."""
        s = self._s
        remainders = len(s.columns.remainders)
        lines = s.rows.copied(self._high)
        chunks = self._chunks
        column = aligned(self._images, 2)
        pair = aligned(min(self._share, s.channels), TILE) * FLOAT
        line = remainders * self._pixels // 2 * pair
        chunk = aligned(s.outputs, TILE) * LINE
        # the last blocks read whole tiles
        x_bytes = lines * line + DEPTH * LINE
        y_bytes = self._high * chunks * chunk + SIDE * LINE
        return {
            "rows_of": self._tables.keep(s.rows.sources(self._high)),
            "line_count": lines,
            "line": line,
            "pixels_of": self._tables.keep(np.pad(self._pixel_offsets(x), (0, column))),
            "pixel_count": remainders * self._pixels,
            "pair": pair,
            "outputs_of": self._tables.keep(np.pad(self._output_offsets(y), (0, DEPTH))),
            "column": column,
            "chunks": chunks,
            "chunk": chunk,
            "table": self._tables.keep(_chunks(self._high, chunks, chunk, line, pair)),
            "taps_of": self._tables.keep(self._tap_offsets(line, pair)),
            "x_bytes": x_bytes,
            "scratch_each": aligned(BLOCK_BYTES + x_bytes + y_bytes),
        }

    def _pixel_offsets(self, x: Steps) -> NDArray[np.int64]:
        """The offset of each pixel of a line of the copy of x: columns, then images."""
        s = self._s
        positions, image = np.divmod(np.arange(self._pixels), aligned(self._images, 2))
        most = s.columns.results + s.columns.reach
        sources = s.columns.sources(s.columns.results).reshape(-1, most)
        column = sources[:, np.minimum(positions, most - 1)]
        inside = (column >= 0) & (column < s.columns.size)
        inside &= (positions < most) & (image < self._images)
        return np.where(inside, column * x.w + image * x.n, -1).ravel()

    def _output_offsets(self, y: Steps) -> NDArray[np.int64]:
        """The offset of each pixel of a line of dy."""
        column, image = np.divmod(np.arange(self._chunks * DEPTH), aligned(self._images, 2))
        inside = (column < self._s.columns.results) & (image < self._images)
        return np.where(inside, column * y.w + image * y.n, -1)

    def _tap_offsets(self, line: int, pair: int) -> NDArray[np.int64]:
        """How far each tap shifts the copy of x, in bytes."""
        s = self._s
        most = s.columns.results + s.columns.reach
        slots, shifts = np.divmod(s.columns.places(s.columns.results), most)
        columns = (slots * self._pixels + shifts * aligned(self._images, 2)) // 2 * pair
        offsets: NDArray[np.int64] = s.rows.places(self._high)[:, None] * line + columns
        return offsets.ravel()


def _chunks(high: int, chunks: int, chunk: int, line: int, pair: int) -> NDArray[np.int64]:
    """Where each chunk of a unit begins in the copies of dy and x."""
    p, q = np.divmod(np.arange(high * chunks), chunks)
    return np.stack([np.arange(high * chunks) * chunk, p * line + q * (DEPTH // 2) * pair], 1)
