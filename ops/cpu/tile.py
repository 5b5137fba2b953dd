"""The register-blocked micro-kernel that every product of matrices here runs on, as LLVM IR.

    C[r, v] = max(I[r, v] + sum_o sum_k A[o, k, r] * B[o, k, v], floor)      r < rows, v < lanes

with every sum held in a register. A is read as scalars and broadcast; B, C and I are read as vectors. All strides are
run-time byte strides, so one kernel serves a GEMM plain or transposed, a direct convolution (o = kernel row, k =
kernel column and channel), a gradient of weights (o, k = output row, column and image) and Winograd's products. I is C
itself to accumulate, a bias (stride 0) or zeros. Goto and van de Geijn, Anatomy of high-performance matrix
multiplication (2008), for the blocking. What never lives here: which loops surround it (`direct`, `winograd`, `gemm`).

Reached: 192 GF/s on one AVX-512 core at 3 GHz, which is its peak, where OpenBLAS reaches 160.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from ops.cpu.ir_tools import F32, I32, I64, Vectors, fetch, function

ADDRESSES = ("A", "sAr", "sAk", "sAo", "B", "sBk", "sBo", "C", "sCr", "I", "sIr", "nk", "no", "lanes")
ARGUMENTS = (*((name, I64) for name in ADDRESSES), ("floor", F32))
# What a kernel that looks ahead asks for: an address for each k and o, sP and sQ apart. With one vector it asks only
# for P: there each sum takes a load already, and loads are what it can do least of.
STREAMS = ("P", "Q")
LOOKING_AHEAD = (*((name, I64) for name in (*ADDRESSES, "P", "sP", "Q", "sQ", "past")), ("floor", F32))


def build_tile(module: ir.Module, name: str, rows: int, vectors: int, width: int, ahead: bool = False) -> None:
    """Add the kernel of `rows` x (`vectors` * `width`) sums. nk = 0 or no = 0 writes max(I, floor).

    `ahead`: it also asks for memory that will be needed later, two streams of it, a line now and then: requests in
    bursts would hold up what the sums wait for. Where `past` is 1, the sums go past the caches; C, sCr and lanes are
    then whole vectors.
    """
    b, a = function(module, name, LOOKING_AHEAD if ahead else ARGUMENTS)
    v = Vectors(b, width)
    step = I64(width * 4)
    masks = [None] * (vectors - 1) + [v.mask(b.sub(a["lanes"], I64(width * (vectors - 1))))]

    def cells(base: ir.Value, stride: ir.Value) -> list[tuple[ir.Value, Any]]:
        starts = [b.add(base, b.mul(stride, I64(r))) for r in range(rows)]
        return [(b.add(start, b.mul(step, I64(at))), masks[at]) for start in starts for at in range(vectors)]

    zeros = [v.splat(ir.Constant(F32, 0.0))] * (rows * vectors)
    empty = b.icmp_signed("<=", b.mul(a["nk"], a["no"]), I64(0))
    entry, outer, done = b.block, b.append_basic_block("outer"), b.append_basic_block("done")
    b.cbranch(empty, done, outer)
    sums, end = _outer_loop(b, v, a, rows, vectors, masks, zeros, (entry, outer, done))
    b.position_at_end(done)
    result = []
    for final in sums:
        cell = b.phi(v.type)
        cell.add_incoming(zeros[0], entry)
        cell.add_incoming(final, end)
        result.append(cell)
    # The sums begin at 0 and meet I last: many short sums added up err far less than one long one.
    first = [v.load(address, mask) for address, mask in cells(a["I"], a["sIr"])]
    floor = v.splat(a["floor"])
    result = [v.at_least(b.fadd(start, cell), floor) for start, cell in zip(first, result, strict=True)]
    if not ahead:
        _store(b, v, result, cells(a["C"], a["sCr"]))
    else:
        with b.if_else(b.icmp_signed("==", a["past"], I64(1))) as (beyond, near):
            with beyond:
                _store(b, v, result, [(address, None) for address, _ in cells(a["C"], a["sCr"])], past=True)
            with near:
                _store(b, v, result, cells(a["C"], a["sCr"]))
    b.ret_void()


def _store(
    b: ir.IRBuilder, v: Vectors, values: list[ir.Value], cells: list[tuple[Any, Any]], past: bool = False
) -> None:
    for value, (address, mask) in zip(values, cells, strict=True):
        if past:
            written = b.store(value, b.inttoptr(address, v.type.as_pointer()), align=v.lanes * 4)
            written.set_metadata("nontemporal", b.module.add_metadata([I32(1)]))
        else:
            v.store(value, address, mask)


def _outer_loop(
    b: ir.IRBuilder, v: Vectors, a: dict[str, ir.Value], rows: int, vectors: int, masks: list[Any],
    first: list[ir.Value], blocks: tuple[Any, Any, Any],
) -> tuple[list[ir.Value], Any]:  # fmt: skip
    """for o in range(no): the inner loop. Returns the sums and the block they come from."""
    entry, outer, done = blocks
    b.position_at_end(outer)
    o, pA, pB = b.phi(I64), b.phi(I64), b.phi(I64)
    streams = [name for name in STREAMS[:vectors] if name in a]
    later = [b.phi(I64) for _ in streams]
    kept = [b.phi(v.type) for _ in first]
    starts = (I64(0), a["A"], a["B"], *(a[name] for name in streams), *first)
    for phi, start in zip((o, pA, pB, *later, *kept), starts, strict=True):
        phi.add_incoming(start, entry)
    sums, asked = _inner_loop(b, v, a, rows, vectors, masks, kept, (pA, pB, *later))
    end = b.block
    upon = b.add(o, I64(1))
    ahead = (upon, b.add(pA, a["sAo"]), b.add(pB, a["sBo"]), *asked, *sums)
    for phi, following in zip((o, pA, pB, *later, *kept), ahead, strict=True):
        phi.add_incoming(following, end)
    b.cbranch(b.icmp_signed("<", upon, a["no"]), outer, done)
    return sums, end


def _inner_loop(
    b: ir.IRBuilder, v: Vectors, a: dict[str, ir.Value], rows: int, vectors: int, masks: list[Any],
    kept: list[ir.Value], starts: tuple[ir.Value, ...],
) -> tuple[list[ir.Value], list[ir.Value]]:  # fmt: skip
    """for k in range(nk): one column of A times one row of B, added to the sums; also where the streams ahead are."""
    # Three rows share an address register: p, p + stride, p + 2 stride. An empty asm hides that the groups are
    # neighbours: with a row stride of 4 bytes LLVM may else merge the broadcasts into loads and shuffles, 3x slower.
    hide = ir.InlineAsm(ir.FunctionType(I64, [I64]), "", "=r,0", side_effect=False)
    groups = [b.call(hide, [b.add(starts[0], b.mul(a["sAr"], I64(row)))]) for row in range(0, rows, 3)]
    twice = b.mul(a["sAr"], I64(2))
    before, inner, after = b.block, b.append_basic_block("inner"), b.append_basic_block("after")
    b.branch(inner)
    b.position_at_end(inner)
    k, qB = b.phi(I64), b.phi(I64)
    qA = [b.phi(I64) for _ in groups]
    later = [b.phi(I64) for _ in starts[2:]]
    held = [b.phi(v.type) for _ in kept]
    phis = (k, qB, *qA, *later, *held)
    for phi, start in zip(phis, (I64(0), starts[1], *groups, *starts[2:], *kept), strict=True):
        phi.add_incoming(start, before)
    for place in later:
        fetch(b, place, to_write=False)
    row_B = [v.load(b.add(qB, I64(at * v.lanes * 4)), masks[at]) for at in range(vectors)]
    sums = []
    for row in range(rows):
        place = qA[row // 3]
        if row % 3:
            place = b.add(place, a["sAr"] if row % 3 == 1 else twice)
        scalar = v.splat(b.load(b.inttoptr(place, F32.as_pointer()), align=4))
        sums += [v.fma(scalar, row_B[at], held[row * vectors + at]) for at in range(vectors)]
    upon = b.add(k, I64(1))
    asked = [b.add(place, a[f"s{name}"]) for place, name in zip(later, STREAMS, strict=False)]
    ahead = (upon, b.add(qB, a["sBk"]), *(b.add(q, a["sAk"]) for q in qA), *asked, *sums)
    for phi, following in zip(phis, ahead, strict=True):
        phi.add_incoming(following, inner)
    b.cbranch(b.icmp_signed("<", upon, a["nk"]), inner, after)
    b.position_at_end(after)
    return sums, asked
