"""The register-blocked micro-kernel that every product of matrices here runs on, as LLVM IR.

    C[r, v] = max(I[r, v] + sum_o sum_k A[o, k, r] * B[o, k, v], floor)      r < rows, v < lanes

with every sum held in a register. A is read as scalars and broadcast; B, C and I are read as
vectors. All strides are run-time byte strides, so one kernel serves a GEMM plain or transposed, a
direct convolution (o = kernel row, k = kernel column and channel), a gradient of weights (o, k =
output row, column and image) and Winograd's products. I is C itself to accumulate, a bias (stride
0) or zeros. Goto and van de Geijn, Anatomy of high-performance matrix multiplication (2008), for
the blocking.

Reached: 192 GF/s on one AVX-512 core at 3 GHz, which is its peak, where OpenBLAS reaches 160.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir

from ops.cpu.codegen.bfloat16 import Pairs
from ops.cpu.codegen.ir_tools import F32, I32, I64, MASKED, Vectors, fetch, function, on_arm

ADDRESSES = (
    "A",
    "sAr",
    "sAk",
    "sAo",
    "B",
    "sBk",
    "sBo",
    "C",
    "sCr",
    "I",
    "sIr",
    "nk",
    "no",
    "lanes",
)
ARGUMENTS = (*((name, I64) for name in ADDRESSES), ("floor", F32))
# The two streams that a kernel with `ahead` fetches: an address for each k and o, sP and sQ apart.
# With one vector it fetches only P, because each of its sums already takes a load, and loads limit
# it.
STREAMS = ("P", "Q")
# turns of the loop unrolled into one, if strides are known: a second thread on the core takes half
# of the instructions
UNROLLED = 4
LOOKING_AHEAD = (
    *((name, I64) for name in (*ADDRESSES, "P", "sP", "Q", "sQ", "past")),
    ("floor", F32),
)


def build_tile(
    module: ir.Module,
    name: str,
    rows: int,
    vectors: int,
    width: int,
    *,
    ahead: bool = False,
    dense: str = "",
    pairs: bool = False,
) -> None:
    """Add the kernel of `rows` x (`vectors` * `width`) sums. nk = 0 or no = 0 writes max(I, floor).
    If the address I is 0, the sums are written as they are, with no floor.

    `ahead`: it also fetches memory that will be needed later, two streams, a line now and then:
    bursts would delay the data that the sums wait for. If `past` is 1, the sums bypass the caches;
    C, sCr and lanes are then whole vectors. `dense`: which of "A" (the numbers of a row) and "B"
    (its rows) have no gaps; sAk and sBk are then not read. Rows of a dense B are whole vectors, of
    which the numbers past `lanes` may be anything. `pairs`: every number of A and B is a pair of
    bfloat16 numbers (`narrow`), whose two products are added to the sum.
    """
    b, a = function(module, name, LOOKING_AHEAD if ahead else ARGUMENTS)
    v = Pairs(b, width) if pairs else Vectors(b, width)
    rest = b.sub(a["lanes"], I64(width * (vectors - 1)))  # lanes of the last vector
    masks = [None] * (vectors - 1) + [v.mask(rest)]

    def cells(base: ir.Value, stride: ir.Value) -> list[ir.Value]:
        starts = [b.add(base, b.mul(stride, I64(r))) for r in range(rows)]
        return [b.add(start, I64(width * 4 * at)) for start in starts for at in range(vectors)]

    sums = _sums(b, v, a, rows, vectors, masks, dense)
    end = b.block
    usual = b.append_basic_block("usual")
    stored = b.append_basic_block("stored")
    # without I and floor: saves 3 to 8 % of the time of tiles with 16 to 64 products each
    b.cbranch(b.icmp_signed("==", a["I"], I64(0)), stored, usual)
    b.position_at_end(usual)
    # The sums begin at 0, I is added last: many short sums added up err far less than one long one.
    first = [
        v.load(address, mask)
        for address, mask in zip(cells(a["I"], a["sIr"]), masks * rows, strict=True)
    ]
    floor = v.splat(a["floor"])
    results = [
        v.at_least(b.fadd(start, cell), floor) for start, cell in zip(first, sums, strict=True)
    ]
    b.branch(stored)
    b.position_at_end(stored)
    final = [b.phi(v.type) for _ in sums]
    for cell, *ways in zip(final, sums, results, strict=True):
        for value, block in zip(ways, (end, usual), strict=True):
            cell.add_incoming(value, block)
    places = cells(a["C"], a["sCr"])
    if ahead:
        _store_either(b, v, a["past"], final, places, rest, masks)
    else:
        _store(b, v, final, places, rest, masks)
    b.ret_void()


def _sums(
    b: ir.IRBuilder,
    v: Vectors,
    a: dict[str, ir.Value],
    rows: int,
    vectors: int,
    masks: list[Any],
    dense: str,
) -> list[ir.Value]:
    """The sums of all products; zeros if there are no products."""
    whole: list[Any] = [None] * vectors
    # Only AVX-512 has registers for masks. Elsewhere whole rows have a loop of their own (4 x 3
    # takes 0.5 of the time).
    loads = [whole] if "B" in dense else [masks] if v.lanes == MASKED else [whole, masks]
    zeros = [v.constant(0)] * (rows * vectors)
    entry = b.block
    some = b.append_basic_block("some")
    done = b.append_basic_block("done")
    loops = [b.append_basic_block("outer") for _ in loads]
    b.cbranch(b.icmp_signed("<=", b.mul(a["nk"], a["no"]), I64(0)), done, some)
    b.position_at_end(some)
    if len(loops) == 1:
        b.branch(loops[0])
    else:
        b.cbranch(b.icmp_signed("<", a["lanes"], I64(v.lanes * vectors)), loops[1], loops[0])
    ends = [
        _outer_loop(b, v, a, rows, vectors, within, zeros, (some, outer, done), dense)
        for within, outer in zip(loads, loops, strict=True)
    ]
    b.position_at_end(done)
    result = [b.phi(v.type) for _ in zeros]
    for sums, end in ((zeros, entry), *ends):
        for cell, final in zip(result, sums, strict=True):
            cell.add_incoming(final, end)
    return result


def _store(
    b: ir.IRBuilder,
    v: Vectors,
    values: list[ir.Value],
    places: list[ir.Value],
    rest: ir.Value,
    masks: list[Any],
) -> None:
    """Store each value at its place; only `rest` lanes of those in the last column."""
    pairs = list(zip(values, places, masks * (len(values) // len(masks)), strict=True))
    if v.lanes == MASKED:
        for value, place, mask in pairs:
            v.store(value, place, mask)
        return
    with b.if_else(b.icmp_signed("<", rest, I64(v.lanes)), likely=False) as (cut, whole):
        with cut:
            for value, place, mask in pairs:
                if mask is None:
                    v.store(value, place)
                else:
                    v.store_first(value, place, rest)
        with whole:
            for value, place, _ in pairs:
                v.store(value, place)


def _store_either(
    b: ir.IRBuilder,
    v: Vectors,
    past: ir.Value,
    values: list[ir.Value],
    places: list[ir.Value],
    rest: ir.Value,
    masks: list[Any],
) -> None:
    """Store as `_store_past` does if `past` is 1, else as `_store` does."""
    with b.if_else(b.icmp_signed("==", past, I64(1))) as (beyond, near):
        with beyond:
            _store_past(b, v, values, places)
        with near:
            _store(b, v, values, places, rest, masks)


def _store_past(
    b: ir.IRBuilder, v: Vectors, values: list[ir.Value], places: list[ir.Value]
) -> None:
    """Write past the caches."""
    for value, place in zip(values, places, strict=True):
        written = b.store(value, b.inttoptr(place, v.type.as_pointer()), align=v.lanes * 4)
        written.set_metadata("nontemporal", b.module.add_metadata([I32(1)]))


def _outer_loop(
    b: ir.IRBuilder, v: Vectors, a: dict[str, ir.Value], rows: int, vectors: int, masks: list[Any],
    first: list[ir.Value], blocks: tuple[Any, Any, Any], dense: str,
) -> tuple[list[ir.Value], Any]:  # fmt: skip
    """for o in range(no): the inner loop. Returns the sums and the block they come from."""
    entry, outer, done = blocks
    b.position_at_end(outer)
    o = b.phi(I64)
    pA = b.phi(I64)
    pB = b.phi(I64)
    streams = [name for name in STREAMS[:vectors] if name in a]
    later = [b.phi(I64) for _ in streams]
    kept = [b.phi(v.type) for _ in first]
    starts = (I64(0), a["A"], a["B"], *(a[name] for name in streams), *first)
    for phi, start in zip((o, pA, pB, *later, *kept), starts, strict=True):
        phi.add_incoming(start, entry)
    sums, asked = _inner_loop(b, v, a, rows, vectors, masks, kept, (pA, pB, *later), dense)
    end = b.block
    upon = b.add(o, I64(1))
    ahead = (upon, b.add(pA, a["sAo"]), b.add(pB, a["sBo"]), *asked, *sums)
    for phi, following in zip((o, pA, pB, *later, *kept), ahead, strict=True):
        phi.add_incoming(following, end)
    b.cbranch(b.icmp_signed("<", upon, a["no"]), outer, done)
    return sums, end


def _inner_loop(
    b: ir.IRBuilder, v: Vectors, a: dict[str, ir.Value], rows: int, vectors: int, masks: list[Any],
    kept: list[ir.Value], starts: tuple[ir.Value, ...], dense: str,
) -> tuple[list[ir.Value], list[ir.Value]]:  # fmt: skip
    """for k in range(nk): add one column of A times one row of B to the sums. Returns the sums, and
    the addresses of the streams ahead."""
    # Three rows share an address register: p, p + stride, p + 2 stride.
    groups = [b.add(starts[0], b.mul(a["sAr"], I64(row))) for row in range(0, rows, 3)]
    rows_by_third = (I64(0), a["sAr"], b.mul(a["sAr"], I64(2)))
    strides = [a[f"s{name}"] for name, _ in zip(STREAMS, starts[2:], strict=False)]
    sAk = I64(4) if "A" in dense else a["sAk"]
    sBk = I64(vectors * v.lanes * 4) if "B" in dense else a["sBk"]

    def steps(count: int, now: list[ir.Value]) -> list[ir.Value]:
        """Several turns of the loop in one, with its counters advanced once."""
        qB, *rest = now
        qA = rest[: len(groups)]
        later = rest[len(groups) : -len(kept)]
        sums = rest[-len(kept) :]
        for turn in range(count):
            qB, sums[-1] = _known_after(b, qB, sums[-1])
            for index, place in enumerate(qA):
                qA[index], sums[-1] = _known_after(b, place, sums[-1])
            for stride, place in zip(strides, later, strict=True):
                if place is later[0] or turn == 0:
                    fetch(b, b.add(place, b.mul(stride, I64(turn))), to_write=False)
            from_B = b.add(qB, b.mul(sBk, I64(turn)))
            row_B = [
                v.load(b.add(from_B, I64(at * v.lanes * 4)), masks[at]) for at in range(vectors)
            ]
            for row in range(rows):
                place = b.add(b.add(qA[row // 3], rows_by_third[row % 3]), b.mul(sAk, I64(turn)))
                scalar = v.splat(b.load(b.inttoptr(place, F32.as_pointer()), align=4))
                for at in range(row * vectors, (row + 1) * vectors):
                    sums[at] = v.fma(scalar, row_B[at % vectors], sums[at])
        onward = zip((qB, *qA, *later), (sBk, *(sAk for _ in qA), *strides), strict=True)
        qB, *rest = [b.add(place, b.mul(stride, I64(count))) for place, stride in onward]
        return [qB, *rest, *sums]

    now = [starts[1], *groups, *starts[2:], *kept]
    if dense:
        now = _repeat(b, b.udiv(a["nk"], I64(UNROLLED)), now, lambda found: steps(UNROLLED, found))
        now = _repeat(b, b.urem(a["nk"], I64(UNROLLED)), now, lambda found: steps(1, found))
    else:
        now = _repeat(b, a["nk"], now, lambda found: steps(1, found))
    return now[-len(kept) :], now[1 + len(groups) : -len(kept)]


def _known_after(b: ir.IRBuilder, place: ir.Value, total: ir.Value) -> tuple[ir.Value, ir.Value]:
    """Both unchanged, but LLVM takes the address `place` to depend on the sum `total`, and on
    nothing else.

    So it does not load the numbers of all turns first, for which there are too few registers (1.1
    to 1.3 times the time of 8 x 3, 1.5 to 2.5 of 14 x 2), nor keep one index and an address for
    each row, nor merge the broadcasts of neighbouring rows into loads and shuffles (3 times the
    time).
    """
    pair = ir.LiteralStructType([place.type, total.type])
    vector = "w" if on_arm(b) else "v"
    tie = ir.InlineAsm(
        ir.FunctionType(pair, [place.type, total.type]), "", f"=r,={vector},0,1", side_effect=False
    )
    both = b.call(tie, [place, total])
    return b.extract_value(both, 0), b.extract_value(both, 1)


def _repeat(
    b: ir.IRBuilder,
    count: ir.Value,
    start: list[ir.Value],
    body: Callable[[list[ir.Value]], list[ir.Value]],
) -> list[ir.Value]:
    """`start` after `count` turns of `body`."""
    before, test, inside, after = (
        b.block,
        *(b.append_basic_block(name) for name in ("test", "inside", "after")),
    )
    b.branch(test)
    b.position_at_end(test)
    index = b.phi(I64)
    now = [b.phi(value.type) for value in start]
    b.cbranch(b.icmp_unsigned("<", index, count), inside, after)
    b.position_at_end(inside)
    following = [b.add(index, I64(1)), *body(list(now))]
    for phi, first, later in zip((index, *now), (I64(0), *start), following, strict=True):
        phi.add_incoming(first, before)
        phi.add_incoming(later, b.block)
    b.branch(test)
    b.position_at_end(after)
    return list(now)
