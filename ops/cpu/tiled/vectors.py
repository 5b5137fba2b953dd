"""Vectors of bfloat16 numbers in generated kernels: numbers in the order of their places, and pairs
of two rows, from arrays in float32 or in bfloat16."""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from ops.cpu.codegen.bfloat16 import LANES, narrowed, paired
from ops.cpu.codegen.code import Code, Mask
from ops.cpu.codegen.ir_tools import I32, VOID, Vectors, declared
from ops.cpu.codegen.stored import AS_BFLOAT16, I16, Stored
from ops.cpu.codegen.values import Vec, Whole

LINE = 64  # bytes of a vector
BOTH = 2 * LANES  # bfloat16 numbers of a vector
WORDS = ir.VectorType(I32, LANES)
_PLACES = [lane + half for lane in range(LANES) for half in (0, LANES)]


class Source:
    """An array whose numbers a kernel reads as bfloat16. Numbers of float32 are rounded."""

    def __init__(self, code: Code, stored: Stored) -> None:
        self.size = stored.size  # bytes of a number
        self._code = code
        self._copied = stored is AS_BFLOAT16

    def numbers(self, at: Whole, count: Whole | None = None) -> Vec:
        """The next 32 numbers; zeros from `count` on, which are not read."""
        code = self._code
        if self._copied:
            return _load(code, at, BOTH, count)
        counts = [count if count is None else count - lanes for lanes in (0, LANES)]
        masks = [one if one is None else code.v.mask(one.value) for one in counts]
        low, high = (
            code.load(at + place, mask) for place, mask in zip((0, LINE), masks, strict=True)
        )
        return Vec(code.b, narrowed(code.b, low.value, high.value))

    def pairs(self, places: tuple[Whole, Whole], counts: tuple[Whole, Whole]) -> Vec:
        """The pairs of the next 16 numbers at two places, as int32; zeros from a count on."""
        code = self._code
        b = code.b
        if self._copied:
            low, high = (
                _load(code, at, LANES, count).value
                for at, count in zip(places, counts, strict=True)
            )
            order = ir.Constant(ir.VectorType(I32, BOTH), _PLACES)
            return Vec(b, b.bitcast(b.shuffle_vector(low, high, order), WORDS))
        return pairs(
            code,
            *(
                code.load(at, code.v.mask(count.value))
                for at, count in zip(places, counts, strict=True)
            ),
        )


def pairs(code: Code, low: Vec, high: Vec) -> Vec:
    """The pairs (low, high) of each lane, rounded to bfloat16, as int32."""
    return Vec(code.b, code.b.bitcast(paired(code.b, low.value, high.value), WORDS))


def rounded(code: Code, low: Vec, high: Vec) -> Vec:
    """32 numbers of float32, rounded to bfloat16."""
    return Vec(code.b, narrowed(code.b, low.value, high.value))


def store_whole(code: Code, value: Vec, at: Whole, past: bool = False) -> None:
    """Write 64 bytes at an address that is a multiple of 64; `past`: past the caches."""
    written = code.b.store(
        value.value, code.b.inttoptr(at.value, value.value.type.as_pointer()), align=LINE
    )
    if past:
        written.set_metadata("nontemporal", code.b.module.add_metadata([I32(1)]))


def store_numbers(code: Code, value: Vec, at: Whole, count: Whole) -> None:
    """Write the first `count` of 32 bfloat16 numbers."""
    kind = value.value.type
    mask = Vectors(code.b, BOTH).mask(count.value)
    pointer = code.b.inttoptr(at.value, kind.as_pointer())
    name = f"llvm.masked.store.v{BOTH}i16.p0"
    store = declared(code.b, name, VOID, [kind, pointer.type, I32, mask.type])
    code.b.call(store, [value.value, pointer, I32(2), mask])


def load_numbers(code: Code, at: Whole, count: Whole) -> Vec:
    """The first `count` of 16 bfloat16 numbers at any address; zeros after them."""
    return _load(code, at, LANES, count)


def store_anywhere(code: Code, value: Vec, at: Whole) -> None:
    """Write a whole vector at an address that is a multiple of 2."""
    code.b.store(value.value, code.b.inttoptr(at.value, value.value.type.as_pointer()), align=2)


def store_zeros(code: Code, at: Whole) -> None:
    """Write 64 bytes of zeros at an address that is a multiple of 64."""
    store_whole(code, Vec(code.b, ir.Constant(WORDS, [0] * LANES)), at)


def _load(code: Code, at: Whole, lanes: int, count: Whole | None) -> Vec:
    """16-bit numbers; zeros from `count` on, which are not read."""
    b = code.b
    kind = ir.VectorType(I16, lanes)
    pointer = b.inttoptr(at.value, kind.as_pointer())
    if count is None:
        return Vec(b, b.load(pointer, align=2))
    mask: Mask = Vectors(b, lanes).mask(count.value)
    load = declared(
        b, f"llvm.masked.load.v{lanes}i16.p0", kind, [pointer.type, I32, mask.type, kind]
    )
    zeros: Any = ir.Constant(kind, [0] * lanes)
    return Vec(b, b.call(load, [pointer, I32(2), mask, zeros]))
