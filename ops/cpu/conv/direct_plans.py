"""Plans of direct convolution: the kernels of each pass of a shape, with all arguments but
addresses.

Backward through x is convolution too. The pixels of x fall into classes modulo the stride, and each
class is a convolution with the taps that reach it, the last first. Where one tap reads x, equal
steps are folded into one run of pixels, and x is read in place.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from ops.cpu.codegen.ir_tools import MASKED
from ops.cpu.codegen.target import host
from ops.cpu.conv import blocking
from ops.cpu.conv.algorithm import ConvShape
from ops.cpu.conv.blocking import Blocks, Panels, Sweep
from ops.cpu.conv.image_loops import convolve
from ops.cpu.conv.pack import add_parts, pack_weights, unpack_weights
from ops.cpu.conv.pixel_loops import multiply_pixels
from ops.cpu.conv.taps import (
    FLOAT,
    Steps,
    backward_taps,
    fold,
    folded_alike,
    forward_taps,
    hwnc,
    one_step,
    sweep_of,
)
from ops.cpu.conv.weight_loops import correlate
from ops.cpu.gemm.microkernel import USUAL, shapes, tiles
from ops.cpu.gemm.permute import movers
from ops.cpu.team.operands import LARGE
from ops.cpu.team.team import Team
from ops.cpu.team.workspace import LINE, aligned
from ops.geometry import Pair

ZEROS = np.zeros(64, np.float32)  # a row that sums start from
LONG = 24  # runs of at least this many rows fit tiles of any height
# Most rows of a product over pixels whose panels are not copied: 16 rows then take 0.7 of the time,
# 32 take 0.83
FEW_ROWS = 32
FEW_CHANNELS = 16  # most channels with which rows of y that end inside a vector are read in place
# bytes between pixels from which on they are copied, since they share few sets of the first-level
# cache
FAR = 1024


@dataclass(frozen=True)
class Work:
    """A sweep that is ready to run: blocks of arguments without addresses, and the offsets of its
    operands."""

    x_at: int
    y_at: int
    w_at: int
    block: Any
    packing: Any  # None: no tap reaches these pixels, or a gradient of weights is written in place
    weights_bytes: int
    scratch_bytes: int
    past: bool = False
    run: Any = correlate  # the kernel of a gradient of weights
    turned: bool = False  # it reads dy as x and x as y

    @property
    def bytes(self) -> int:
        """Bytes that it takes of the workspace."""
        return self.weights_bytes + self.scratch_bytes


class PixelForm(NamedTuple):
    """A gradient of weights with one tap as a product over pixels. `turned`: dy takes the place of
    x, so rows are outputs.

    The array with fewer channels takes the place of x, since x is read again for every panel of the
    other.
    """

    sweep: Sweep
    x: Steps
    y: Steps
    blocks: Blocks
    copied: bool
    turned: bool


def _pixel_form(s: Sweep, x: Steps, y: Steps, threads: int, turned: bool) -> PixelForm:
    y = Steps(y.n, FLOAT, y.h, y.w)
    s, x, y = fold(s, x, y)
    if turned:
        x, y = Steps(y.n, FLOAT, y.h, y.w), Steps(x.n, FLOAT, x.h, x.w)
        s = replace(s, channels=s.outputs, outputs=s.channels)
    copied = x.n >= FAR or s.high * s.wide > 1
    return PixelForm(s, x, y, blocking.pixel_blocks(s, threads, copied), copied, turned)


class Plans:
    """The plans of one shape on one team. Arguments are the steps of the arrays in memory."""

    def __init__(self, shape: ConvShape, team: Team) -> None:
        self.shape = shape
        self.team = team
        kinds = tiles(ahead=True, dense="B")
        move = movers()
        self._constants = {
            "table": kinds.table.ctypes.data,
            "rows": kinds.rows.ctypes.data,
            "zeros": ZEROS.ctypes.data,
            "copy": move.copy,
        }
        self._transpose = move.transpose

    def _axes(self) -> list[tuple[int, int, int, int, int]]:
        """(size, kernel, stride, pad, dilation) of height and width."""
        g = self.shape.geometry
        size = self.shape.in_shape[2:]
        return [(size[a], g.kernel[a], g.stride[a], g.pad[a], g.dilation[a]) for a in (0, 1)]

    def _forward_sweep(self) -> Sweep:
        (n, channels, *image), groups = self.shape.in_shape, self.shape.geometry.groups
        rows, columns = (forward_taps(*axis) for axis in self._axes())
        return sweep_of(
            n, (image[0], image[1]), channels // groups, self.shape.outputs // groups, groups,
            rows, columns, self.shape.geometry.stride,
        )  # fmt: skip

    def forward(self, x: Steps, y: Steps) -> Iterator[Work]:
        """Yield the one sweep of a forward pass."""
        _, channels, kh, kw = self.shape.weight_shape
        by = {"by_output": channels * kh * kw * FLOAT, "by_channel": kh * kw * FLOAT}
        yield self._work(self._forward_sweep(), x, y, (0, 0, 0), by, (kw * FLOAT, FLOAT))

    def data(self, dy: Steps, dx: Steps) -> Iterator[Work]:
        """Yield a sweep for each class of pixels of x."""
        outputs, channels, kh, kw = self.shape.weight_shape
        by = {"by_output": kh * kw * FLOAT, "by_channel": channels * kh * kw * FLOAT}
        n = self.shape.in_shape[0]
        groups = self.shape.geometry.groups
        _, _, high, wide = self.shape.out_shape
        stride = self.shape.geometry.stride
        axes = self._axes()
        for rh, rw in np.ndindex(min(stride[0], axes[0][0]), min(stride[1], axes[1][0])):
            taps = (
                backward_taps(axes[0][0], rh, *axes[0][1:]),
                backward_taps(axes[1][0], rw, *axes[1][1:]),
            )
            s = sweep_of(n, (high, wide), outputs // groups, channels, groups, *taps)
            i = taps[0].taps
            j = taps[1].taps
            first = (i[0] * kw + j[0]) * FLOAT if i and j else 0
            rows, columns = (t[1] - t[0] if len(t) > 1 else 0 for t in (i, j))
            to = Steps(dx.n, dx.c, dx.h * stride[0], dx.w * stride[1])
            yield self._work(
                s,
                dy,
                to,
                (0, rh * dx.h + rw * dx.w, first),
                by,
                (rows * kw * FLOAT, columns * FLOAT),
            )

    def _work(
        self,
        s: Sweep,
        x: Steps,
        y: Steps,
        at: tuple[int, int, int],
        by: dict[str, int],
        by_tap: Pair,
    ) -> Work:
        """A convolution: outputs y from x, with packed weights."""
        empty = 0 in s.taps
        in_place = empty or (s.single and x.c == FLOAT)
        x_at = at[0]
        if in_place:
            x_at += 0 if empty else s.off[0] * x.h + s.off[1] * x.w
            s, x, y = fold(s, x if not empty else Steps(0, FLOAT, 0, 0), y)
            blocks = blocking.forward_blocks_in_place(s, self.team.size)
        else:
            blocks = blocking.forward_blocks(s, self.team.size)
        depth = s.channels * s.taps[0] * s.taps[1]
        most = max(shapes(long=True)) if in_place and s.images >= LONG else USUAL
        large = s.groups * s.images * s.high * s.wide * s.outputs * FLOAT >= LARGE
        past = large and not any(step % LINE for step in (y.n, y.h, y.w))
        # only whole lines bypass the caches: halves take 2 to 3 times as long
        if past and s.images >= LONG:
            most = max(1, most - most % -(-LINE // (host().lanes * FLOAT)))
        panels = blocking.panel_table(s.outputs, blocks.parts, depth, most)
        past = past and not (panels.table[:, 2] * FLOAT % LINE).any()
        each = aligned(blocking.scratch_numbers(s, blocks, not in_place, False) * FLOAT)
        packed = panels.numbers * depth * FLOAT
        block = convolve.block(
            **self._geometry(s, x, y, blocks, panels),
            packed=int(not in_place),
            scratch_each=each,
            w_group=packed,
            along=int(blocks.along),
        )
        kinds = tiles(ahead=True, dense="AB")
        block.table = kinds.table.ctypes.data
        block.rows = kinds.rows.ctypes.data
        packing = (
            None
            if empty
            else pack_weights.block(
                groups=s.groups,
                w_group=s.weights * FLOAT,
                packed_group=packed,
                panels=panels.table.ctypes.data,
                panel_count=panels.count,
                channels=s.channels,
                block_c=blocks.c,
                taps_h=s.taps[0],
                taps_w=s.taps[1],
                by_row=by_tap[0],
                by_column=by_tap[1],
                by_tap=one_step(s.taps, by_tap),
                **by,
                transpose=self._transpose,
                copy=self._constants["copy"],
            )
        )
        if packing is not None:
            packing.w_group = (
                self.shape.outputs // s.groups * self.shape.weight_shape[1] * self._taps() * FLOAT
            )
        return Work(
            x_at,
            at[1],
            at[2],
            block,
            packing,
            aligned(packed * s.groups),
            each * self.team.size,
            past,
        )

    def _taps(self) -> int:
        return self.shape.geometry.kernel[0] * self.shape.geometry.kernel[1]

    def weights(self, x: Steps, y: Steps) -> Iterator[Work]:
        """Yield one sweep, or a product over pixels if one tap reads x."""
        s = self._forward_sweep()
        if s.single and x.c == FLOAT:
            at = s.off[0] * x.h + s.off[1] * x.w
            yield self._pixel_work(
                _pixel_form(s, x, y, self.team.size, turned=s.outputs <= s.channels), at
            )
            return
        # Rows of y that end inside a vector take twice as long without registers for masks. With
        # many channels a copied panel is read so often that the copy costs nothing.
        few = host().lanes == MASKED and s.channels <= FEW_CHANNELS
        fits = few or s.outputs % host().lanes == 0
        one_panel = fits and s.outputs <= USUAL * host().lanes and y.n == s.outputs * FLOAT
        sized = blocking.weight_blocks_in_place if one_panel else blocking.weight_blocks
        blocks = sized(s, self.team.size)
        panels = blocking.panel_table(s.outputs, blocks.parts, s.channels * s.taps[0] * s.taps[1])
        each = aligned(blocking.scratch_numbers(s, blocks, True, not blocks.in_place) * FLOAT)
        geometry = self._geometry(s, x, y, blocks, panels)
        if blocks.in_place and s.outputs % host().lanes:
            geometry |= self._apart()
        block = correlate.block(
            **geometry,
            packed=1,
            scratch_each=each,
            in_place=int(blocks.in_place),
        )
        yield self._unpacked(s, 0, block, blocks, panels, each)

    @staticmethod
    def _apart() -> dict[str, int]:
        """The micro-kernels for a y that is read in place and whose rows lie apart or are not whole
        vectors."""
        kinds = tiles(ahead=True)
        return {"table": kinds.table.ctypes.data, "rows": kinds.rows.ctypes.data}

    def _pixel_work(self, form: PixelForm, at: int) -> Work:
        """A gradient of weights with one tap, as a product of matrices."""
        s = form.sweep
        blocks = form.blocks
        panels = blocking.panel_table(s.outputs, blocks.parts, s.channels)
        each = aligned(blocking.pixel_numbers(blocks, form.copied) * FLOAT)
        geometry = self._geometry(s, form.x, form.y, blocks, panels)
        once = s.channels <= FEW_ROWS and s.high * s.wide == 1
        if once:
            geometry |= self._apart()
        block = multiply_pixels.block(
            **geometry, packed=int(form.copied), scratch_each=each, in_place=int(once)
        )
        if not form.turned:
            return replace(self._unpacked(s, at, block, blocks, panels, each), run=multiply_pixels)
        block.w_row = s.outputs * FLOAT
        block.w_group = s.weights * FLOAT
        block.channel_parts = blocks.channel_parts
        shares = self._shares(blocks)
        packing = None
        if shares > 1:
            block.w_part = aligned(s.groups * s.weights * FLOAT)
            packing = add_parts.block(
                count=s.groups * s.weights, parts=shares, packed_part=block.w_part
            )
        kept = block.w_part * shares if packing else 0
        return Work(
            0, at, 0, block, packing, kept, each * self.team.size, run=multiply_pixels, turned=True
        )

    def _unpacked(
        self, s: Sweep, at: int, block: Any, blocks: Blocks, panels: Panels, each: int
    ) -> Work:
        """A gradient of weights that arrives in panels."""
        taps = s.taps[0] * s.taps[1]
        packed = panels.numbers * s.channels * taps * FLOAT
        shares = self._shares(blocks)
        block.w_group = packed
        block.w_part = packed * s.groups
        block.channel_parts = blocks.channel_parts
        packing = unpack_weights.block(
            groups=s.groups,
            w_group=s.weights * FLOAT,
            packed_group=packed,
            panels=panels.table.ctypes.data,
            panel_count=panels.count,
            channels=s.channels,
            taps=taps,
            parts=shares,
            packed_part=packed * s.groups,
            transpose=self._transpose,
        )
        return Work(
            at, 0, 0, block, packing, aligned(packed * s.groups * shares), each * self.team.size
        )

    def _shares(self, blocks: Blocks) -> int:
        """The number of partial sums of a gradient of weights."""
        return self.team.size // blocks.parts // blocks.channel_parts

    def _geometry(
        self, s: Sweep, x: Steps, y: Steps, blocks: Blocks, panels: Panels
    ) -> dict[str, int]:
        return {
            "xn": x.n,
            "xc": x.c,
            "xh": x.h,
            "xw": x.w,
            "yn": y.n,
            "yh": y.h,
            "yw": y.w,
            "images": s.images,
            "height": s.image[0],
            "width": s.image[1],
            "channels": s.channels,
            "high": s.high,
            "wide": s.wide,
            "groups": s.groups,
            "x_group": s.channels * x.c,
            "y_group": s.outputs * FLOAT,
            "step_h": s.step[0],
            "step_w": s.step[1],
            "off_h": s.off[0],
            "off_w": s.off[1],
            "hop_h": s.hop[0],
            "hop_w": s.hop[1],
            "taps_h": s.taps[0],
            "taps_w": s.taps[1],
            "block_n": blocks.n,
            "block_h": blocks.h,
            "block_w": blocks.w,
            "block_c": blocks.c,
            "panels": panels.table.ctypes.data,
            "panel_count": panels.count,
            "starts": panels.starts.ctypes.data,
            "parts": blocks.parts,
            **self._constants,
        }

    def most_bytes(self) -> int:
        """The most bytes that a pass takes, however its images lie in memory."""
        n, c, h, w = self.shape.in_shape
        _, k, high, wide = self.shape.out_shape
        x = hwnc(n, c, h, w)
        y = hwnc(n, k, high, wide)
        plane = max(2, h * w) * FLOAT
        apart = Steps(c * plane, plane, w * FLOAT, FLOAT)
        works = [*self.forward(x, y), *self.forward(apart, y), *self.data(y, x)]
        # gradients of weights depend on the place of images in y, or on which axes fold into one
        s = self._forward_sweep()
        panel, sparse = y._replace(n=s.outputs * FLOAT), y._replace(n=0)
        pairs = [(apart, panel), (apart, sparse)]
        pairs += folded_alike(s, FAR) if s.single else [(x, panel), (x, sparse)]
        works += [work for pair in pairs for work in self.weights(*pair)]
        return max(work.bytes for work in works)
