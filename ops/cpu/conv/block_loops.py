"""The parts that all loops of direct convolution share: a block of work, its copy of x, and runs of
tiles over it.

The loops walk over blocks (group, images, rows, columns). The part of x that a block reads is
copied into a dense [row][image][column][channel] of the thread's own, with its padding as zeros.
One call of the micro-kernel then sums over all taps. If there is one tap, x may be read in place
(`packed` 0). Output (p, q) reads x at p * step + off + tap * hop.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from llvmlite import ir

from ops.cpu.codegen.code import Code
from ops.cpu.codegen.ir_tools import F32, I32
from ops.cpu.codegen.kernel import layout
from ops.cpu.codegen.values import Choice, Vec, Whole
from ops.cpu.conv.blocking import FEW_CHANNELS
from ops.cpu.gemm.calls import Count, either, entry, fetch, mover, tile, up
from ops.cpu.gemm.microkernel import MAX_ROWS

WORK = layout(
    "x xn xc xh xw y yn yh yw w scratch scratch_each images height width channels high wide "
    "groups x_group y_group "
    "w_group step_h step_w off_h off_w hop_h hop_w taps_h taps_w block_n block_h block_w "
    "block_c packed "
    "panels panel_count starts parts table rows zeros copy bias along in_place beyond "
    "channel_parts w_part w_row",
    "floor",
)
LINE = 64  # bytes of a cache line
NONE = ir.Constant(F32, float("-inf"))  # the floor that lets every sum through


class Corner(NamedTuple):
    """Where a block starts: group, image, row, column."""

    g: Whole
    n: Whole
    p: Whole
    q: Whole


class Part(NamedTuple):
    """The part of the work that a kernel does: n images, p rows and q columns of outputs from (p0,
    q0) on, and c channels from c0 on."""

    n: Whole
    p: Whole
    q: Whole
    p0: Whole
    q0: Whole
    c: Whole
    c0: Whole


class View(NamedTuple):
    """Pixels in memory: address, strides of image, row and column."""

    at: Whole
    n: Whole
    h: Whole
    w: Whole


def units(a: Any) -> Whole:
    """Blocks of a group."""
    return up(a.images, a.block_n) * up(a.high, a.block_h) * up(a.wide, a.block_w)


def corner(a: Any, unit: Whole) -> Corner:
    """Where the block of this number starts."""
    tall = up(a.high, a.block_h)
    broad = up(a.wide, a.block_w)
    many = up(a.images, a.block_n)
    rest = unit // broad // tall
    return Corner(
        rest // many,
        rest % many * a.block_n,
        unit // broad % tall * a.block_h,
        unit % broad * a.block_w,
    )


def extent(count: Whole, step: Whole, taps: Whole, hop: Whole) -> Whole:
    """Pixels along one axis that `count` outputs read."""
    return (count - 1) * step + (taps - 1) * hop + 1


def reached(first: Whole, hop: Whole, taps: Whole, size: Whole) -> tuple[Whole, Whole]:
    """The taps [low, high) whose pixel first + tap * hop lies in [0, size)."""
    low = (first < 0).pick(up(first * -1, hop), 0)
    return low, (first < size).pick(((size - 1 - first) // hop + 1).least(taps), 0)


def pixels(a: Any, at: Corner, c0: Whole) -> View:
    """x read in place, from a block's corner on."""
    first = (at.p * a.step_h + a.off_h) * a.xh + (at.q * a.step_w + a.off_w) * a.xw
    return View(a.x + at.g * a.x_group + c0 * a.xc + at.n * a.xn + first, a.xn, a.xh, a.xw)


def copy_block(code: Code, a: Any, to: Whole, x: Whole, part: Part) -> tuple[View, Whole]:
    """Copy the pixels that a block reads; x is its first image and channel. Returns a view of the
    copy and its bytes.

    An image's row is an odd number of cache lines, so that images do not share the sets of a cache.
    """
    rows = extent(part.p, a.step_h, a.taps_h, a.hop_h)
    columns = extent(part.q, a.step_w, a.taps_w, a.hop_w)
    pixel = part.c * 4
    lines = (columns * pixel + (LINE - 1)) // LINE
    line = (lines + 1 - lines % 2) * LINE
    w0 = part.q0 * a.step_w + a.off_w
    left = (w0 * -1).most(0).least(columns)
    right = (a.width - w0).least(columns).most(left)
    for r in code.loop(0, rows):
        h = part.p0 * a.step_h + a.off_h + r
        row = to + r * part.n * line
        outside = (h < 0) | (a.height - 1 - h < 0)
        low = outside.pick(columns, left) * pixel
        high = outside.pick(columns, right) * pixel
        for i in code.loop(0, part.n):
            for first, end in (
                (row + i * line, low),
                (row + i * line + high, columns * pixel - high),
            ):
                for byte in code.loop(0, end, 4):
                    place = code.b.inttoptr((first + byte).value, F32.as_pointer())
                    code.b.store(ir.Constant(F32, 0.0), place, align=4)
        count = outside.pick(0, right - left)
        with code.when(code.whole(0) < count):
            at = View(x + h * a.xh + (w0 + left) * a.xw, a.xn, a.xh, a.xw)
            _copy_row(code, a, at, (row + left * pixel, line, pixel), part, count)
    return View(to, line, part.n * line, pixel), rows * part.n * line


def _copy_row(
    code: Code, a: Any, x: View, to: tuple[Whole, Whole, Whole], part: Part, count: Whole
) -> None:
    """Copy `count` pixels of each image to (address, bytes from image to image, bytes from pixel to
    pixel)."""
    onto, line, pixel = to
    with either(code, a.xc.equals(4)) as (together, apart):
        with apart:
            _interleave(code, a, x, to, part, count)
        with together, either(code, x.w.equals(pixel)) as (dense, spread):
            with dense:
                mover(code, a.copy, x.at, x.n, onto, line, part.n, count * part.c)
            with spread, either(code, x.n < x.w) as (images, columns):
                with images:
                    for q in code.loop(0, count):
                        mover(
                            code,
                            a.copy,
                            x.at + q * x.w,
                            x.n,
                            onto + q * pixel,
                            line,
                            part.n,
                            part.c,
                        )
                with columns:
                    for i in code.loop(0, part.n):
                        mover(
                            code, a.copy, x.at + i * x.n, x.w, onto + i * line, pixel, count, part.c
                        )


def _interleave(
    code: Code, a: Any, x: View, to: tuple[Whole, Whole, Whole], part: Part, count: Whole
) -> None:
    """As `_copy_row`, if the channels of a pixel lie apart."""
    onto, line, pixel = to
    few = x.w.equals(4) & (code.whole(1) < part.c) & (part.c < FEW_CHANNELS + 1)
    with either(code, few) as (rows, numbers):
        with rows:
            for channels in range(2, FEW_CHANNELS + 1):
                with code.when(part.c.equals(channels)):
                    for i in code.loop(0, part.n):
                        _weave(code, channels, (x.at + i * x.n, a.xc, x.h), onto + i * line, count)
        with numbers:
            for i in code.loop(0, part.n):
                for c in code.loop(0, part.c):
                    for q in code.loop(0, count):
                        source = x.at + i * x.n + q * x.w + c * a.xc
                        target = onto + i * line + q * pixel + c * 4
                        number = code.b.load(
                            code.b.inttoptr(source.value, F32.as_pointer()), align=4
                        )
                        code.b.store(
                            number, code.b.inttoptr(target.value, F32.as_pointer()), align=4
                        )


def _weave(
    code: Code, channels: int, x: tuple[Whole, Whole, Whole], to: Whole, count: Whole
) -> None:
    """Weave rows of `count` numbers, one row for each channel, into pixels. Number by number, first
    layers took 2 to 5 % longer.

    x: address, strides of channels and of rows. The next row is prefetched; otherwise its first
    read takes 12 % of ResNet's first layer on a Zen 4.
    """
    at, apart, below = x
    lanes = code.lanes
    for q in code.loop(0, count, lanes):
        within = code.v.mask((count - q).value)
        places = [at + c * apart + q * 4 for c in map(code.whole, range(channels))]
        for place in places:
            fetch(code, place + below, to_write=False)
        rows = [code.load(place, within).value for place in places]
        for k in range(channels):
            origins = [divmod(k * lanes + lane, channels) for lane in range(lanes)]
            woven = rows[0]
            for c in range(1, channels):
                picks = [
                    lanes + pixel if channel == c else (pixel if c == 1 else lane)
                    for lane, (pixel, channel) in enumerate(origins)
                ]
                woven = code.b.shuffle_vector(
                    woven, rows[c], ir.Constant(ir.VectorType(I32, lanes), picks)
                )
            inside = code.v.mask(((count - q) * channels - k * lanes).value)
            code.store(Vec(code.b, woven), to + q * (channels * 4) + k * lanes * 4, inside)


class Region(NamedTuple):
    """Memory that will be read later: `pieces` of `size` bytes, for n images, `columns` and
    rows."""

    view: View
    n: Whole
    columns: Whole
    pieces: Whole
    size: Whole


class Ahead:
    """Fetches a region bit by bit while other work goes on: a piece or a few with each call of the
    micro-kernel.

    Pieces that follow one another without gaps are one run. The run is cut again so that about one
    piece falls to each call: bursts of requests would delay the data that the sums wait for.
    """

    def __init__(self, code: Code) -> None:
        self._code = code
        names = ("at", "n", "column", "left", "each", "size", "step", "run", "columns")
        self._now = {name: code.variable(code.whole(0)) for name in names}
        self._view: View | None = None

    def start(self, region: Region, calls: Whole) -> None:
        """Start to fetch this region, spread over that many calls."""
        self._view = view = region.view
        calls = calls.most(1)
        want = up(region.pieces * region.size, calls).most(LINE)
        dense = view.n.equals(region.size)
        wide = dense & view.w.equals(region.n * region.size)
        columns = wide.pick(1, region.columns)
        joined = dense.pick(region.n, 1) * wide.pick(region.columns, 1)  # pieces of a run
        whole = joined * region.size
        cuts = dense.pick((whole // want).most(1), 1)
        size = dense.pick(up(up(whole, cuts), LINE) * LINE, whole)
        run = dense.pick(cuts, region.n)
        pieces = region.pieces // joined * cuts
        self._set(
            at=view.at, n=run, column=columns, left=pieces, each=up(pieces, calls), size=size,
            step=dense.pick(size, view.n), run=run, columns=columns,
        )  # fmt: skip

    def _set(self, **values: Whole) -> None:
        for name, number in values.items():
            self._now[name].set(number)

    def take(self, steps: Whole, near: Whole) -> tuple[Whole, Whole]:
        """The address and the stride that a call of that many steps fetches. If no piece is left,
        the call fetches `near` again and again.

        One piece is left to the call; any others are prefetched here at once.
        """
        code = self._code
        now = {name: variable.get() for name, variable in self._now.items()}
        some = now["each"].least(now["left"])
        self._set(left=now["left"] - some)
        for _ in code.loop(1, some):
            for byte in code.loop(0, now["size"], LINE):
                fetch(code, self._now["at"].get() + byte, to_write=False)
            self._onward()
        at = self._now["at"].get()
        any_left = some * -1 < 0
        with code.when(any_left):
            self._onward()
        return any_left.pick(at, near), any_left.pick(up(now["size"], steps.most(1)), 0)

    def _onward(self) -> None:
        """Go to the next piece."""
        view = self._view
        now = {name: variable.get() for name, variable in self._now.items()}
        assert view is not None
        n = now["n"] - 1
        run = n.equals(0)
        row = n.equals(0) & now["column"].equals(1)
        past = row.pick(view.h - view.w * (now["columns"] - 1), view.w) - now["step"] * (
            now["run"] - 1
        )
        column = row.pick(now["columns"], run.pick(now["column"] - 1, now["column"]))
        self._set(
            at=now["at"] + run.pick(past, now["step"]), n=run.pick(now["run"], n), column=column
        )


class Operands(NamedTuple):
    """The operands of one run of tiles: A with its strides of row, k, o and call; B with those of
    k, o and call."""

    a: tuple[Count, Count, Count, Count, Count]
    b: tuple[Count, Count, Count, Count]
    result: tuple[Whole, Whole]  # address, stride of rows
    # the row that sums start from, and whether they start there; else they continue the result
    start: tuple[Whole, Choice]
    counts: tuple[Whole, Whole, Whole]  # of k, o and calls


def tiles_in(code: Code, a: Any, vectors: Whole, run: Whole) -> Whole:
    """The number of tiles that a run of rows is cut into."""
    return up(run, entry(code, a.rows, vectors - 1))


def run_tiles(
    code: Code,
    a: Any,
    panel: tuple[Whole, Whole],
    run: tuple[Whole, Whole],
    operands: Operands,
    floor: ir.Value,
    onward: Whole,
    soon: tuple[Ahead, Ahead],
    past: Whole | int = 0,
) -> None:
    """Compute a run of rows in tiles of nearly equal height. `panel`: vectors, lanes; `run`: rows,
    and their `tiles_in`.

    `onward`: the distance from the result of this run to that of the next one.
    """
    (vectors, lanes), (length, count) = panel, run
    (A, sAr, sAk, sAo, sAc), (B, sBk, sBo, sBc), (C, sCr) = operands.a, operands.b, operands.result
    nk, no, calls = operands.counts
    low = length // count
    more = length % count
    steps = nk * no
    at_A = code.variable(A)
    at_C = code.variable(C)
    for index in code.loop(0, count):
        rows = (index < more).pick(low + 1, low)
        kernel = entry(code, a.table, (vectors - 1) * MAX_ROWS + rows - 1)
        from_A = at_A.get()
        from_C = at_C.get()
        at_A.set(from_A + rows * sAr)
        at_C.set(from_C + rows * sCr)
        following = (index < count - 1).pick(from_C + rows * sCr, C + onward)
        for r in code.loop(0, rows if isinstance(past, int) else past.equals(1).pick(0, rows)):
            for byte in code.loop(0, vectors * (code.lanes * 4), LINE):
                fetch(code, following + r * sCr + byte, to_write=True)
        start, fresh = operands.start
        for call in code.loop(0, calls):
            fresh_now = fresh & call.equals(0)
            last = call.equals(calls - 1)
            least = code.b.select(last.value, floor, NONE)
            (P, sP), (Q, sQ) = (ahead.take(steps, from_A) for ahead in soon)
            tile(
                code,
                kernel,
                from_A + call * sAc,
                sAr,
                sAk,
                sAo,
                call * sBc + B,
                sBk,
                sBo,
                from_C,
                sCr,
                fresh_now.pick(start, from_C),
                fresh_now.pick(0, sCr),
                nk,
                no,
                lanes,
                P,
                sP,
                Q,
                sQ,
                last.pick(past, 0),
                floor=least,
            )
