"""Where a direct convolution reads and writes: taps along each axis, strides in bytes, axes that
fold into one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import permutations, product
from typing import NamedTuple

from ops.cpu.conv import blocking
from ops.cpu.conv.blocking import Sweep
from ops.errors import Array
from ops.geometry import Pair

FLOAT = 4


class Steps(NamedTuple):
    """Strides in bytes: image, channel, row, column."""

    n: int
    c: int
    h: int
    w: int


class Taps(NamedTuple):
    """Along one axis: outputs of a class, the first input read, the step between taps, the taps in
    that order."""

    outputs: int
    off: int
    hop: int
    taps: tuple[int, ...]


def forward_taps(size: int, kernel: int, stride: int, pad: int, dilation: int) -> Taps:
    """All taps of a forward pass, from the first."""
    outputs = (size + 2 * pad - dilation * (kernel - 1) - 1) // stride + 1
    return Taps(outputs, -pad, dilation if kernel > 1 else 1, tuple(range(kernel)))


def backward_taps(
    size: int, residue: int, kernel: int, stride: int, pad: int, dilation: int
) -> Taps:
    """The taps by which outputs reach the pixels `residue`, `residue` + `stride`, ... of x, ordered
    by output."""
    taps = tuple(k for k in reversed(range(kernel)) if (residue + pad - k * dilation) % stride == 0)
    reached = [(residue + pad - k * dilation) // stride for k in taps]
    hop = reached[1] - reached[0] if len(taps) > 1 else 1
    return Taps(len(range(residue, size, stride)), reached[0] if taps else 0, hop, taps)


def fold(s: Sweep, x: Steps, y: Steps) -> tuple[Sweep, Steps, Steps]:
    """For one tap without edges: join axes that lie in equal steps into one. The longest run
    becomes the images."""
    axes = [(s.images, x.n, y.n), (s.wide, s.step[1] * x.w, y.w), (s.high, s.step[0] * x.h, y.h)]
    merged: list[tuple[int, int, int]] = []
    for size, sx, sy in sorted((axis for axis in axes if axis[0] > 1), key=lambda axis: axis[2]):
        if merged and sx == merged[-1][1] * merged[-1][0] and sy == merged[-1][2] * merged[-1][0]:
            merged[-1] = (merged[-1][0] * size, *merged[-1][1:])
        else:
            merged.append((size, sx, sy))
    if merged and merged[0][0] < blocking.RUN - 2:
        merged.sort(reverse=True)
    run, wide, high = [*merged, (1, 0, 0), (1, 0, 0), (1, 0, 0)][:3]
    folded = replace(
        s,
        images=run[0],
        wide=wide[0],
        high=high[0],
        image=(high[0], wide[0]),
        step=(1, 1),
        off=(0, 0),
        hop=(1, 1),
    )
    return folded, Steps(run[1], x.c, high[1], wide[1]), Steps(run[2], FLOAT, high[2], wide[2])


def folded_alike(s: Sweep, far: int) -> Iterator[tuple[Steps, Steps]]:
    """Strides of x and y for every sweep that `fold` can make of this one, with pixels next to each
    other and `far` bytes apart."""
    sizes = s.images, s.high, s.wide
    for order in permutations(range(3)):
        for gaps in product((1, 2), repeat=2):  # 1: the next axis folds into this one
            for least in (FLOAT, far):
                step = least * s.step[0] * s.step[1]
                steps = [0, 0, 0]
                for axis, gap in zip(order, (*gaps, 1), strict=True):
                    steps[axis] = step
                    step *= sizes[axis] * gap
                n, h, w = steps
                yield Steps(n, FLOAT, h // s.step[0], w // s.step[1]), Steps(n, FLOAT, h, w)


def sweep_of(
    n: int,
    image: Pair,
    channels: int,
    outputs: int,
    groups: int,
    rows: Taps,
    columns: Taps,
    step: Pair = (1, 1),
) -> Sweep:
    """The sweep over `n` images of the pixels that `rows` and `columns` describe."""
    return Sweep(
        images=n,
        image=image,
        channels=channels,
        outputs=outputs,
        high=rows.outputs,
        wide=columns.outputs,
        groups=groups,
        taps=(len(rows.taps), len(columns.taps)),
        step=step,
        off=(rows.off, columns.off),
        hop=(rows.hop, columns.hop),
    )


def steps_of(x: Array) -> Steps:
    """The strides of an image batch (N, C, H, W). A single channel counts as channels side by
    side."""
    n, c, h, w = x.strides
    return Steps(n, c if x.shape[1] > 1 else FLOAT, h, w)


def hwnc(n: int, c: int, h: int, w: int) -> Steps:
    """The strides of images that lie as [H][W][N][C], as they usually do."""
    return Steps(c * FLOAT, FLOAT, w * n * c * FLOAT, n * c * FLOAT)


def one_step(taps: Pair, by: Pair) -> int:
    """The step from tap to tap in memory if it is one number, forwards or backwards; else 0."""
    step = by[1] if taps[1] > 1 else by[0] if taps[0] > 1 else 0
    if taps[0] > 1 and taps[1] > 1 and by[0] != taps[1] * by[1]:
        return 0
    return step if abs(step) == FLOAT else 0
