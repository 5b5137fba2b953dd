"""The base of every family of a device's operations: kernels, products, scratch memory, the layout
of images.

A family is a class that overrides some methods of the interface. It handles the arrays that its
kernels can read. `super()` handles all others, and reports wrong arguments that the family has not
checked.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ops.cuda.image_layout import arithmetic, new_images, step_of, width
from ops.cuda.launch import NOTHING, Launcher, divisor
from ops.cuda.repeats import Repeats
from ops.cuda.scratch import Scratch
from ops.errors import BFLOAT16, Array, Shape
from ops.interface.widened import Widened

# threads that read the numbers of a sum over columns: from about 100 000 on they keep an H100's
# memory busy
SUMMING = 1 << 17
LEAST_ROWS = 16  # least rows of a strip
# (a, b, out, accumulate): out = a b, or out + a b
Product = Callable[[Array, Array, Array, bool], None]


class OnDevice(Widened):
    """A backend with kernels. In a product each factor has contiguous rows or columns, and `out`
    has contiguous rows. Both factors have one dtype. `out` has it too, or is float32 if the factors
    are bfloat16."""

    launch: Launcher
    product: Product
    conv_product: Product  # the products of convolutions, whose factors may be rounded more
    scratch: Scratch
    repeats: Repeats | None = None
    precision: str
    # whether its convolutions are tried, and how one is chosen: "off", "fastest" or "deterministic"
    cudnn: str

    @property
    def stream(self) -> int:
        """CUDA's handle of the stream that kernels run on; 0 is the default stream."""
        return 0

    @property
    def card(self) -> Mapping[str, str] | None:
        """The card, and the versions of the driver and of the libraries that products take. None
        without a card."""
        return None

    def trim(self) -> None:
        """Free the memory of arrays that no longer exist."""

    def images_like(self, shape: Shape, out: Array | None, dtype: Any) -> Array:
        """`out`, or new images."""
        return new_images(self.xp, tuple(shape), dtype) if out is None else out

    def read(self, x: Array) -> Array:
        """x, or a copy whose pixels lie as kernels read them."""
        if step_of(x) is not None:
            return x
        copy = new_images(self.xp, x.shape, x.dtype)
        copy[...] = x
        return copy

    def apart(self, x: Array, out: Array) -> Array:
        """x as `read` returns it. It is copied first if writing `out` would change numbers that are
        still to be read."""
        return self.read(self.xp.copy(x) if self.share_memory(x, out) else x)

    def into(self, out: Array) -> Array:
        """`out` if kernels can write its pixels, else a new array, which `delivered` then
        copies."""
        return out if step_of(out) is not None else new_images(self.xp, out.shape, out.dtype)

    def delivered(self, written: Array, out: Array) -> Array:
        """Copy `written` to `out` if the two differ; returns `out`."""
        if written is not out:
            out[...] = written
        return out

    def column_sums(self, x: Array, out: Array | None) -> Array:
        """x, which has a `step_of` -> (C,), summed over all pixels or rows."""
        c = width(x)
        real = arithmetic(x)
        total: Array = self.xp.empty((c,), real) if out is None else out
        into = total if total.flags.c_contiguous else self.xp.empty((c,), real)
        m = math.prod(x.shape) // c
        strips = strips_of(m, c)
        sums, tickets, group = self.summing(1, strips, c, real)
        arrays = x, step_of(x), sums, tickets, into
        self.launch(
            "column_sums", strips * c, real, *arrays, strips * c, divisor(c), m, strips, group
        )
        return self.delivered(into, total)

    def summing(self, halves: int, strips: int, c: int, dtype: Any) -> tuple[Array, Array, int]:
        """Scratch memory for sums of columns (`kernels.sums`): partial sums (halves, strips, C),
        tickets, and the number of strips in a group."""
        group = math.isqrt(strips - 1) + 1
        groups = -(-strips // group)
        sums = self.scratch.take("sums", (halves, strips, c), dtype)
        return sums, self.scratch.tickets((groups + 1) * c), group

    def shifted(self, y: Array, b: Array | None, rectify: bool) -> None:
        """y += b (C,), then max(y, 0) if wanted, over rows or pixels that have a `step_of`."""
        if b is not None or rectify:
            self.launch(
                "shift",
                y.size,
                arithmetic(y),
                y,
                step_of(y),
                self.given(b),
                y.size,
                divisor(width(y)),
                int(rectify),
            )

    def turn(self, source: Array, into: Array, rows: int, columns: int) -> None:
        """(N, rows, columns) -> (N, columns, rows), as both lie in memory. `into` may be stored in
        bfloat16."""
        sizes = divisor(rows), divisor(columns)
        self.launch("turn", into.size, arithmetic(into), source, into, into.size, *sizes)

    def stored_copy(self, x: Array, into: Array) -> None:
        """Copy x, which has a `step_of`, to an array of its shape that has one. Either may be
        stored in bfloat16."""
        arrays = x, step_of(x), into, step_of(into)
        self.launch("copy", x.size, arithmetic(x), *arrays, x.size, divisor(width(x)))

    def widened(self, x: Array) -> Array:
        if step_of(x) is None or not x.size:
            found: Array = x.astype(np.float32)
            return found
        wide = self._like_rows(x, np.float32)
        self.stored_copy(x, wide)
        return wide

    def narrowed(self, x: Array, into: Array) -> None:
        if step_of(into) is None or not x.size:
            into[...] = x.astype(BFLOAT16)
            return
        rows = x
        if step_of(x) is None:
            rows = self._like_rows(x, x.dtype)
            rows[...] = x
        self.stored_copy(rows, into)

    def _like_rows(self, x: Array, dtype: Any) -> Array:
        """A new array of x's shape that has a `step_of`, contents undefined."""
        if x.ndim == 4:
            return new_images(self.xp, x.shape, dtype)
        found: Array = self.xp.empty(x.shape, dtype)
        return found

    def given(self, x: Array | None) -> Any:
        """x in C order, or a null pointer."""
        return NOTHING if x is None else self.contiguous(x)

    def share_memory(self, a: Array, b: Array) -> bool:
        """Whether a number of one array may also be one of the other's."""
        return bool(self.xp.may_share_memory(a, b))

    def contiguous(self, x: Array) -> Array:
        """x in C order."""
        return x if x.flags.c_contiguous else self.xp.ascontiguousarray(x)


def strips_of(m: int, c: int) -> int:
    """The number of strips into which m rows of c numbers are cut for a sum."""
    return max(1, min(SUMMING // c, m // LEAST_ROWS))
