"""Kernels written as LLVM IR instruction by instruction: `Code` has the loops and memory
operations, `@generated` makes the kernel.

Where every step of a loop is a vector instruction, such a kernel is shorter than a numba kernel. It
compiles in milliseconds instead of a second, and never depends on a vectoriser. Conventions are
those of `kernel`: (number, size, block), addresses and strides in bytes. A Python loop over one of
the generators here writes the loop's body into the kernel once, or twice where the generator's
docstring says so.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

from llvmlite import ir

from ops.cpu.codegen.compiled import emitted
from ops.cpu.codegen.ir_tools import F32, I32, I64, Vectors, declared, fetch, function
from ops.cpu.codegen.kernel import Kernel
from ops.cpu.codegen.stored import AS_BFLOAT16, AS_FLOAT32, Stored, rounded
from ops.cpu.codegen.target import host
from ops.cpu.codegen.values import FLAGS, Choice, Variable, Vec, Whole

F64 = ir.DoubleType()
Mask: TypeAlias = Any  # an IR vector of bits, or None: all lanes

COUNTS_ONES = 12582912.0  # 1.5 * 2^23
INVERSE = 0x7EF31000  # minus the bits of a number are the bits of its inverse, to 5 %


class Code:
    """A kernel that is being written. Thread `number` of `size` runs it. `halves`: the arrays whose
    numbers are bfloat16."""

    def __init__(
        self,
        module: ir.Module,
        name: str,
        block: type[ctypes.Structure],
        past: bool = False,
        halves: Iterable[str] = (),
    ) -> None:
        self.past = past
        self.halves = frozenset(halves)
        self.b, found = function(module, name, [("number", I64), ("size", I64), ("at", I64)])
        self.lanes = host().lanes
        self.v = Vectors(self.b, self.lanes)
        self.number = Whole(self.b, found["number"])
        self.size = Whole(self.b, found["size"])
        self._block = block
        self._at = found["at"]
        assert not [
            name for name, *_ in block._fields_ if name in vars(self) or hasattr(Code, name)
        ]

    def __getattr__(self, name: str) -> Any:
        """The argument of that name: a whole number as such, a float in every lane of a vector."""
        if name.startswith("_") or not hasattr(self._block, name):
            raise AttributeError(name)
        place = self.b.add(self._at, I64(getattr(self._block, name).offset))
        if getattr(self._block, name).size == 8:
            return Whole(self.b, self.b.load(self.b.inttoptr(place, I64.as_pointer())))
        return Vec(self.b, self.v.splat(self.b.load(self.b.inttoptr(place, F32.as_pointer()))))

    # whole numbers

    def whole(self, number: int) -> Whole:
        """A constant whole number."""
        return Whole(self.b, I64(number))

    def get(self, at: Whole) -> Whole:
        """The int64 number at an address."""
        return Whole(self.b, self.b.load(self.b.inttoptr(at.value, I64.as_pointer())))

    def label(self, at: Whole) -> Whole:
        """The float32 number at an address as an integer, or the second smallest int64 if it is not
        whole."""
        found = self.b.load(self.b.inttoptr(at.value, F32.as_pointer()))
        number = self.b.call(declared(self.b, "llvm.fptosi.sat.i64.f32", I64, [F32]), [found])
        whole = self.b.fcmp_ordered("==", self.b.sitofp(number, F32), found)
        return Whole(self.b, self.b.select(whole, number, I64(1 - (1 << 63))))

    def put(self, at: Whole, value: Whole) -> None:
        """Write an int64 number."""
        self.b.store(value.value, self.b.inttoptr(at.value, I64.as_pointer()))

    def variable(self, start: Any) -> Variable:
        """A value that loops change."""
        return Variable(self.b, start)

    # loops

    def loop(self, start: Whole | int, end: Whole, step: int = 1) -> Iterator[Whole]:
        """for i in range(start, end, step)."""
        first = self.whole(start) if isinstance(start, int) else start
        before, head, inside, after = (
            self.b.block,
            *(self.b.append_basic_block(n) for n in ("head", "body", "after")),
        )
        self.b.branch(head)
        self.b.position_at_end(head)
        index = self.b.phi(I64)
        index.add_incoming(first.value, before)
        self.b.cbranch(self.b.icmp_signed("<", index, end.value), inside, after)
        self.b.position_at_end(inside)
        yield Whole(self.b, index)
        index.add_incoming(self.b.add(index, I64(step)), self.b.block)
        self.b.branch(head)
        self.b.position_at_end(after)

    def share(self, count: Whole, grain: int = 1) -> tuple[Whole, Whole]:
        """This thread's part [first, last) of `count`, in whole grains."""
        grains = (count + (grain - 1)) // grain
        first, last = (grains * n // self.size * grain for n in (self.number, self.number + 1))
        return first, last.least(count)

    def bunches(self, start: Whole, end: Whole, most: int) -> Iterator[tuple[int, Whole]]:
        """Yield (how many, the first) for `most` items at a time, then one by one. The body is
        written twice."""
        full = start + (end - start) // most * most
        for i in self.loop(start, full, most):
            yield most, i
        for i in self.loop(full, end):
            yield 1, i

    def columns(
        self, count: Whole, most: int, start: Whole | int = 0
    ) -> Iterator[tuple[Whole, list[Mask]]]:
        """Yield (offset in bytes, a mask per vector) for `most` whole vectors at a time, then one
        by one. The body is written twice."""
        first = self.whole(start) if isinstance(start, int) else start
        wide = most * self.lanes
        full = first + (count - first) // wide * wide
        for i in self.loop(first, full, wide):
            yield i * 4, [None] * most
        for i in self.loop(full, count, self.lanes):
            yield i * 4, [self.v.mask((count - i).value)]

    @contextmanager
    def when(self, choice: Choice) -> Iterator[None]:
        """Run the body only if `choice` is true."""
        with self.b.if_then(choice.value):
            yield

    # vectors

    def constant(self, value: float) -> Vec:
        """The number in every lane."""
        return Vec(self.b, self.v.constant(value))

    def counted(self, value: Whole) -> Vec:
        """A whole number in every lane of an int32 vector."""
        return Vec(self.b, self.v.splat(self.b.trunc(value.value, I32)))

    def load(self, at: Whole, mask: Mask = None) -> Vec:
        """Read float32 numbers. Lanes outside the mask are 0, and their memory is not read."""
        return Vec(self.b, self.v.load(at.value, mask))

    def store(self, value: Vec, at: Whole, mask: Mask = None) -> None:
        """Write float32 or int32 numbers, only the lanes inside the mask."""
        self.v.store(self.b.bitcast(value.value, self.v.type), at.value, mask)

    def deliver(self, value: Vec, at: Whole, mask: Mask = None) -> None:
        """Write as `store` does. In the kernel's `past` form whole vectors bypass the caches; their
        addresses must be aligned."""
        if mask is not None or not self.past:
            self.store(value, at, mask)
        else:
            self._bypass(self.b.bitcast(value.value, self.v.type), at, self.lanes * 4)

    def _bypass(self, value: ir.Value, at: Whole, size: int) -> None:
        """Write a whole vector of `size` bytes past the caches."""
        written = self.b.store(
            value, self.b.inttoptr(at.value, value.type.as_pointer()), align=size
        )
        written.set_metadata("nontemporal", self.b.module.add_metadata([I32(1)]))

    # vectors of an array that holds float32 or bfloat16 numbers

    def _stored(self, name: str) -> Stored:
        return AS_BFLOAT16 if name in self.halves else AS_FLOAT32

    def _place(self, name: str, row: Whole, offset: Whole) -> Whole:
        """The address in array `name` that lies `offset` bytes of float32 numbers after `row`."""
        return row + (offset.halved() if name in self.halves else offset)

    def read(self, name: str, row: Whole, offset: Whole, mask: Mask = None) -> Vec:
        """Read numbers of array `name` as float32. `row` is an address in it, `offset` the place
        from there on, in bytes as if all numbers were float32."""
        place = self._place(name, row, offset)
        return Vec(self.b, self._stored(name).load(self.v, place.value, mask))

    def ask(self, name: str, row: Whole, offset: Whole) -> None:
        """Prefetch the line of a number of array `name`. The line need not exist."""
        fetch(self.b, self._place(name, row, offset).value, to_write=False)

    def write(self, name: str, value: Vec, row: Whole, offset: Whole, mask: Mask = None) -> None:
        """Write float32 numbers to array `name`, rounded to its type."""
        place = self._place(name, row, offset)
        self._stored(name).store(self.v, value.value, place.value, mask)

    def deliver_to(
        self, name: str, value: Vec, row: Whole, offset: Whole, mask: Mask = None
    ) -> None:
        """Write as `write` does, past the caches where `deliver` would."""
        if name not in self.halves:
            self.deliver(value, row + offset, mask)
        elif mask is not None or not self.past:
            self.write(name, value, row, offset, mask)
        else:
            place = self._place(name, row, offset)
            self._bypass(rounded(self.b, value.value), place, self.lanes * 2)

    def load_places(self, at: Whole, mask: Mask = None) -> Vec:
        """Read int32 numbers."""
        return Vec(
            self.b, self.b.bitcast(self.load(at, mask).value, ir.VectorType(I32, self.lanes))
        )

    def spread(self, at: Whole) -> Vec:
        """Read one float32 number into every lane."""
        return Vec(
            self.b, self.v.splat(self.b.load(self.b.inttoptr(at.value, F32.as_pointer()), align=4))
        )

    def spread_wide(self, at: Whole) -> Vec:
        """Read one float64 number into every lane."""
        return self._splat_wide(self.b.load(self.b.inttoptr(at.value, F64.as_pointer()), align=8))

    def widened(self, value: Vec | Whole) -> Vec:
        """Convert float32 numbers, or one whole number, to float64."""
        if isinstance(value, Whole):
            return self._splat_wide(self.b.sitofp(value.value, F64))
        return Vec(self.b, self.b.fpext(value.value, ir.VectorType(F64, self.lanes)))

    def narrowed(self, value: Vec) -> Vec:
        """Convert float64 numbers to float32."""
        return Vec(self.b, self.b.fptrunc(value.value, self.v.type))

    def load_wide(self, at: Whole) -> Vec:
        """Read as many float64 numbers as a vector has lanes."""
        return Vec(self.b, self.b.load(self._wide_pointer(at), align=8))

    def store_wide(self, value: Vec, at: Whole) -> None:
        """Write float64 numbers."""
        self.b.store(value.value, self._wide_pointer(at), align=8)

    def _wide_pointer(self, at: Whole) -> ir.Value:
        return self.b.inttoptr(at.value, ir.VectorType(F64, self.lanes).as_pointer())

    def _splat_wide(self, scalar: ir.Value) -> Vec:
        blank = ir.Constant(ir.VectorType(F64, self.lanes), ir.Undefined)
        picks = ir.Constant(ir.VectorType(I32, self.lanes), [0] * self.lanes)
        return Vec(
            self.b,
            self.b.shuffle_vector(self.b.insert_element(blank, scalar, I32(0)), blank, picks),
        )

    def apply(self, name: str, *values: Vec) -> Vec:
        """Apply LLVM's function of that name (sqrt, pow, ...) lane by lane."""
        kind = values[0].value.type
        key = f"v{kind.count}{'f32' if kind.element == F32 else 'f64'}"
        intrinsic = declared(self.b, f"llvm.{name}.{key}", kind, [kind] * len(values))
        return Vec(self.b, self.b.call(intrinsic, [v.value for v in values], fastmath=FLAGS))

    def across(self, name: str, value: Vec) -> Vec:
        """The sum ("fadd") or the largest ("fmax") of a vector's lanes, in every lane. The largest
        ignores NaN."""
        kind = value.value.type
        start = [kind.element] if name == "fadd" else []
        key = f"llvm.vector.reduce.{name}.v{self.lanes}{'f32' if kind.element == F32 else 'f64'}"
        intrinsic = declared(self.b, key, kind.element, [*start, kind])
        scalar = self.b.call(intrinsic, [*(one(0.0) for one in start), value.value], fastmath=FLAGS)
        return (
            Vec(self.b, self.v.splat(scalar)) if kind.element == F32 else self._splat_wide(scalar)
        )

    def split(self, value: Vec) -> tuple[Vec, Vec]:
        """n and m with value = m 2^n and m from sqrt(1/2) to sqrt(2), for positive normal numbers
        in float32."""
        kind = ir.VectorType(I32, self.lanes)
        root, places = (ir.Constant(kind, [number] * self.lanes) for number in (0x3F3504F3, 23))
        bits = self.b.bitcast(value.value, kind)
        n = self.b.ashr(self.b.sub(bits, root), places)
        m = self.b.bitcast(self.b.sub(bits, self.b.shl(n, places)), self.v.type)
        return Vec(self.b, self.b.sitofp(n, self.v.type)), Vec(self.b, m)

    def rounded(self, value: Vec) -> tuple[Vec, Vec]:
        """The whole number n next to each float32 number, and 2^n, for n from -126 to 127; both are
        unspecified for other n.

        A number so large that its last bit counts ones is added and taken away again. In between
        the whole number stands in the lowest bits. That is two instructions, where a conversion
        that saturates takes six.
        """
        kind = ir.VectorType(I32, self.lanes)
        shifted = value.plus(self.constant(COUNTS_ONES))
        bits = self.b.shl(self.b.bitcast(shifted.value, kind), ir.Constant(kind, [23] * self.lanes))
        power = self.b.add(bits, self.b.bitcast(self.v.constant(1), kind))
        whole = shifted.plus(self.constant(-COUNTS_ONES))
        return whole, Vec(self.b, self.b.bitcast(power, self.v.type))

    def inverse_of(self, value: Vec) -> Vec:
        """1 / value of positive normal float32 numbers, to 1e-7; NaN stays NaN.

        The bits of a number, taken from a constant, are those of its inverse to 5 %, and each of
        three steps of Newton's method squares this error. That takes 4 cycles for 16 numbers, a
        division 16 to 24. No instruction for rough inverses is used, since processors differ in
        its last bits.
        """
        kind = ir.VectorType(I32, self.lanes)
        guess = self.b.sub(
            ir.Constant(kind, [INVERSE] * self.lanes), self.b.bitcast(value.value, kind)
        )
        found = Vec(self.b, self.b.bitcast(guess, self.v.type))
        for _ in range(3):
            lacking = self.apply("fma", self.constant(0) - value, found, self.constant(1))
            found = self.apply("fma", found, lacking, found)
        return found

    def only(self, value: Vec, mask: Mask, other: float) -> Vec:
        """`value` inside the mask, `other` outside it."""
        return (
            value
            if mask is None
            else Vec(self.b, self.b.select(mask, value.value, self.v.constant(other)))
        )

    def rough_inverse_root(self, value: Vec) -> Vec:
        """1 / sqrt(value) to 14 bits. Only for vectors of 512 bits."""
        key = "llvm.x86.avx512.rsqrt14.ps.512"
        mask = ir.IntType(16)
        intrinsic = declared(self.b, key, self.v.type, [self.v.type, self.v.type, mask])
        return Vec(self.b, self.b.call(intrinsic, [value.value, self.v.constant(0), mask(0xFFFF)]))


class Generated(Kernel):
    """A kernel written as IR.

    `past` is its other form, for results so large that they would push other data out of the
    caches. The results that it delivers bypass the caches, and the memory under them is not read
    first. See `goes_past`. `halves` are the arrays that hold bfloat16 numbers; `storing` gives the
    kernel for other such arrays.
    """

    def __init__(
        self,
        name: str,
        block: type[ctypes.Structure],
        write: Callable[[Code], None],
        past: bool = False,
        halves: tuple[str, ...] = (),
    ) -> None:
        super().__init__(write, block)
        self.name = name
        self._write = write
        self._past = past
        self._halves = halves
        self._storing: dict[tuple[str, ...], Generated] = {}
        self.past = self if past else Generated(f"{name}_past", block, write, True, halves)

    def storing(self, halves: Iterable[str]) -> Generated:
        """The same kernel for arrays of which those named hold bfloat16 numbers."""
        names = tuple(sorted(halves))
        if names == self._halves:
            return self
        if names not in self._storing:
            self._storing[names] = Generated(
                f"{self.name}_bf16_{'_'.join(names)}", self.arguments, self._write, halves=names
            )
        return self._storing[names]

    @property
    def kept_as(self) -> str:
        return f"code-{self.name}"

    def _compiled(self) -> bytes:
        return emitted(self._build)

    def _build(self, module: ir.Module) -> None:
        code = Code(module, self.name, self.arguments, self._past, self._halves)
        self._write(code)
        if self._past:
            code.b.fence("seq_cst")  # other threads see such writes only after a fence
        code.b.ret_void()


def generated(block: type[ctypes.Structure]) -> Callable[[Callable[[Code], None]], Generated]:
    """Decorator for a function that writes a kernel with this block of arguments."""

    def make(write: Callable[[Code], None]) -> Generated:
        return Generated(write.__name__, block, write)

    return make
