"""A net that computes its rows in several passes, one after the other, and adds up their gradients:
Caffe's iter_size.

It holds the activations of one pass, and the gradients of the passes before it. Gradients are those
of the mean over the whole batch, as Caffe's are after its division by iter_size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import accumulate, pairwise

from nets import Net, ParamSpec, Stage
from ops import Array
from roles.learning.tree import split
from roles.messages import Blobs

Span = tuple[int, int]  # rows [low, high) of the whole batch
# the rows of one of these spans, an array for each input
Read = Callable[[Sequence[Span], int], Sequence[Array]]


def spans_of(rows: Span, passes: int) -> list[Span]:
    """`passes` spans over these rows, or one for each row if there are fewer rows. Their sizes
    differ by at most one."""
    low, high = rows
    return list(pairwise(accumulate(split(high - low, min(passes, high - low)), initial=low)))


def after_passes(
    params: Mapping[str, tuple[ParamSpec, ...]], passes: int
) -> dict[str, tuple[ParamSpec, ...]]:
    """The parameters as one update after `passes` passes treats them: every pass decays a running
    statistic."""
    return {
        layer: tuple(
            param if param.keep is None else replace(param, keep=param.keep**passes)
            for param in specs
        )
        for layer, specs in params.items()
    }


class AccumulatedNet(Net):
    """A net for training, used like a Net of the whole batch.

    There are two differences: `begin_with` reads rows pass by pass, and the work of `further` is
    done between `forward` and `backward`. `forward` belongs to the first pass. `backward` belongs
    to the last pass and returns the sums.
    """

    passes = 1

    def begin(self, step: int, rows: Span | None = None, *more: Span) -> None:
        """Start a single pass, as a Net does."""
        super().begin(step, rows, *more)
        self._spans: list[Span] = [rows or (0, self.batch)]
        self._present = 0

    def begin_with(self, step: int, rows: Span, read: Read) -> None:
        """Start the passes over these rows. `read` returns the rows of one pass when the pass
        starts."""
        self._step = step
        self._read = read
        self._sums: dict[str, Blobs] = {}  # gradients of the passes before the present one
        self._scores: dict[str, float] = {}  # the contribution of these passes to the means
        self._spans = spans_of(rows, self.passes)
        self._start(0)

    def further(self) -> Iterator[list[Callable[[], None]]]:
        """The work between the first pass forward and the last pass backward: one list for each
        pass, with pieces for each stage."""
        for number in range(1, len(self._spans)):
            back = [partial(self._keep, stage) for stage in reversed(self.stages)]
            yield [
                *back,
                partial(self._go_on, number),
                *(partial(self.forward, stage) for stage in self.stages),
            ]

    def backward(self, stage: Stage, out: Sequence[Array] | None = None) -> Blobs:
        """The sum of the stage's gradients over all passes."""
        found = super().backward(stage, out)
        return self._added(stage, found, found)

    def scalars(self) -> dict[str, float]:
        """Means over the rows of all passes so far."""
        if len(self._spans) == 1:
            return super().scalars()
        rows, (low, high) = self._spans[-1][1] - self._spans[0][0], self._spans[self._present]
        share = (high - low) / rows
        return {
            name: self._scores.get(name, 0.0) + value * share
            for name, value in super().scalars().items()
        }

    def _start(self, number: int) -> None:
        spans = self._spans
        super().begin(self._step, spans[number])
        self._spans = spans
        self._present = number
        for name, array in zip(self.inputs, self._read(spans, number), strict=True):
            self.feed_rows(name, array)

    def _go_on(self, number: int) -> None:
        """Start the next pass, with the same parameters."""
        self._scores = self.scalars()
        blobs = self._blobs
        self._start(number)
        self._blobs = blobs

    def _keep(self, stage: Stage) -> None:
        """Run a stage backward and add its gradients to the sums."""
        found = super().backward(stage)
        if stage.layer is not None:
            self._sums[stage.layer] = self._added(stage, found, self._sums.get(stage.layer, found))

    def _added(self, stage: Stage, found: Blobs, out: Sequence[Array]) -> Blobs:
        """The gradients of this pass and those before it, written to `out`."""
        if stage.layer is None or len(self._spans) == 1:
            return tuple(found)
        sums = self._sums.get(stage.layer, (None,) * len(found))
        specs = self.params[stage.layer]
        return tuple(self._sum(*of) for of in zip(specs, found, sums, out, strict=True))

    def _sum(self, param: ParamSpec, gradient: Array, before: Array | None, out: Array) -> Array:
        """Add a gradient to the sum of the passes before.

        A running statistic decays: later passes keep a part of the earlier contributions, as in
        Caffe.
        """
        if param.keep is not None:
            gradient *= len(self._spans)  # a statistic counts rows of its pass, not of the batch
            if before is not None:
                before *= param.keep
        return out if before is None else self.ops.add(before, gradient, out=out)
