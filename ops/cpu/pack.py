"""Weights between Caffe's order and the panels that the micro-kernel reads.

Packed weights lie as [group][panel][block of channels][tap][channel][lane], a panel being up to three vectors of
neighbouring outputs, zeros behind the last. Gradients of weights arrive as [part][group][panel][tap][channel][lane] and
leave in Caffe's order. What never lives here: products.
"""

from __future__ import annotations

from ops.cpu.kernel import FLAGS, arguments, floats, integers, kernel, layout
from ops.cpu.permute import call_copy, call_transpose

from numba import njit  # isort: skip

PANEL_FIELDS = 4  # of a row of the table of panels: first output, vectors, outputs, numbers before it in the packing
helper = njit(error_model="numpy", fastmath=FLAGS)

# Element (output, channel, tap row i, tap column j) of a group lies at w + output * by_output + channel * by_channel
# + i * by_row + j * by_column. by_tap: the step from tap to tap where it is one step, else 0.
PACK = layout(
    "w packed groups w_group packed_group panels panel_count lanes channels block_c taps_h taps_w "
    "by_output by_channel by_row by_column by_tap transpose copy"
)
UNPACK = layout(
    "w packed groups w_group packed_group panels panel_count lanes channels outputs taps parts packed_part transpose"
)


@kernel(PACK)
def pack_weights(number, size, at):  # type: ignore[no-untyped-def]
    """Caffe's order into panels. Threads share the vectors of channels of all panels."""
    a = arguments(at)
    taps, steps = a.taps_h * a.taps_w, -(-a.channels // a.lanes)
    items = a.groups * a.panel_count * steps
    panels = integers(a.panels, a.panel_count * PANEL_FIELDS)
    for item in range(items * number // size, items * (number + 1) // size):
        c, rest = item % steps * a.lanes, item // steps
        row, group = rest % a.panel_count * PANEL_FIELDS, rest // a.panel_count
        width = panels[row + 1] * a.lanes * 4  # bytes of a row of the panel
        start = c // a.block_c * a.block_c
        depth = min(a.block_c, a.channels - start)  # channels of this block
        some = min(a.lanes, a.channels - c)
        to = a.packed + group * a.packed_group + panels[row + 3] * 4 + (start * taps + c - start) * width
        source = a.w + group * a.w_group + panels[row] * a.by_output + c * a.by_channel
        if a.by_output == 4 and panels[row + 2] * 4 == width:
            for tap in range(taps):
                by = tap // a.taps_w * a.by_row + tap % a.taps_w * a.by_column
                call_copy(a.copy, source + by, a.by_channel, to + tap * depth * width, width, some, panels[row + 2])
            continue
        for vector in range(panels[row + 1]):
            outputs = min(a.lanes, panels[row + 2] - vector * a.lanes)
            _pack_vector(
                a, source + vector * a.lanes * a.by_output, to + vector * a.lanes * 4, width, depth, some, outputs
            )


@helper
def _pack_vector(a, source, to, width, depth, some, outputs):  # type: ignore[no-untyped-def]
    """`some` channels x all taps x one vector of outputs."""
    taps = a.taps_h * a.taps_w
    if taps == 1 and a.by_channel == 4:
        call_transpose(a.transpose, source, a.by_output, outputs, some, to, width, a.lanes)
        return
    for c in range(some):
        here, there = source + c * a.by_channel, to + c * width
        if a.by_tap != 0:
            for tap in range(0, taps, a.lanes):
                count = min(a.lanes, taps - tap)
                # taps that run backwards in memory: read from the last, write backwards
                back = (tap + count - 1) if a.by_tap < 0 else tap
                lowest = here + back * a.by_tap
                onto = there + back * depth * width
                step = depth * width if a.by_tap > 0 else -depth * width
                call_transpose(a.transpose, lowest, a.by_output, outputs, count, onto, step, a.lanes)
            continue
        for tap in range(taps):
            by = tap // a.taps_w * a.by_row + tap % a.taps_w * a.by_column
            call_transpose(a.transpose, here + by, a.by_output, outputs, 1, there + tap * depth * width, width, a.lanes)


@kernel(UNPACK)
def unpack_weights(number, size, at):  # type: ignore[no-untyped-def]
    """Add the parts in their order, into the first; then from panels into Caffe's order. Threads share the channels."""
    a = arguments(at)
    steps = -(-a.channels // a.lanes)
    items = a.groups * a.panel_count * steps
    panels = integers(a.panels, a.panel_count * PANEL_FIELDS)
    for item in range(items * number // size, items * (number + 1) // size):
        c, rest = item % steps * a.lanes, item // steps
        row, group = rest % a.panel_count * PANEL_FIELDS, rest // a.panel_count
        width, some = panels[row + 1] * a.lanes * 4, min(a.lanes, a.channels - c)
        source = a.packed + group * a.packed_group + panels[row + 3] * 4 + c * width
        for tap in range(a.taps if a.parts > 1 else 0):
            total = floats(source + tap * a.channels * width, some * width // 4)
            for part in range(1, a.parts):
                more = floats(source + tap * a.channels * width + part * a.packed_part, some * width // 4)
                for k in range(some * width // 4):
                    total[k] += more[k]
        for vector in range(panels[row + 1]):
            first = panels[row] + vector * a.lanes
            to = a.w + group * a.w_group + (first * a.channels + c) * a.taps * 4
            outputs = min(a.lanes, panels[row + 2] - vector * a.lanes)
            _unpack_vector(a, source + vector * a.lanes * 4, to, width, some, outputs)


@helper
def _unpack_vector(a, source, to, width, some, outputs):  # type: ignore[no-untyped-def]
    step = a.channels * a.taps * 4
    if a.taps == 1:
        call_transpose(a.transpose, source, width, some, outputs, to, step, some)
        return
    for c in range(some):
        for tap in range(0, a.taps, a.lanes):
            count = min(a.lanes, a.taps - tap)
            here = source + (tap * a.channels + c) * width
            call_transpose(
                a.transpose, here, a.channels * width, count, outputs, to + (c * a.taps + tap) * 4, step, count
            )
