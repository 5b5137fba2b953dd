"""Weights as the panels of pairs that blocks read: [group][panel of 32 outputs][tap][chunk of 32
channels][pair][output][channel of the pair], rounded to bfloat16, with zeros past the last channel
and output."""

from __future__ import annotations

from typing import Any

from ops.cpu.codegen.amx import DEPTH
from ops.cpu.codegen.code import Code, generated
from ops.cpu.codegen.kernel import layout
from ops.cpu.codegen.values import Whole
from ops.cpu.gemm.calls import Arguments, either, entry, mover
from ops.cpu.tiled.block import PITCH, SIDE
from ops.cpu.tiled.vectors import LINE, pairs, store_whole

CHUNK = DEPTH // 2 * PITCH  # bytes of a chunk of a panel
# Weight (output, channel, tap) of a group is at w + output * by_output + channel * by_channel + tap
# * 4. order: the taps of the panels, by their numbers; `all_taps`: all taps of w.
PACK = layout(
    "w w_group by_output by_channel all_taps outputs channels groups panels chunks order taps "
    "packed panel_bytes scratch scratch_each transpose"
)


def pack_bytes(all_taps: int) -> int:
    """Bytes of scratch that each thread needs."""
    return all_taps * DEPTH * PITCH


@generated(PACK)
def pack_pairs(code: Code) -> None:
    """Pack weights. Threads share the chunks of all panels."""
    a = Arguments(code)
    turned = a.scratch + code.number * a.scratch_each
    for item in code.loop(*code.share(a.groups * a.panels * a.chunks)):
        chunk = item % a.chunks
        panel = item // a.chunks % a.panels
        g = item // a.chunks // a.panels
        first = panel * SIDE
        c = chunk * DEPTH
        source = a.w + g * a.w_group + a.by_output * first + c * a.by_channel
        depth = (a.channels - c).least(DEPTH)
        _turn(code, a, source, depth, (a.outputs - first).least(SIDE), turned)
        to = a.packed + (g * a.panels + panel) * a.panel_bytes + chunk * CHUNK
        for tap in code.loop(0, a.taps):
            here = turned + entry(code, a.order, tap) * PITCH
            there = to + tap * a.chunks * CHUNK
            for d in code.loop(0, code.whole(DEPTH), 2):
                for at in (0, LINE):
                    low, high = (
                        code.load(
                            here + (d + k) * a.all_taps * PITCH + at,
                            code.v.mask(((d + k) < depth).pick(code.lanes, 0).value),
                        )
                        for k in (0, 1)
                    )
                    store_whole(code, pairs(code, low, high), there + d * (PITCH // 2) + at)


def _turn(code: Code, a: Any, source: Whole, depth: Whole, outputs: Whole, turned: Whole) -> None:
    """turned[channel][tap of w][output]: 32 outputs, zeros past the last."""
    with either(code, a.by_output.equals(4)) as (together, apart):
        with together:
            masks = [code.v.mask((outputs - first).value) for first in (0, code.lanes)]
            for d in code.loop(0, depth):
                for at, mask in zip((0, LINE), masks, strict=True):
                    here = source + d * a.by_channel + at
                    code.store(code.load(here, mask), turned + d * PITCH + at)
        with apart:
            _transpose(code, a, source, depth, outputs, turned)


def _transpose(
    code: Code, a: Any, source: Whole, depth: Whole, outputs: Whole, turned: Whole
) -> None:
    """As `_turn`, for outputs that lie apart: squares of outputs and of neighbouring taps, or
    channels and taps, are transposed."""
    dense = a.by_channel.equals(a.all_taps * 4)
    pieces = dense.pick(1, depth)
    length = dense.pick(depth * a.all_taps, a.all_taps)
    for piece in code.loop(0, pieces):
        for k in code.loop(0, length, code.lanes):
            for first in (0, code.lanes):
                here = source + piece * a.by_channel + a.by_output * first + k * 4
                to = turned + (piece * a.all_taps + k) * PITCH + first * 4
                some = (outputs - first).most(0).least(code.lanes)
                count = (length - k).least(code.lanes)
                mover(code, a.transpose, here, a.by_output, some, count, to, PITCH, code.lanes)
