"""Convolution of images with few channels on tiles: all that a result reads lies side by side in a
copy.

One channel, or three, would leave 29 to 31 of the 32 numbers of a chunk empty. So a pixel of the
copy is a patch: the channels x rows x columns of x under the kernel, in the order of the weights.
The convolution is then one of 1 x 1 taps with so many channels, and the plans and blocks are those
of every other one.

A unit of work first rounds the rows of x that it reads into its strip, [image][channel][row]
[column], with zeros around them. A run of a patch, the columns under one row of the kernel, is a
run of the strip.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np

from ops.cpu.codegen.bfloat16 import LANES
from ops.cpu.codegen.code import Code, Generated
from ops.cpu.codegen.kernel import layout
from ops.cpu.codegen.stored import AS_BFLOAT16, Stored
from ops.cpu.codegen.values import Whole
from ops.cpu.gemm.calls import Arguments, either, entry
from ops.cpu.team.workspace import LINE, aligned
from ops.cpu.tiled.image_plan import ImagePlan, Steps, Sweep, Tables
from ops.cpu.tiled.images import IMAGE_FIELDS, ImagesCode
from ops.cpu.tiled.vectors import (
    BOTH,
    Source,
    load_numbers,
    store_anywhere,
    store_zeros,
)
from ops.cpu.tiled.weight_plan import WeightPlan
from ops.cpu.tiled.weights import WEIGHT_FIELDS, WeightsCode
from ops.cpu.tiled.windows import Axis
from ops.errors import Shape
from ops.geometry import ConvGeometry

NUMBER = 2  # bytes of a bfloat16 number
MOST_PARTS = 32  # of the sums of a gradient: they are small, and threads share nothing else

# x: as `IMAGES` and `WEIGHTS` say; xc, xw: its strides from channel to channel and from column to
# column. strip: the offset of the strip from the copy; a row of the strip has strip_row bytes, of
# which `left` precede x, a channel strip_channel, an image strip_image. pad_h: rows of zeros before
# x. The strip of result (p, q) begins step_p bytes after that of (p - 1, q), and step_q after that
# of (p, q - 1). A patch is `runs` runs of `run` numbers; runs_of: their offsets in the strip.
STRIP_FIELDS = (
    " x_channels x_width xc xw strip strip_rows strip_row strip_channel strip_image left pad_h"
    " strip_bytes wide step_p step_q patch_runs patch_run runs_of"
)
PATCHED_IMAGES = layout(IMAGE_FIELDS + STRIP_FIELDS, "floor")
PATCHED_WEIGHTS = layout(WEIGHT_FIELDS + STRIP_FIELDS)


class Patches(NamedTuple):
    """How results read x (N, C, H, W)."""

    in_shape: Shape
    geometry: ConvGeometry

    @property
    def numbers(self) -> int:
        """Numbers of a patch."""
        return self.in_shape[1] * self.geometry.kernel[0] * self.geometry.kernel[1]

    def sweep(self, outputs: int) -> Sweep:
        """The convolution of patches with 1 x 1 taps."""
        n, _, high, wide = self.geometry.output_shape(self.in_shape, outputs)
        rows, columns = (Axis(size, size, 1, 0, 1, (0,)) for size in (high, wide))
        return Sweep(n, self.numbers, outputs, 1, rows, columns)

    def fields(
        self, x: Steps, tables: Tables, images: int, high: int, strip: int
    ) -> dict[str, int]:
        """The fields of STRIP_FIELDS, and those of x, for units of `images` images and `high` rows
        of results."""
        g = self.geometry
        _, channels, height, width = self.in_shape
        _, _, _, wide = g.output_shape(self.in_shape, 1)
        rows = (high - 1) * g.stride[0] + (g.kernel[0] - 1) * g.dilation[0] + 1
        # zeros are written up to a whole vector after x, and read up to one after the last run
        longest = max(g.pad[1] + width + BOTH, (wide - 1) * g.stride[1] + LANES)
        row = aligned(longest * NUMBER)
        c, i = np.ogrid[:channels, : g.kernel[0]]
        return {
            "x_channels": channels,
            "x_width": width,
            "height": height,
            "step_h": g.stride[0],
            "xc": x.c,
            "xw": x.w,
            "strip": strip,
            "strip_rows": rows,
            "strip_row": row,
            "strip_channel": rows * row,
            "strip_image": channels * rows * row,
            "left": g.pad[1] * NUMBER,
            "pad_h": g.pad[0],
            "line_count": high,
            "wide": wide,
            "step_p": g.stride[0] * row,
            "step_q": g.stride[1] * NUMBER,
            "patch_runs": channels * g.kernel[0],
            "patch_run": g.kernel[1],
            "runs_of": tables.keep(((c * rows + i * g.dilation[0]) * row).ravel()),
            "strip_bytes": images * channels * rows * row,
        }


class PatchedImagePlan(ImagePlan):
    """The plan of a forward pass by patches."""

    def __init__(self, patches: Patches, *of: Any) -> None:
        self._patches = patches
        super().__init__(*of)

    def _read_in_place(self, x: Steps) -> bool:
        return False

    def _kernel(self, x: Steps, y: Steps) -> Generated:
        return patched_images_kernel(x.stored, y.stored)

    def _copy(self, x: Steps) -> dict[str, int]:
        fields = super()._copy(x)
        strip = fields["scratch_each"] - self._sums_bytes
        found = self._patches.fields(x, self._tables, self._images, self._high, strip)
        fields["scratch_each"] += found["strip_bytes"]
        return fields | found


class PatchedWeightPlan(WeightPlan):
    """The plan of a gradient of weights by patches."""

    most_parts = MOST_PARTS
    whole = True  # each share of the sums has all numbers of a patch

    def __init__(self, patches: Patches, *of: Any) -> None:
        self._patches = patches
        super().__init__(*of)

    def _kernel(self, x: Steps, y: Steps) -> Generated:
        return patched_weights_kernel(x.stored, y.stored)

    def _copies(self, x: Steps, y: Steps) -> dict[str, int]:
        fields = super()._copies(x, y)
        strip = fields["x_bytes"]
        found = self._patches.fields(x, self._tables, self._images, self._high, strip)
        for size in ("x_bytes", "scratch_each"):
            fields[size] += found["strip_bytes"]
        return fields | found


@functools.cache
def patched_images_kernel(read: Stored, written: Stored) -> Generated:
    """As `images_kernel`, of patches."""
    name = f"patched_images_{read.size}_{written.size}"
    return Generated(name, PATCHED_IMAGES, lambda code: _PatchedImages(code, read, written).write())


@functools.cache
def patched_weights_kernel(x: Stored, dy: Stored) -> Generated:
    """As `weights_kernel`, of patches."""
    name = f"patched_weights_{x.size}_{dy.size}"
    return Generated(name, PATCHED_WEIGHTS, lambda code: _PatchedWeights(code, x, dy).write())


class _PatchedImages(ImagesCode):
    """The kernel of a forward pass."""

    def _copy(self, copy: Whole, source: Whole, p: Whole) -> None:
        code, a = self.code, self.a
        strip = copy + a.strip
        copy_strip(code, a, self.x, (source, strip), p)
        for i in code.loop(0, a.line_count):
            for q in code.loop(0, a.wide):
                for n in code.loop(0, a.block_n):
                    here = strip + n * a.strip_image + i * a.step_p + q * a.step_q
                    to = copy + ((i * a.wide + q) * a.block_n + n) * a.row_bytes
                    store_zeros(code, to + a.row_bytes - LINE)
                    for t in code.loop(0, a.patch_runs):
                        # zeros after the run: the next run overwrites them
                        run = load_numbers(code, here + entry(code, a.runs_of, t), a.patch_run)
                        store_anywhere(code, run, to + t * a.patch_run * NUMBER)


class _PatchedWeights(WeightsCode):
    """The kernel of a gradient of weights."""

    def _copy_pixels(self, places: tuple[Whole, Whole], p: Whole, channels: Whole) -> None:
        code, a = self.code, self.a
        source, copy = places
        strip = copy + a.strip
        copy_strip(code, a, self.x, (source, strip), p)
        rounded = Source(code, AS_BFLOAT16)
        pairs = (a.block_n + 1) // 2
        for i in code.loop(0, a.line_count):
            line = copy + i * a.line
            for q in code.loop(0, a.wide):
                for m in code.loop(0, pairs):
                    here = strip + m * 2 * a.strip_image + i * a.step_p + q * a.step_q
                    both = (m * 2 + 1) < a.block_n
                    second = both.pick(here + a.strip_image, here)
                    counts = a.patch_run, both.pick(a.patch_run, 0)
                    to = line + (q * pairs + m) * a.pair
                    for t in code.loop(0, a.patch_runs):
                        at = entry(code, a.runs_of, t)
                        pair = rounded.pairs((here + at, second + at), counts)
                        store_anywhere(code, pair, to + t * a.patch_run * (2 * NUMBER))
            # the pixels after the last one are multiplied, too
            for at in code.loop(a.wide * pairs * a.pair, a.line, LINE):
                store_zeros(code, line + at)


def copy_strip(code: Code, a: Arguments, x: Source, places: tuple[Whole, Whole], p: Whole) -> None:
    """Round the rows of x that results of rows p, p + 1, ... read, with zeros around them."""
    source, strip = places
    for n in code.loop(0, a.block_n):
        for c in code.loop(0, a.x_channels):
            for r in code.loop(0, a.strip_rows):
                to = strip + n * a.strip_image + c * a.strip_channel + r * a.strip_row
                for at in code.loop(0, a.strip_row, LINE):
                    store_zeros(code, to + at)
                row = p * a.step_h + r - a.pad_h
                with code.when((row < a.height) & (code.whole(-1) < row)):
                    here = source + n * a.xn + c * a.xc + row * a.xh
                    with either(code, a.xw.equals(x.size)) as (together, apart):
                        for step, branch in ((BOTH, together), (1, apart)):
                            with branch:
                                _copy_row(code, a, x, (here, to + a.left), step)


def _copy_row(code: Code, a: Arguments, x: Source, places: tuple[Whole, Whole], step: int) -> None:
    """Round the numbers of a row of x, `step` at a time."""
    here, to = places
    for w in code.loop(0, a.x_width, step):
        numbers = x.numbers(here + w * a.xw, (a.x_width - w).least(step))
        store_anywhere(code, numbers, to + w * NUMBER)
