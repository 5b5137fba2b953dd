"""The part of a depthwise convolution that its kernels are made for: the windows, and a block of
neighbouring columns whose sums stay in registers.

Heights, widths, images, channels and strides in memory are arguments of the kernels, so one kernel
serves most layers of a net.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from ops.geometry import Pair

USUAL, WIDE = 7, 8  # columns of a block: 7 divides 7, 14, 28, 56 and 112, 8 divides 8, 16 and 32


class Product(NamedTuple):
    """A column of the block, the column of the source that it reads, and the column of the kernel.

    Columns of the source count from the first that the block reads.
    """

    column: int
    source: int
    tap: int


@dataclass(frozen=True)
class Reads:
    """The products of a block with one row of the source, in the order of the source's columns.

    start: the first column of the source, relative to where the block begins there. padding: the
    columns that may lie outside the image. each: channels of a group.
    """

    products: tuple[Product, ...]
    start: int
    padding: frozenset[int]
    each: int

    @property
    def columns(self) -> list[int]:
        """The columns of the source that are read."""
        return sorted({product.source for product in self.products})

    @property
    def taps(self) -> list[int]:
        """The columns of the kernel that are used."""
        return sorted({product.tap for product in self.products})


@dataclass(frozen=True)
class Block:
    """`columns` neighbours in a row of the result. `left`: the padding before a row of the source.
    `each`: channels and outputs of a group. Pairs are (height, width)."""

    kernel: Pair
    stride: Pair
    dilation: Pair
    left: int
    columns: int
    each: int = 1

    def __str__(self) -> str:
        pairs = (self.kernel, self.stride, self.dilation)
        windows = "_".join(f"{high}x{wide}" for high, wide in pairs)
        return f"{windows}_{self.left}_{self.columns}_{self.each}"

    @property
    def reach(self) -> int:
        """The rows of the source from the first to the last row of the kernel."""
        return (self.kernel[0] - 1) * self.dilation[0] + 1

    def forward(self) -> Reads:
        """The reads of a block of outputs, whose source begins `stride` times as far right."""
        step, hop = self.stride[1], self.dilation[1]
        products = [
            Product(column, column * step + tap * hop, tap)
            for column in range(self.columns)
            for tap in range(self.kernel[1])
        ]
        last = max(product.source for product in products)
        outside = [at for at in range(last + 1) if at < self.left or at > last - self.left]
        return _reads(products, -self.left, outside, self.each)

    def backward(self) -> Reads:
        """The reads of a block of the images' gradient from the outputs' gradient, which begins
        `stride` times less far right. Blocks begin at multiples of the stride; the dilation is
        1."""
        step = self.stride[1]
        found = [
            Product(column, (column + self.left - tap) // step, tap)
            for column in range(self.columns)
            for tap in range(self.kernel[1])
            if (column + self.left - tap) % step == 0
        ]
        start = min((product.source for product in found), default=0)
        products = [one._replace(source=one.source - start) for one in found]
        inside = (2 * self.left - self.kernel[1] + self.columns - step + 1) // step
        outside = [p.source for p in products if not 0 <= p.source + start <= inside]
        return _reads(products, start, outside, self.each)


def _reads(products: list[Product], start: int, outside: list[int], each: int) -> Reads:
    ordered = sorted(products, key=lambda product: (product.source, product.tap))
    return Reads(tuple(ordered), start, frozenset(outside), each)


def columns_of(outputs: int, step: int = 1) -> int:
    """The columns of the blocks that cover a row of `outputs` with the fewest columns twice, a
    multiple of `step`."""
    units = -(-outputs // step)
    choices = []
    for most in (USUAL, WIDE):
        pieces = -(-units // max(1, most // step))
        choices.append(-(-units // pieces))
    return step * min(choices, key=lambda count: -(-units // count) * count)


def strips_of(outputs: int, columns: int) -> int:
    """The number of blocks that cover a row."""
    return -(-outputs // columns)
