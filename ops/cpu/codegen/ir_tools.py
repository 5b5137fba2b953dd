"""Small pieces of LLVM IR that the generated kernels share: vector types, masks, masked loads and
stores, loops."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir

I1 = ir.IntType(1)
I32 = ir.IntType(32)
I64 = ir.IntType(64)
F32 = ir.FloatType()
VOID = ir.VoidType()
MASKED = 16  # lanes of AVX-512, which alone has registers for masks


class Vectors:
    """float32 vectors of `lanes` numbers, built with one IR builder. Addresses are 64-bit integers,
    in bytes."""

    def __init__(self, builder: ir.IRBuilder, lanes: int) -> None:
        self.b = builder
        self.lanes = lanes
        self.type = ir.VectorType(F32, lanes)
        self.masks = ir.VectorType(I1, lanes)
        self._key = f"v{lanes}f32"

    def constant(self, value: float) -> ir.Constant:
        """The number in every lane."""
        return ir.Constant(self.type, [float(value)] * self.lanes)

    def splat(self, scalar: ir.Value) -> ir.Value:
        """A scalar in every lane."""
        blank = ir.Constant(ir.VectorType(scalar.type, self.lanes), ir.Undefined)
        picks = ir.Constant(ir.VectorType(I32, self.lanes), [0] * self.lanes)
        return self.b.shuffle_vector(self.b.insert_element(blank, scalar, I32(0)), blank, picks)

    def mask(self, count: ir.Value) -> ir.Value:
        """The mask of the first `count` (i64) lanes: all lanes if count >= lanes, none if it is
        negative."""
        b = self.b
        lanes = I64(self.lanes)
        none = I64(0)
        count = b.select(b.icmp_signed("<", count, lanes), count, lanes)
        count = b.trunc(b.select(b.icmp_signed("<", count, none), none, count), I32)
        # numbers as wide as the lanes: AVX2 keeps the comparison in one register and needs no
        # conversion
        index = ir.Constant(ir.VectorType(I32, self.lanes), list(range(self.lanes)))
        return b.icmp_signed("<", index, self.splat(count))

    def load(self, address: ir.Value, mask: ir.Value | None = None) -> ir.Value:
        """The vector at `address`; lanes outside the mask are 0 and are not read."""
        pointer = self.b.inttoptr(address, self.type.as_pointer())
        if mask is None:
            return self.b.load(pointer, align=4)
        load = declared(
            self.b,
            f"llvm.masked.load.{self._key}.p0",
            self.type,
            [pointer.type, I32, self.masks, self.type],
        )
        return self.b.call(load, [pointer, I32(4), mask, self.constant(0)])

    def store(self, value: ir.Value, address: ir.Value, mask: ir.Value | None = None) -> None:
        """Write the vector to `address`; lanes outside the mask are left alone.

        A masked store is one instruction with AVX-512. Other masked stores take AMD's processors 20
        cycles, even if no lane is left out, and without AVX2 LLVM writes lane by lane. So whole
        vectors take a branch without a mask.
        """
        pointer = self.b.inttoptr(address, self.type.as_pointer())
        if mask is None:
            self.b.store(value, pointer, align=4)
        elif self.lanes == MASKED:
            self._store_masked(value, pointer, mask)
        else:
            every = self.b.icmp_signed(
                "==", self.b.bitcast(mask, ir.IntType(self.lanes)), ir.IntType(self.lanes)(-1)
            )
            with self.b.if_else(every, likely=True) as (whole, cut):
                with whole:
                    self.b.store(value, pointer, align=4)
                with cut:
                    self._store_masked(value, pointer, mask)

    def _store_masked(self, value: ir.Value, pointer: ir.Value, mask: ir.Value) -> None:
        store = declared(
            self.b,
            f"llvm.masked.store.{self._key}.p0",
            VOID,
            [self.type, pointer.type, I32, self.masks],
        )
        self.b.call(store, [value, pointer, I32(4), mask])

    def store_first(self, value: ir.Value, address: ir.Value, count: ir.Value) -> None:
        """Write the first `count` (i64, not all) lanes: half of the lanes if there are so many,
        then a quarter, and so on.

        AVX2's masked stores take AMD's processors 20 cycles each.
        """
        b = self.b
        size = self.lanes // 2
        while size:
            halves = [
                ir.Constant(ir.VectorType(I32, size), list(range(at, at + size)))
                for at in (0, size)
            ]
            low, high = (
                b.shuffle_vector(value, ir.Constant(value.type, ir.Undefined), picks)
                for picks in halves
            )
            before = b.block
            with b.if_then(b.icmp_signed("!=", b.and_(count, I64(size)), I64(0))):
                b.store(low, b.inttoptr(address, low.type.as_pointer()), align=4)
                onward = b.add(address, I64(size * 4))
                inside = b.block
            left = b.phi(low.type)
            place = b.phi(I64)
            for phi, kept, moved in ((left, low, high), (place, address, onward)):
                phi.add_incoming(kept, before)
                phi.add_incoming(moved, inside)
            value = left
            address = place
            size = size // 2

    def fma(self, x: ir.Value, y: ir.Value, z: ir.Value) -> ir.Value:
        """x * y + z, rounded once."""
        return self.b.call(
            declared(self.b, f"llvm.fma.{self._key}", self.type, [self.type] * 3), [x, y, z]
        )

    def at_least(self, value: ir.Value, floor: ir.Value) -> ir.Value:
        """max(value, floor). A NaN stays a NaN: rectifying must not hide it."""
        return self.b.select(self.b.fcmp_ordered("<", value, floor), floor, value)


def on_arm(builder: ir.IRBuilder) -> bool:
    """Whether the code is for a 64-bit ARM processor: inline assembly differs."""
    return any(name in builder.module.triple for name in ("arm64", "aarch64"))


def declared(
    builder: ir.IRBuilder, name: str, result: ir.Type, arguments: Sequence[ir.Type]
) -> ir.Function:
    """Return the function of that name in the builder's module; it is declared on first use."""
    module = builder.module
    if name in module.globals:
        return module.globals[name]
    return ir.Function(module, ir.FunctionType(result, arguments), name)


def fetch(builder: ir.IRBuilder, address: ir.Value, to_write: bool, nearest: bool = False) -> None:
    """Prefetch a cache line: to write it soon, or to read it, into the second-level cache, or with
    `nearest` into the first. The line need not exist."""
    pointer = builder.inttoptr(address, ir.IntType(8).as_pointer())
    prefetch = declared(builder, "llvm.prefetch.p0", VOID, [pointer.type, I32, I32, I32])
    builder.call(
        prefetch, [pointer, I32(int(to_write)), I32(3 if to_write or nearest else 2), I32(1)]
    )


def function(
    module: ir.Module, name: str, arguments: Sequence[tuple[str, ir.Type]]
) -> tuple[ir.IRBuilder, Any]:
    """Add a function that returns nothing. Returns its builder and its arguments by name."""
    made = ir.Function(module, ir.FunctionType(VOID, [kind for _, kind in arguments]), name)
    for argument, (label, _) in zip(made.args, arguments, strict=True):
        argument.name = label
    return ir.IRBuilder(made.append_basic_block("entry")), dict(
        zip((n for n, _ in arguments), made.args, strict=True)
    )


def counted(
    builder: ir.IRBuilder, count: ir.Value, step: int, body: Callable[[ir.Value], None]
) -> None:
    """for i in range(0, count, step): body(i), with i and count i64."""
    before = builder.block
    head = builder.append_basic_block("head")
    inside = builder.append_basic_block("body")
    after = builder.append_basic_block("after")
    builder.branch(head)
    builder.position_at_end(head)
    index = builder.phi(I64)
    index.add_incoming(I64(0), before)
    builder.cbranch(builder.icmp_signed("<", index, count), inside, after)
    builder.position_at_end(inside)
    body(index)
    index.add_incoming(builder.add(index, I64(step)), builder.block)
    builder.branch(head)
    builder.position_at_end(after)
