"""Kernels that encode numbers coarsely and keep the error: one bit per number, or a code for each
large one.

Results do not depend on the number of threads: each block of one-bit numbers is one thread's, and
codes are written in the order of their numbers.
"""

from __future__ import annotations

from collections.abc import Iterator

from llvmlite import ir

from ops.cpu.codegen.code import Code, Mask, generated
from ops.cpu.codegen.ir_tools import F32, I1, I32, I64, VOID, declared
from ops.cpu.codegen.kernel import layout
from ops.cpu.codegen.values import Choice, Vec, Whole

GRAIN = 64  # threads share numbers in units of this many
OCTET = 8  # signs of a byte

ONE_BIT = layout("x error signs means total width blocks")
BEYOND = layout("x error codes counts total", "tau")
SPREAD = layout("codes steps y count total wrong")
RECORD = 16  # bytes of a thread's counts: numbers beyond, numbers that are not finite


@generated(ONE_BIT)
def signs_and_means(c: Code) -> None:
    """Add x to error; write signs, and per block the means of the numbers that are not below zero
    and of those that are. Subtract each number's mean from error."""
    first, last = c.share(c.blocks)
    one = c.v.mask(c.whole(1).value)
    for row in c.loop(first, last):
        x = c.x + row * c.width * 4
        error = c.error + row * c.width * 4
        signs = c.signs + row * c.width // OCTET
        count = (c.total - row * c.width).least(c.width)
        zero = c.constant(0)
        totals = [c.variable(c.widened(zero)) for _ in range(2)]
        upper = c.variable(c.whole(0))
        for at, masks in _groups(c, count):
            kinds = []
            for k, mask in enumerate(masks):
                place = at * 4 + k * c.lanes * 4
                value = c.load(x + place, mask) + c.load(error + place, mask)
                c.store(value, error + place, mask)
                below = value < 0.0
                totals[0].set(totals[0].get() + c.widened(below.pick(zero, value)))
                totals[1].set(totals[1].get() + c.widened(below.pick(value, zero)))
                kinds.append(_without(c, mask, below))
            bits = _bits(c, kinds)
            upper.set(upper.get() + _ones(c, bits))
            c.b.store(
                bits, c.b.inttoptr((signs + at // OCTET).value, bits.type.as_pointer()), align=1
            )
        means = []
        for kind, number in enumerate((upper.get(), count - upper.get())):
            total = c.across("fadd", totals[kind].get())
            means.append(c.narrowed(total / c.widened(number.most(1))))
            c.store(means[-1], c.means + row * 8 + kind * 4, one)
        for offset, masks in c.columns(count, 2):
            for k, mask in enumerate(masks):
                place = error + offset + k * c.lanes * 4
                value = c.load(place, mask)
                c.store(value - (value < 0.0).pick(means[1], means[0]), place, mask)


@generated(ONE_BIT)
def spread_means(c: Code) -> None:
    """Set each number of x to the mean that its sign stands for."""
    first, last = c.share(c.blocks)
    for row in c.loop(first, last):
        x = c.x + row * c.width * 4
        signs = c.signs + row * c.width // OCTET
        count = (c.total - row * c.width).least(c.width)
        means = [c.spread(c.means + row * 8 + kind * 4) for kind in range(2)]
        for at, masks in _groups(c, count):
            for k, upper in enumerate(_flags(c, signs + at // OCTET)):
                c.store(upper.pick(means[0], means[1]), x + at * 4 + k * c.lanes * 4, masks[k])


@generated(BEYOND)
def count_beyond(c: Code) -> None:
    """Add x to error; count the numbers of this thread's share that are beyond +-tau, and those
    that are not finite."""
    first, last = c.share(c.total, GRAIN)
    found = c.variable(c.whole(0))
    odd = c.variable(c.whole(0))
    for offset, masks in c.columns(last, 2, first):
        for k, mask in enumerate(masks):
            at = offset + k * c.lanes * 4
            value = c.load(c.x + at, mask) + c.load(c.error + at, mask)
            c.store(value, c.error + at, mask)
            found.set(found.get() + _ones(c, _mask_bits(c, _beyond(c, value))))
            odd.set(odd.get() + _ones(c, _mask_bits(c, _endless(c, value))))
    c.put(c.counts + c.number * RECORD, found.get())
    c.put(c.counts + c.number * RECORD + 8, odd.get())


@generated(BEYOND)
def write_beyond(c: Code) -> None:
    """Write the codes of this thread's numbers beyond +-tau, behind those of the threads before it;
    subtract their steps from error."""
    first, last = c.share(c.total, GRAIN)
    place = c.variable(c.codes)
    for thread in c.loop(0, c.number):
        place.set(place.get() + c.get(c.counts + thread * RECORD) * 4)
    for at, masks in c.columns(last, 1, first):
        value = c.load(c.error + at, masks[0])
        beyond = _beyond(c, value)
        bits = _mask_bits(c, beyond)
        with c.when(Choice(c.b, c.b.icmp_unsigned("!=", bits, bits.type(0)))):
            below = value < 0.0
            step = below.pick(c.constant(0) - c.tau, c.tau)
            c.store(beyond.pick(value - step, value), c.error + at, masks[0])
            _compress(c, _codes(c, at // 4, below), place.get(), beyond)
            place.set(place.get() + _ones(c, bits) * 4)


@generated(SPREAD)
def spread_steps(c: Code) -> None:
    """Write +-step at the places of the codes, 0 elsewhere. `wrong` becomes one more than the
    largest place that is not in y, else 0."""
    first, last = c.share(c.total, GRAIN)
    for at, masks in c.columns(last, 4, first):
        for k, mask in enumerate(masks):
            c.store(c.constant(0), c.y + at + k * c.lanes * 4, mask)
    step = c.b.load(c.b.inttoptr(c.steps.value, F32.as_pointer()))
    wrong = c.variable(c.whole(0))
    for n in c.loop(0, c.count):
        code = c.b.load(c.b.inttoptr((c.codes + n * 4).value, I32.as_pointer()), align=4)
        place = Whole(c.b, c.b.zext(c.b.lshr(code, I32(1)), I64))
        with c.when((place < last) & (first < place + 1)):
            value = c.b.select(c.b.trunc(code, I1), c.b.fneg(step), step)
            c.b.store(value, c.b.inttoptr((c.y + place * 4).value, F32.as_pointer()))
        wrong.set((place < c.total).pick(wrong.get(), wrong.get().most(place + 1)))
    with c.when(c.number.equals(0)):
        c.put(c.wrong, wrong.get())


def _groups(c: Code, count: Whole) -> Iterator[tuple[Whole, list[Mask]]]:
    """Yield places of whole bytes of signs in a block, up to its `width`, and a mask per vector.
    The body is written twice."""
    wide = max(c.lanes, OCTET)
    full = count // wide * wide
    for at in c.loop(0, full, wide):
        yield at, [None] * (wide // c.lanes)
    for at in c.loop(full, c.width, wide):
        yield at, [c.v.mask((count - at - k).value) for k in range(0, wide, c.lanes)]


def _without(c: Code, mask: Mask, below: Choice) -> ir.Value:
    """The lanes inside the mask whose numbers are not below zero."""
    upper = c.b.not_(below.value)
    return upper if mask is None else c.b.and_(upper, mask)


def _bits(c: Code, kinds: list[ir.Value]) -> ir.Value:
    """The bits of one or two vectors as an integer, the first vector in the lowest bits."""
    joined = kinds[0]
    if len(kinds) == 2:
        picks = ir.Constant(ir.VectorType(I32, 2 * c.lanes), list(range(2 * c.lanes)))
        joined = c.b.shuffle_vector(kinds[0], kinds[1], picks)
    return c.b.bitcast(joined, ir.IntType(joined.type.count))


def _flags(c: Code, at: Whole) -> list[Choice]:
    """The bits of an integer in memory as one or two vectors."""
    wide = max(c.lanes, OCTET)
    number = ir.IntType(wide)
    bits = c.b.load(c.b.inttoptr(at.value, number.as_pointer()), align=1)
    joined = c.b.bitcast(bits, ir.VectorType(I1, wide))
    if wide == c.lanes:
        return [Choice(c.b, joined)]
    parts = [list(range(k, k + c.lanes)) for k in range(0, wide, c.lanes)]
    blank = ir.Constant(joined.type, ir.Undefined)
    picks = [ir.Constant(ir.VectorType(I32, c.lanes), part) for part in parts]
    return [Choice(c.b, c.b.shuffle_vector(joined, blank, pick)) for pick in picks]


def _beyond(c: Code, value: Vec) -> Choice:
    """The lanes whose numbers are not from -tau to tau; NaN is one of them."""
    found: Choice = (value > c.tau) | (value < c.constant(0) - c.tau) | value.is_nan()
    return found


def _endless(c: Code, value: Vec) -> Choice:
    """The lanes whose numbers are infinite or NaN."""
    kind = ir.VectorType(I32, c.lanes)
    exponent = ir.Constant(kind, [0x7F800000] * c.lanes)
    return Choice(
        c.b, c.b.icmp_signed("==", c.b.and_(c.b.bitcast(value.value, kind), exponent), exponent)
    )


def _mask_bits(c: Code, choice: Choice) -> ir.Value:
    return c.b.bitcast(choice.value, ir.IntType(c.lanes))


def _ones(c: Code, bits: ir.Value) -> Whole:
    """The number of bits of an integer that are 1."""
    count = declared(c.b, f"llvm.ctpop.i{bits.type.width}", bits.type, [bits.type])
    return Whole(c.b, c.b.zext(c.b.call(count, [bits]), I64))


def _codes(c: Code, first: Whole, below: Choice) -> ir.Value:
    """2 * place + (1 below zero) for each lane of a vector whose first number has the place
    `first`."""
    kind = ir.VectorType(I32, c.lanes)
    places = c.b.add(c.counted(first).value, ir.Constant(kind, list(range(c.lanes))))
    return c.b.or_(c.b.shl(places, ir.Constant(kind, [1] * c.lanes)), c.b.zext(below.value, kind))


def _compress(c: Code, codes: ir.Value, at: Whole, where: Choice) -> None:
    """Write the chosen lanes side by side."""
    pointer = c.b.inttoptr(at.value, I32.as_pointer())
    write = declared(
        c.b,
        f"llvm.masked.compressstore.v{c.lanes}i32",
        VOID,
        [codes.type, pointer.type, where.value.type],
    )
    c.b.call(write, [codes, pointer, where.value])
