"""Weights between Caffe's order and the panels that the micro-kernel reads.

Packed weights lie as [group][panel][block of channels][tap][channel][lane], a panel being up to three vectors of
neighbouring outputs, zeros behind the last. Gradients of weights arrive as [part][group][panel][tap][channel][lane] and
leave in Caffe's order. What never lives here: products.
"""

from __future__ import annotations

from typing import Any

from ops.cpu.kernel import layout
from ops.cpu.loops import Code, Number
from ops.cpu.target import host

PANEL_FIELDS = 4  # of a row of the table of panels: first output, vectors, outputs, numbers before it in the packing

# Element (output, channel, tap row i, tap column j) of a group lies at w + output * by_output + channel * by_channel
# + i * by_row + j * by_column. by_tap: the step from tap to tap where it is one step of a number, else 0.
PACK = layout(
    "w packed groups w_group packed_group panels panel_count channels block_c taps_h taps_w "
    "by_output by_channel by_row by_column by_tap"
)
UNPACK = layout("w packed groups w_group packed_group panels panel_count channels taps parts packed_part")


def panel(code: Code, a: Any, index: Number) -> tuple[Number, Number, Number, Number]:
    """A row of the table: first output, vectors, outputs, bytes before it."""
    first, vectors, outputs, before = (code.integer(a.panels, index * PANEL_FIELDS + k) for k in range(PANEL_FIELDS))
    return first, vectors, outputs, before * 4


def pack_weights(code: Code, a: Any, number: Number, size: Number) -> None:
    """Caffe's order into panels. Threads share the vectors of channels of all panels."""
    lanes, taps = host().lanes, a.taps_h * a.taps_w
    steps = code.up(a.channels, lanes)
    items = a.groups * a.panel_count * steps
    with code.range(items * number // size, items * (number + 1) // size) as item:
        c, rest = item % steps * lanes, item // steps
        group = rest // a.panel_count
        first, vectors, outputs, before = panel(code, a, rest % a.panel_count)
        width = vectors * (lanes * 4)  # bytes of a row of the panel
        start = c // a.block_c * a.block_c
        depth = code.least(a.block_c, a.channels - start)  # channels of this block
        some = code.least(a.channels - c, lanes)
        to = a.packed + group * a.packed_group + before + (start * taps + c - start) * width
        source = a.w + group * a.w_group + first * a.by_output + c * a.by_channel
        with code.either(code.both(a.by_output.is_("==", 4), (outputs * 4).is_("==", width))) as (rows, columns):
            with rows, code.range(taps) as tap:
                at = source + tap // a.taps_w * a.by_row + tap % a.taps_w * a.by_column
                code.call("copy", at, a.by_channel, to + tap * depth * width, width, some, outputs)
            with columns, code.range(vectors) as vector:
                here, there = source + vector * lanes * a.by_output, to + vector * (lanes * 4)
                _pack_vector(code, a, (here, there, width, depth), some, code.least(outputs - vector * lanes, lanes))


def _pack_vector(code: Code, a: Any, places: tuple[Number, ...], some: Number, outputs: Number) -> None:
    """`some` channels x all taps x one vector of outputs."""
    source, to, width, depth = places
    lanes, taps = host().lanes, a.taps_h * a.taps_w
    flat = code.both(taps.is_("==", 1), a.by_channel.is_("==", 4))
    with code.either(flat) as (matrix, images):
        with matrix:
            code.call("transpose", source, a.by_output, outputs, some, to, width, lanes)
        with images, code.range(some) as c:
            here, there = source + c * a.by_channel, to + c * width
            with code.when(a.by_tap.is_("!=", 0)), code.range(0, taps, lanes) as tap:
                # taps that run backwards in memory are read from the last and written backwards
                count = code.least(taps - tap, lanes)
                back = a.by_tap < 0
                low = code.choose(back, tap + count - 1, tap)
                step = code.choose(back, 0 - depth * width, depth * width)
                onto = there + low * depth * width
                code.call("transpose", here + low * a.by_tap, a.by_output, outputs, count, onto, step, lanes)
            with code.when(a.by_tap.is_("==", 0)), code.range(taps) as tap:
                at = here + tap // a.taps_w * a.by_row + tap % a.taps_w * a.by_column
                code.call("transpose", at, a.by_output, outputs, 1, there + tap * depth * width, width, lanes)


def unpack_weights(code: Code, a: Any, number: Number, size: Number) -> None:
    """Add the parts in their order, into the first; then from panels into Caffe's order. Threads share the channels."""
    lanes = host().lanes
    steps = code.up(a.channels, lanes)
    items = a.groups * a.panel_count * steps
    with code.range(items * number // size, items * (number + 1) // size) as item:
        c, rest = item % steps * lanes, item // steps
        group = rest // a.panel_count
        first, vectors, outputs, before = panel(code, a, rest % a.panel_count)
        width, some = vectors * (lanes * 4), code.least(a.channels - c, lanes)
        source = a.packed + group * a.packed_group + before + c * width
        with code.range(code.choose(a.parts > 1, a.taps, 0)) as tap, code.range(1, a.parts) as part:
            with code.range(0, some * width, lanes * 4) as at:
                place = source + tap * a.channels * width + at
                code.add_vector(place, place + part * a.packed_part, lanes)
        with code.range(vectors) as vector:
            row = first + vector * lanes
            to = a.w + group * a.w_group + (row * a.channels + c) * a.taps * 4
            places = source + vector * (lanes * 4), to, width
            _unpack_vector(code, a, places, some, code.least(outputs - vector * lanes, lanes))


def _unpack_vector(code: Code, a: Any, places: tuple[Number, ...], some: Number, outputs: Number) -> None:
    """`some` channels x all taps x one vector of outputs."""
    source, to, width = places
    lanes, step = host().lanes, a.channels * a.taps * 4
    with code.either(a.taps.is_("==", 1)) as (matrix, images):
        with matrix:
            code.call("transpose", source, width, some, outputs, to, step, some)
        with images, code.range(some) as c, code.range(0, a.taps, lanes) as tap:
            count = code.least(a.taps - tap, lanes)
            here, there = source + (tap * a.channels + c) * width, to + (c * a.taps + tap) * 4
            code.call("transpose", here, a.channels * width, count, outputs, there, step, count)
