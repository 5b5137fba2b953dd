"""Weights between Caffe's order and the panels that the micro-kernel reads.

Packed weights lie as [group][panel][block of channels][tap][channel][lane]. A panel is up to four
vectors of neighbouring outputs, with zeros behind the last. Gradients of weights arrive as
[part][group][panel][tap][channel][lane] and leave in Caffe's order. Gradients of one tap may be in
Caffe's order already; then only their parts are added up.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ops.cpu.codegen.code import Code, generated
from ops.cpu.codegen.kernel import layout
from ops.cpu.codegen.values import Whole
from ops.cpu.gemm.calls import Arguments, either, entry, mover, up

# fields of a row of the table of panels: first output, vectors, outputs, numbers before it in the
# packing
PANEL_FIELDS = 4

# Element (output, channel, tap row i, tap column j) of a group lies at w + output * by_output +
# channel * by_channel + i * by_row + j * by_column. by_tap: the step from tap to tap where it is
# one step of a number, else 0.
PACK = layout(
    "w packed groups w_group packed_group panels panel_count channels block_c taps_h taps_w "
    "by_output by_channel by_row by_column by_tap transpose copy"
)
UNPACK = layout(
    "w packed groups w_group packed_group panels panel_count channels taps parts "
    "packed_part transpose"
)
ADD = layout("w packed count parts packed_part")


def panel(code: Code, a: Any, index: Whole) -> tuple[Whole, Whole, Whole, Whole]:
    """A row of the table: first output, vectors, outputs, bytes before it."""
    first, vectors, outputs, before = (
        entry(code, a.panels, index * PANEL_FIELDS + k) for k in range(PANEL_FIELDS)
    )
    return first, vectors, outputs, before * 4


def first_vectors(code: Code, a: Any, index: Whole) -> Whole:
    """The vectors of a panel, or of the last panel if the table ends before it."""
    return panel(code, a, index.least(a.panel_count - 1))[1]


def _items(code: Code, a: Any) -> Iterator[tuple[Whole, Whole, Whole]]:
    """Yield this thread's (group, panel, first channel of a vector of channels)."""
    steps = up(a.channels, code.lanes)
    for item in code.loop(*code.share(steps * a.groups * a.panel_count)):
        rest = item // steps
        yield rest // a.panel_count, rest % a.panel_count, item % steps * code.lanes


@generated(PACK)
def pack_weights(code: Code) -> None:
    """Pack weights from Caffe's order into panels. Threads share the channels, by vectors."""
    a = Arguments(code)
    taps = a.taps_h * a.taps_w
    for group, index, c in _items(code, a):
        first, vectors, outputs, before = panel(code, a, index)
        width = vectors * (code.lanes * 4)  # bytes of a row of the panel
        start = c // a.block_c * a.block_c
        depth = (a.channels - start).least(a.block_c)  # channels of this block
        some = (a.channels - c).least(code.lanes)
        to = a.packed + group * a.packed_group + before + (start * taps + c - start) * width
        source = a.w + group * a.w_group + first * a.by_output + c * a.by_channel
        with either(code, a.by_output.equals(4) & (outputs * 4).equals(width)) as (rows, columns):
            with rows:
                for tap in code.loop(0, taps):
                    at = source + tap // a.taps_w * a.by_row + tap % a.taps_w * a.by_column
                    mover(
                        code,
                        a.copy,
                        at,
                        a.by_channel,
                        to + tap * depth * width,
                        width,
                        some,
                        outputs,
                    )
            with columns:
                for vector in code.loop(0, vectors):
                    here = source + vector * code.lanes * a.by_output
                    there = to + vector * (code.lanes * 4)
                    left = (outputs - vector * code.lanes).least(code.lanes)
                    _pack_vector(code, a, (here, there, width, depth), some, left)


def _pack_vector(
    code: Code, a: Any, places: tuple[Whole, ...], some: Whole, outputs: Whole
) -> None:
    """Pack `some` channels x all taps x one vector of outputs."""
    source, to, width, depth = places
    lanes = code.lanes
    taps = a.taps_h * a.taps_w
    with either(code, taps.equals(1) & a.by_channel.equals(4)) as (matrix, images):
        with matrix:
            mover(code, a.transpose, source, a.by_output, outputs, some, to, width, lanes)
        with images:
            for c in code.loop(0, some):
                here = source + c * a.by_channel
                there = to + c * width
                with either(code, a.by_tap.equals(0)) as (apart, together):
                    with apart:
                        for tap in code.loop(0, taps):
                            at = here + tap // a.taps_w * a.by_row + tap % a.taps_w * a.by_column
                            onto = there + tap * depth * width
                            mover(
                                code, a.transpose, at, a.by_output, outputs, 1, onto, width, lanes
                            )
                    with together:
                        _pack_taps(code, a, (here, there, depth * width), taps, outputs)


def _pack_taps(code: Code, a: Any, places: tuple[Whole, ...], taps: Whole, outputs: Whole) -> None:
    """Pack taps that are neighbours in memory. Taps that run backwards are read from the last one
    and written backwards."""
    here, there, each = places
    for tap in code.loop(0, taps, code.lanes):
        count = (taps - tap).least(code.lanes)
        back = a.by_tap < 0
        low = back.pick(tap + count - 1, tap)
        step = back.pick(each * -1, each)
        at = here + low * a.by_tap
        mover(
            code, a.transpose, at, a.by_output, outputs, count, there + low * each, step, code.lanes
        )


@generated(UNPACK)
def unpack_weights(code: Code) -> None:
    """Add the parts, in their order, into the first; then unpack it from panels into Caffe's order.
    Threads share the channels."""
    a = Arguments(code)
    lanes = code.lanes
    for group, index, c in _items(code, a):
        first, vectors, outputs, before = panel(code, a, index)
        width = vectors * (lanes * 4)
        some = (a.channels - c).least(lanes)
        source = a.packed + group * a.packed_group + before + c * width
        for tap in code.loop(0, a.parts.equals(1).pick(0, a.taps)):
            for at in code.loop(0, some * width, lanes * 4):
                place = source + tap * a.channels * width + at
                total = code.variable(code.load(place))
                for part in code.loop(1, a.parts):
                    total.set(total.get() + code.load(place + part * a.packed_part))
                code.store(total.get(), place)
        for vector in code.loop(0, vectors):
            row = first + vector * lanes
            to = a.w + group * a.w_group + (row * a.channels + c) * a.taps * 4
            left = (outputs - vector * lanes).least(lanes)
            _unpack_vector(code, a, (source + vector * (lanes * 4), to, width), some, left)


def _unpack_vector(
    code: Code, a: Any, places: tuple[Whole, ...], some: Whole, outputs: Whole
) -> None:
    """Unpack `some` channels x all taps x one vector of outputs."""
    source, to, width = places
    step = a.channels * a.taps * 4
    with either(code, a.taps.equals(1)) as (matrix, images):
        with matrix:
            mover(code, a.transpose, source, width, some, outputs, to, step, some)
        with images:
            for c in code.loop(0, some):
                for tap in code.loop(0, a.taps, code.lanes):
                    count = (a.taps - tap).least(code.lanes)
                    here = source + (tap * a.channels + c) * width
                    there = to + (c * a.taps + tap) * 4
                    mover(
                        code,
                        a.transpose,
                        here,
                        a.channels * width,
                        count,
                        outputs,
                        there,
                        step,
                        count,
                    )


@generated(ADD)
def add_parts(code: Code) -> None:
    """w = the sum of the parts in their order, all in Caffe's order. Threads share the numbers."""
    a = Arguments(code)
    first, last = code.share(a.count, code.lanes)
    for index in code.loop(first, last, code.lanes):
        mask = code.v.mask((last - index).value)
        total = code.variable(code.load(a.packed + index * 4, mask))
        for part in code.loop(1, a.parts):
            total.set(total.get() + code.load(a.packed + part * a.packed_part + index * 4, mask))
        code.store(total.get(), a.w + index * 4, mask)
