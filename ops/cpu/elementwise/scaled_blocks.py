"""Kernels between float32 and codes of 8 or 4 bits, with one step for each block of numbers.

The bits of the results are those of `reference.scaled_codes`: quotients, products and differences
are rounded one by one. Each block is one thread's.
"""

from __future__ import annotations

from collections.abc import Iterator

from llvmlite import ir

from ops.cpu.codegen.code import Code, generated
from ops.cpu.codegen.ir_tools import I32, VOID, declared
from ops.cpu.codegen.kernel import layout
from ops.cpu.codegen.values import Choice, Vec, Whole
from ops.reference.scaled_codes import BLOCKS, OFFSET

I8 = ir.IntType(8)
INFINITE = 0x7F800000  # the bits of an infinity; those of NaN are larger
SIGN = 0x7FFFFFFF  # all bits but the sign

SCALED = layout("x error codes steps total")


@generated(SCALED)
def encode_8(c: Code) -> None:
    """Add x to error; write codes of 8 bits and the steps; subtract what they stand for from
    error."""
    _encode(c, 8)


@generated(SCALED)
def encode_4(c: Code) -> None:
    """As `encode_8`, with codes of 4 bits, two in a byte."""
    _encode(c, 4)


@generated(SCALED)
def decode_8(c: Code) -> None:
    """x = codes of 8 bits times the steps of their blocks."""
    _decode(c, 8)


@generated(SCALED)
def decode_4(c: Code) -> None:
    """As `decode_8`, with codes of 4 bits."""
    _decode(c, 4)


ENCODE = {8: encode_8, 4: encode_4}
DECODE = {8: decode_8, 4: decode_4}


def _encode(c: Code, bits: int) -> None:
    most = 2 ** (bits - 1) - 1
    one = c.v.mask(c.whole(1).value)
    for row, at, count in _blocks(c, bits):
        largest = c.variable(Vec(c.b, _integers(c, 0)))
        for offset, masks in c.columns(count, 1):
            place = at + offset
            value = c.load(c.x + place, masks[0]).plus(c.load(c.error + place, masks[0]))
            c.store(value, c.error + place, masks[0])
            largest.set(_larger(c, largest.get(), _size(c, value)))
        bits_of_largest = _across(c, largest.get())
        finite = Choice(c.b, c.b.icmp_signed("<", bits_of_largest, _integers(c, INFINITE)))
        length = Vec(c.b, c.b.bitcast(bits_of_largest, c.v.type))
        step = finite.pick(_exact(c, "fdiv", length, c.constant(most)), c.constant(float("nan")))
        c.store(step, c.steps + row * 4, one)
        divisor = (step > 0.0).pick(step, c.constant(1))
        for offset, masks in c.columns(count, 1):
            place = at + offset
            value = c.load(c.error + place, masks[0])
            near, _ = c.rounded(_exact(c, "fdiv", value, divisor))
            near = (near > most).pick(c.constant(most), near)
            near = (near < -most).pick(c.constant(-most), near)
            whole = finite.pick(near, c.constant(0))
            rest = _exact(c, "fsub", value, _exact(c, "fmul", whole, step))
            c.store(rest, c.error + place, masks[0])
            numbers = c.b.fptosi(whole.value, _integers(c, 0).type)
            left = None if masks[0] is None else count - offset // 4
            _write(c, numbers, c.codes + place * bits // 32, bits, left)


def _decode(c: Code, bits: int) -> None:
    for row, at, count in _blocks(c, bits):
        step = c.spread(c.steps + row * 4)
        for offset, masks in c.columns(count, 1):
            place = at + offset
            left = None if masks[0] is None else count - offset // 4
            numbers = _read(c, c.codes + place * bits // 32, bits, left)
            whole = Vec(c.b, c.b.sitofp(numbers, c.v.type))
            c.store(_exact(c, "fmul", whole, step), c.x + place, masks[0])


def _blocks(c: Code, bits: int) -> Iterator[tuple[Whole, Whole, Whole]]:
    """Yield this thread's blocks: the number of each, its place in bytes of float32, and how many
    numbers it has."""
    width = BLOCKS[bits]
    first, last = c.share((c.total + (width - 1)) // width)
    for row in c.loop(first, last):
        yield row, row * width * 4, (c.total - row * width).least(c.whole(width))


def _exact(c: Code, build: str, one: Vec, other: Vec) -> Vec:
    """The rounded result of one operation, never contracted or replaced."""
    return Vec(c.b, getattr(c.b, build)(one.value, other.value))


def _integers(c: Code, number: int) -> ir.Constant:
    return ir.Constant(ir.VectorType(I32, c.lanes), [number] * c.lanes)


def _size(c: Code, value: Vec) -> Vec:
    """The bits of absolute values. As integers they have the order of the numbers."""
    return Vec(c.b, c.b.and_(c.b.bitcast(value.value, _integers(c, 0).type), _integers(c, SIGN)))


def _larger(c: Code, one: Vec, other: Vec) -> Vec:
    greater = c.b.icmp_signed(">", one.value, other.value)
    return Vec(c.b, c.b.select(greater, one.value, other.value))


def _across(c: Code, value: Vec) -> ir.Value:
    """The largest integer of the lanes, in every lane."""
    kind = value.value.type
    largest = declared(c.b, f"llvm.vector.reduce.smax.v{c.lanes}i32", I32, [kind])
    return c.v.splat(c.b.call(largest, [value.value]))


def _write(c: Code, numbers: ir.Value, at: Whole, bits: int, left: Whole | None) -> None:
    """Write codes; of only the first `left` numbers if that is given."""
    if bits == 4:
        pairs = c.b.add(numbers, _integers(c, OFFSET))
        low, high = (_picked(c, pairs, list(range(k, c.lanes, 2))) for k in range(2))
        numbers = c.b.or_(low, c.b.shl(high, ir.Constant(high.type, [4] * high.type.count)))
        left = None if left is None else (left + 1).halved()
    kind = ir.VectorType(I8, numbers.type.count)
    value = c.b.trunc(numbers, kind)
    pointer = c.b.inttoptr(at.value, kind.as_pointer())
    if left is None:
        c.b.store(value, pointer, align=1)
        return
    inside = _inside(c, left, kind.count)
    name = f"llvm.masked.store.v{kind.count}i8.p0"
    store = declared(c.b, name, VOID, [kind, pointer.type, I32, inside.type])
    c.b.call(store, [value, pointer, I32(1), inside])


def _read(c: Code, at: Whole, bits: int, left: Whole | None) -> ir.Value:
    """Read codes; of only the first `left` numbers if that is given."""
    kind = ir.VectorType(I8, c.lanes * bits // 8)
    pointer = c.b.inttoptr(at.value, kind.as_pointer())
    if left is None:
        found = c.b.load(pointer, align=1)
    else:
        inside = _inside(c, left if bits == 8 else (left + 1).halved(), kind.count)
        name = f"llvm.masked.load.v{kind.count}i8.p0"
        load = declared(c.b, name, kind, [pointer.type, I32, inside.type, kind])
        blank = ir.Constant(kind, [0] * kind.count)
        found = c.b.call(load, [pointer, I32(1), inside, blank])
    wide = ir.VectorType(I32, kind.count)
    if bits == 8:
        return c.b.sext(found, wide)
    pairs = c.b.zext(found, wide)
    low = c.b.and_(pairs, ir.Constant(wide, [15] * kind.count))
    high = c.b.lshr(pairs, ir.Constant(wide, [4] * kind.count))
    turns = [k // 2 + k % 2 * kind.count for k in range(c.lanes)]
    both = ir.Constant(ir.VectorType(I32, c.lanes), turns)
    return c.b.sub(c.b.shuffle_vector(low, high, both), _integers(c, OFFSET))


def _picked(c: Code, value: ir.Value, lanes: list[int]) -> ir.Value:
    """Some lanes of a vector."""
    picks = ir.Constant(ir.VectorType(I32, len(lanes)), lanes)
    return c.b.shuffle_vector(value, ir.Constant(value.type, ir.Undefined), picks)


def _inside(c: Code, count: Whole, lanes: int) -> ir.Value:
    """The mask of the first `count` of so many lanes."""
    places = ir.Constant(ir.VectorType(I32, lanes), list(range(lanes)))
    blank = ir.Constant(places.type, ir.Undefined)
    every = ir.Constant(ir.VectorType(I32, lanes), [0] * lanes)
    number = c.b.insert_element(blank, c.b.trunc(count.value, I32), I32(0))
    return c.b.icmp_signed("<", places, c.b.shuffle_vector(number, blank, every))
