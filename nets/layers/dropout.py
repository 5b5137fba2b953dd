"""Dropout of values (Caffe's `Dropout`) and of whole rows (`StochasticDepth`). The seed, the step
and the row decide which values are kept, so every worker keeps the same ones."""

from collections.abc import Callable, Sequence
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from nets.definition.params import generator
from nets.layers.base import Blobs, Gradients, Layer, Need, Run, Setup, Shape, Values, register
from ops import Array
from ops.reference import philox


@register("Dropout")
class Dropout(Layer):
    """In training each value is kept with probability 1 - dropout_ratio and divided by that
    probability. In test all values are unchanged.

    The choice depends only on (seed, step, layer, row of the whole batch, place in the row). It is
    the same on every worker and every device. Forward draws it, and backward draws it again: no
    mask is kept.
    """

    in_place_ok = True
    top_is_free = False
    passes_gradient = True
    planned = True
    reads_bottoms = False
    reads_tops = False
    gradient_in_place_ok = True
    stream: ClassVar[str] = "dropout"  # names its random numbers
    may_keep_all: ClassVar[bool] = False  # a ratio of 0 is allowed

    def holds_bfloat16(self, bottom: int | None = None) -> bool:
        return self.takes_bfloat16 or "dropout" in self.ops.more_bfloat16

    def needs(self, bottoms: Sequence[Shape], tops: Sequence[Shape], training: bool) -> list[Need]:
        # as a view, it only passes bottoms and gradients on
        return [] if self.views else super().needs(bottoms, tops, training)

    def _shape(self, shapes: list[Shape], setup: Setup) -> list[Shape]:
        self.ratio = float(self.proto.dropout_param.dropout_ratio)
        if not 0.0 <= self.ratio < 1.0 or (self.ratio == 0 and not self.may_keep_all):
            least = "0 <=" if self.may_keep_all else "0 <"
            raise self.error(
                "dropout_param.dropout_ratio",
                (f"found {self.ratio:g}, expected {least} ratio < 1"),
            )
        self.shape = shapes[0]
        self.views = setup.phase != "TRAIN"
        return [shapes[0]]

    def forward(self, bottoms: list[Array], blobs: Blobs, run: Run) -> list[Array]:
        x = bottoms[0]
        if run.phase != "TRAIN":
            return [x]
        return [self._drop(x, x if self.in_place else self.buffer("top", x.shape), run)]

    def backward(
        self,
        grads: list[Array | None],
        values: Values,
        run: Run,
        wanted: list[bool],
        out: Blobs | None,
    ) -> Gradients:
        dy = grads[0]
        if not wanted[0] or dy is None or run.phase != "TRAIN":
            return [dy if wanted[0] else None], ()
        return [
            self._drop(dy, dy if self.over_gradient else self.buffer("bottom", dy.shape), run)
        ], ()

    def _drop(self, x: Array, out: Array, run: Run) -> Array:
        """Drop values of x. Each range of rows uses the numbers of its rows in the whole batch."""
        if self.numbers is not None:
            for (part, _), numbers in zip(run.parts(x.shape), self.numbers, strict=True):
                self.ops.dropout_by(x[part], self.ratio, numbers, out=out[part])
            return out
        key = self._key(run)
        for part, first in run.parts(x.shape):
            self._operation(x[part], self.ratio, key, first, out=out[part])
        return out

    def _key(self, run: Run) -> int:
        """The key of this layer's random numbers in this pass, 64 bits."""
        drawn = generator(run.seed, self.stream, run.step, self.name)
        return int(drawn.integers(2**64, dtype=np.uint64))

    def step_numbers(self, run: Run) -> NDArray[np.int32] | None:
        """The first row and the key of each range of rows, (ranges, 3)."""
        if run.phase != "TRAIN":
            return None
        key = self._key(run)
        return np.stack([philox.numbers(key, first) for _, first in run.parts(self.shape)])

    @property
    def _operation(self) -> Callable[..., Array]:
        return self.ops.dropout


@register("StochasticDepth")
class StochasticDepth(Dropout):
    """In training each row is kept whole with probability 1 - dropout_ratio and divided by that
    probability, else it is 0: the row skips a branch that is added to a shortcut (Huang et al.
    2016). In test all rows are unchanged.

    The choice depends only on (seed, step, layer, row of the whole batch).
    """

    of_caffe = False
    stream = "stochastic depth"
    may_keep_all = True
    takes_bfloat16 = True

    def step_numbers(self, run: Run) -> None:
        """No backend drops rows by numbers in its memory, so such a pass is not replayed."""

    @property
    def _operation(self) -> Callable[..., Array]:
        return self.ops.drop_rows
