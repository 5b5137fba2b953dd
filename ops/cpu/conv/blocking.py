"""How direct convolution divides its work: sizes of blocks, parts of threads, panels of outputs.

The input of a block and one panel of weights must fit into the second-level cache together. Among
the sizes that fit, the least estimated time wins.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ops.cpu.codegen.ir_tools import MASKED
from ops.cpu.codegen.target import first_level, host, second_level
from ops.cpu.gemm.microkernel import USUAL, panels
from ops.geometry import Pair

FLOAT = 4
CACHE = second_level()
# bytes of a block's input: with a panel of weights, results and the rest it fills the cache
INPUT_BYTES = CACHE * 125 // 256
PANEL_BYTES = CACHE * 25 // 64
# bytes of weights that stay in the second-level cache while blocks pass one after the other
KEPT_BYTES = CACHE // 2
# bytes of x: if weights stay in the cache, and if each block fetches them again
READ_IN_PLACE_BYTES = CACHE // 16, CACHE // 4
# products a core adds in a cycle; costs below are in cycles, most measured on AVX-512
SUMS = 2 * host().lanes
COPIED = 0.4  # cycles to copy a number into a block
# most channels of a pixel that are woven into vectors if they lie apart, as in images that a net
# reads
FEW_CHANNELS = 4
WOVEN = 3.0  # cycles to weave a number into a block
# bytes of y that are read again for each tap; half or twice as much takes 1.04 to 1.16 of the time
PANEL_IN_PLACE_BYTES = 1 << 16
MISSED = 0.25  # cycles to fetch a weight from beyond the second-level cache while computing
READ = 0.5  # cycles to fetch a number of an image, which lies beyond the second-level cache
# cycles to fetch a weight from the second-level cache to the first, again for each block
REREAD = 0.15
# Most pixels of a block of a product over pixels: a panel of them stays in the first-level cache,
# next to the other operand. 224 instead of 160 where vectors have 8 lanes: 1.05 times as fast in
# the mean of eight layers (0.94 to 1.25).
PIXELS = first_level() * 5 // 8 // (USUAL * host().lanes * FLOAT)
# The same if sums go to the third-level cache and back with each block: with vectors of 16 lanes,
# fewer blocks are 6 % faster. With 8 lanes the panel would leave the first-level cache: 1.06 to
# 1.13 of the time.
MANY_PIXELS = 400 if host().lanes == MASKED else PIXELS
LOOP = 12  # cycles of a turn of the micro-kernel's outer loop, without its inner loop
CALL = 45  # cycles to call the micro-kernel
RUN = 8  # rows of the usual tile


@dataclass(frozen=True)
class Sweep:
    """One correlation of x with windows at p * step + off + tap * hop: a forward pass, or a class
    of a backward one."""

    images: int
    image: Pair  # of x
    channels: int  # of a group; sums run over them
    outputs: int  # of a group; panels are made of them
    high: int
    wide: int
    groups: int
    taps: Pair
    step: Pair = (1, 1)
    off: Pair = (0, 0)
    hop: Pair = (1, 1)

    @property
    def single(self) -> bool:
        """Whether there is one tap that never falls outside x, so that x can be read in place."""
        ends = (
            self.off[0] + (self.high - 1) * self.step[0],
            self.off[1] + (self.wide - 1) * self.step[1],
        )
        inside = min(self.off) >= 0 and ends[0] < self.image[0] and ends[1] < self.image[1]
        return self.taps == (1, 1) and inside

    @property
    def weights(self) -> int:
        """Weights of a group."""
        return self.channels * self.outputs * self.taps[0] * self.taps[1]


@dataclass(frozen=True)
class Blocks:
    """Sizes of a block. `parts` threads share the panels, `channel_parts` the channels, and the
    remaining factor of the threads the blocks."""

    n: int
    h: int
    w: int
    c: int
    parts: int = 1
    channel_parts: int = 1
    # rows of a tile are neighbouring columns of an image, not neighbouring images
    along: bool = False
    in_place: bool = False  # y is read where it lies, in a gradient of weights


@dataclass(frozen=True)
class Panels:
    """The table of panels that kernels read, and where each part of the threads starts in it."""

    table: NDArray[np.int64]
    starts: NDArray[np.int64]
    numbers: int  # lanes of all panels

    @property
    def count(self) -> int:
        """How many panels."""
        return len(self.table)


@functools.cache
def panel_table(outputs: int, parts: int, depth: int, most: int = USUAL) -> Panels:
    """Panels of `outputs` columns, in `parts` of nearly equal numbers of vectors, `most` a panel;
    `depth` rows each."""
    lanes = host().lanes
    total = -(-outputs // lanes)
    rows: list[tuple[int, int, int, int]] = []
    starts = [0]
    for part in range(parts):
        low = total * part // parts * lanes
        high = min(outputs, total * (part + 1) // parts * lanes)
        for first, vectors, columns in panels(high - low, most, lanes) if high > low else ():
            rows.append((low + first, vectors, columns, (low + first) * depth))
        starts.append(len(rows))
    return Panels(np.array(rows, np.int64), np.array(starts, np.int64), total * lanes)


def balanced(size: int, most: int) -> int:
    """The size of parts when `size` is cut into as few as possible of at most `most`, nearly
    equal."""
    return -(-size // -(-size // most))


def _balanced_lanes(size: int, most: int) -> int:
    """As `balanced`, but if it cuts, the parts are whole vectors."""
    lanes = host().lanes
    return size if size <= most else balanced(size, max(lanes, most)) + lanes - 1 & -lanes


def _sizes(size: int, fine: int = 6) -> Iterator[int]:
    """Sizes of a cut of `size` worth trying: all large ones, and ever fewer small ones."""
    pieces = 1
    seen = 0
    while pieces <= size:
        part = -(-size // pieces)
        if part != seen:
            yield part
        seen = part
        pieces += 1 if pieces < fine else max(1, pieces // 3)


def _span(count: int, step: int, taps: int, hop: int) -> int:
    return (count - 1) * step + max(0, taps - 1) * hop + 1


def _block_input(s: Sweep, n: int, h: int, w: int) -> int:
    """Numbers per channel of the copy of x that a block reads."""
    return n * _span(h, s.step[0], s.taps[0], s.hop[0]) * _span(w, s.step[1], s.taps[1], s.hop[1])


def _units(s: Sweep, n: int, h: int, w: int) -> int:
    return -(-s.images // n) * -(-s.high // h) * -(-s.wide // w)


def _divisors(size: int) -> list[int]:
    return [k for k in range(1, size + 1) if size % k == 0]


def along_columns(s: Sweep) -> bool:
    """Whether tiles take columns of one image, because the images of a batch would not fill
    them."""
    return s.images < RUN - 2 and s.wide > s.images


@functools.lru_cache(maxsize=512)
def forward_blocks(s: Sweep, threads: int) -> Blocks:
    """Choose blocks for sums over channels and taps, with x copied into blocks."""
    along = along_columns(s)
    taps = s.taps[0] * s.taps[1]
    vectors = -(-s.outputs // host().lanes)
    most = max(1, PANEL_BYTES // (taps * 3 * host().lanes * FLOAT))
    c = _balanced_lanes(s.channels, most)
    n = 1 if along else balanced(s.images, RUN)
    best = Blocks(n, 1, 1, c, 1, 1, along)
    least = float("inf")
    for h in _sizes(s.high):
        for w in _sizes(s.wide):
            size = _block_input(s, n, h, w)
            if size * c * FLOAT > INPUT_BYTES and (h, w) != (1, 1):
                continue
            work = n * h * w * s.channels * taps * vectors * host().lanes / SUMS
            copied = size * s.channels * COPIED
            missed = s.weights * MISSED if s.weights * FLOAT > PANEL_BYTES else 0.0
            for parts in _divisors(threads):
                most_units = -(-s.groups * _units(s, n, h, w) // (threads // parts))
                share = -(-vectors // parts) / vectors
                time = most_units * ((work + missed) * share + copied + 200)
                if time < least:
                    best = Blocks(n, h, w, c, parts, 1, along)
                    least = time
    return best


@functools.lru_cache(maxsize=512)
def forward_blocks_in_place(s: Sweep, threads: int) -> Blocks:
    """Choose blocks for one tap, with x read where it lies. The rows of a tile run over the
    images."""
    vectors = -(-s.outputs // host().lanes)
    most = max(host().lanes, PANEL_BYTES // (3 * host().lanes * FLOAT))
    c = _balanced_lanes(s.channels, most)
    room = READ_IN_PLACE_BYTES[s.weights * FLOAT > KEPT_BYTES]
    best = Blocks(min(RUN, s.images), 1, 1, c)
    least = float("inf")
    for n in _sizes(-(-s.images // RUN), 64):
        for h in _sizes(s.high, 3):
            for w in _sizes(s.wide, 3):
                rows = min(s.images, n * RUN)
                if rows * h * w * c * FLOAT > room and (n, h, w) != (1, 1, 1):
                    continue
                missed = s.weights * MISSED * 4 if s.weights * FLOAT > PANEL_BYTES else 0.0
                work = -(-rows // RUN) * RUN * h * w * s.channels * vectors * host().lanes / SUMS
                for parts in _divisors(threads):
                    units = -(-s.groups * _units(s, rows, h, w) // (threads // parts))
                    # threads that share panels all read x: 1.3 times the time of 832 -> 32
                    # channels at 7 x 7 with 2
                    read = rows * h * w * s.channels * READ + s.weights / parts * REREAD
                    time = units * ((work + missed) * -(-vectors // parts) / vectors + read + 100)
                    time += s.groups * s.weights / parts * READ  # from where they were packed
                    if time < least:
                        best = Blocks(rows, h, w, c, parts)
                        least = time
    return best


def _shares(threads: int, s: Sweep, n: int, h: int, w: int) -> Iterator[tuple[int, int, int]]:
    """Ways to share: (parts of panels, parts of channels, parts of pixels)."""
    for parts in _divisors(threads):
        for channel_parts in _divisors(threads // parts):
            pixel_parts = threads // parts // channel_parts
            if channel_parts * 4 <= max(4, s.channels) and pixel_parts <= _units(s, n, h, w):
                yield parts, channel_parts, pixel_parts


@functools.lru_cache(maxsize=512)
def weight_blocks(s: Sweep, threads: int) -> Blocks:
    """Choose blocks for sums over pixels, with x copied into blocks."""
    taps = s.taps[0] * s.taps[1]
    lanes = host().lanes
    vectors = -(-s.outputs // lanes)
    best = Blocks(1, 1, 1, min(s.channels, lanes))
    least = float("inf")
    images = {balanced(s.images, RUN)}
    for n, h, w in itertools.product(sorted(images), _sizes(s.high), _sizes(s.wide)):
        size = _block_input(s, n, h, w)
        pixels = n * h * w
        if pixels > 1024 and (n, h, w) != (1, 1, 1):
            continue
        # cycles of a tile apart from its products
        loops = pixels / (n if n > 2 * w else w) * LOOP + (h if s.step[0] > 1 else 1) * CALL
        for parts, channel_parts, pixel_parts in _shares(threads, s, n, h, w):
            c = _channels_of(s, -(-s.channels // channel_parts), size)
            units = -(-_units(s, n, h, w) // pixel_parts)
            share = -(-vectors // parts) / vectors / channel_parts
            tile_calls = taps * s.channels / RUN * vectors / 2.5
            held = s.weights * FLOAT * share
            kept = s.weights * (0.1 if held <= CACHE // 4 else 0.4)
            work = pixels * s.channels * taps * vectors * lanes / SUMS + tile_calls * loops + kept
            copies = size * s.channels / channel_parts * COPIED
            copies += pixels * s.outputs / parts * COPIED * -(-s.channels // channel_parts // c)
            time = s.groups * (
                units * (work * share + copies) + (pixel_parts - 1) * s.weights / threads
            )
            if time < least:
                best = Blocks(n, h, w, c, parts, channel_parts)
                least = time
    return best


@functools.lru_cache(maxsize=512)
def weight_blocks_in_place(s: Sweep, threads: int) -> Blocks:
    """As `weight_blocks`, if the outputs are one panel already: y is read where it lies, with the
    images in the inner loop."""
    taps = s.taps[0] * s.taps[1]
    vectors = -(-s.outputs // host().lanes)
    channels = s.channels
    best = Blocks(min(s.images, RUN), 1, 1, min(channels, RUN), in_place=True)
    least = float("inf")
    for n, h, w in itertools.product(_sizes(s.images), _sizes(s.high), _sizes(s.wide)):
        size = _block_input(s, n, h, w)
        pixels = n * h * w
        if pixels * s.outputs * FLOAT > PANEL_IN_PLACE_BYTES:
            continue
        c = _channels_of(s, channels, size)
        loops = h * w * LOOP + h * CALL
        work = (
            pixels * channels * taps * s.outputs / SUMS
            + taps * channels / RUN * vectors / 2.5 * loops
        )
        copies = size * channels * (COPIED if channels > FEW_CHANNELS else WOVEN)
        time = -(-_units(s, n, h, w) // threads) * (work + copies)
        if time < least:
            best = Blocks(n, h, w, c, in_place=True)
            least = time
    return best


@functools.lru_cache(maxsize=512)
def pixel_blocks(s: Sweep, threads: int, copied: bool) -> Blocks:
    """Choose blocks for sums over pixels with one tap. `copied`: whether x is copied into
    blocks."""
    lanes = host().lanes
    vectors = -(-s.outputs // lanes)
    best = Blocks(1, 1, 1, min(s.channels, lanes))
    least = float("inf")
    most = PIXELS if s.weights * FLOAT < KEPT_BYTES else MANY_PIXELS
    n = balanced(s.images, most)
    for h in _sizes(s.high):
        for w in _sizes(s.wide):
            pixels = n * h * w
            if (pixels > most and (h, w) != (1, 1)) or (h * w > 1 and not copied):
                continue
            for parts, channel_parts, pixel_parts in _shares(threads, s, n, h, w):
                channels = -(-s.channels // channel_parts)
                c = _channels_of(s, channels, pixels)
                units = -(-_units(s, n, h, w) // pixel_parts)
                share = -(-vectors // parts) / vectors * channels / s.channels
                calls = s.channels / RUN * vectors / 2.5
                work = pixels * s.channels * vectors * lanes / SUMS + calls * CALL + s.weights * 0.1
                copies = pixels * s.outputs / parts * COPIED * -(-channels // c)
                copies += pixels * channels * COPIED if copied else 0.0
                # Threads that share outputs all read x or dy whole. To share pixels and add the
                # sums up afterwards is 1.2 times as fast with 2 threads where weights are few (64 x
                # 64), even with 1024 x 256.
                copies += pixels * (channels + s.outputs / parts) * READ
                added = pixel_parts * s.weights / threads if pixel_parts > 1 else 0.0
                time = s.groups * (units * (work * share + copies) + added)
                if time < least:
                    best = Blocks(n, h, w, c, parts, channel_parts)
                    least = time
    return best


def _channels_of(s: Sweep, channels: int, size: int) -> int:
    """Channels of a block: all of them if they fit."""
    most = max(RUN, INPUT_BYTES // (size * FLOAT))
    return (
        channels if channels <= most else min(channels, balanced(channels, most) + RUN - 1 & -RUN)
    )


def pixel_numbers(blocks: Blocks, copied: bool) -> int:
    """float32 numbers one thread needs for a product over pixels: a panel, and the channels of a
    block if copied."""
    pixels = blocks.n * blocks.h * blocks.w
    lanes = host().lanes
    return (
        pixels * USUAL * lanes
        + (-(-blocks.c // lanes) * (pixels + 1) * lanes if copied else 0)
        + 64
    )


def scratch_numbers(s: Sweep, blocks: Blocks, packed: bool, pixels: bool) -> int:
    """float32 numbers one thread needs: a block's input and, for sums over `pixels`, a panel of its
    outputs."""
    # numbers of a row of the copy, at most; `copy_block` computes the exact size
    line = (_span(blocks.w, s.step[1], s.taps[1], s.hop[1]) * blocks.c // 16 + 1 | 1) * 16
    copy = blocks.n * _span(blocks.h, s.step[0], s.taps[0], s.hop[0]) * line if packed else 0
    panel = blocks.n * blocks.h * blocks.w * USUAL * host().lanes if pixels else 0
    return copy + panel + 64
