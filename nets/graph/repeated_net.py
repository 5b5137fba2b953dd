"""A net whose passes can be recorded, and replayed in place of the calls between `feed` and
`scalars`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import Any, NamedTuple

from numpy.typing import NDArray

from nets.graph.fed_net import FedNet
from nets.graph.scores import Scores, scores_reader
from nets.layers import Layer
from ops import Array


class PassResults(NamedTuple):
    """The arrays of a pass, by the index of their value. Replays of the pass overwrite them, and
    `scores` then begins to read the new scores, as `scores_reader` describes."""

    arrays: Mapping[int, Array] = MappingProxyType({})
    scores: Callable[[], Callable[[], Scores]] = lambda: dict


class RepeatedNet(FedNet):
    """The numbers, inputs and arrays of a pass, as far as a replay of it needs them."""

    @property
    def size_of_pass(self) -> tuple[int, int]:
        """The rows of the present pass and of the whole batch. Passes of one size do the same work,
        apart from `step_numbers`."""
        return self._run.rows, self.batch

    @property
    def memory(self) -> Array | None:
        """The block with the arrays of the present pass. None if each array has memory of its
        own."""
        return self._placed

    @property
    def loaded(self) -> list[Array]:
        """The parameters that the present pass has been given."""
        return [blob for of in self._blobs.values() for blob in of]

    def step_numbers(self) -> list[NDArray[Any]]:
        """Return the numbers of the present pass, of each layer that has some."""
        found = (layer.step_numbers(layer.seen(self._run)) for layer in self._numbered)
        return [numbers for numbers in found if numbers is not None]

    def read_numbers(self, arrays: Sequence[Array] | None) -> None:
        """Let the layers read the numbers of `step_numbers` from these arrays on the device in
        passes from now on. With None they compute them."""
        waiting = None if arrays is None else iter(arrays)
        for layer in self._numbered:
            wanted = waiting and layer.step_numbers(layer.seen(self._run)) is not None
            layer.numbers = next(waiting) if waiting and wanted else None

    @cached_property
    def _numbered(self) -> list[Layer]:
        """The layers that may have numbers of a pass: none of the 228 of ResNet-50."""
        plain = Layer.step_numbers
        return [node.layer for node in self.nodes if type(node.layer).step_numbers is not plain]

    def again(self) -> None:
        """Begin the present pass once more, with the same inputs."""
        given = {at: self._arrays[at] for at in self._inputs.values()}
        self.begin(self._run.step, *self._run.ranges)
        self._arrays = given

    def results(self) -> PassResults:
        """Return the results of the pass, for `take`."""
        values = self.wiring.values
        arrays = dict(self._arrays)
        return PassResults(arrays, scores_reader(self.nodes, values, arrays, self.ops))

    def take(self, results: PassResults) -> None:
        """Note that the present pass has these results."""
        self._arrays = dict(results.arrays)

    def scalars(self) -> dict[str, float]:
        """Return every loss and accuracy that was computed in this pass, and their weighted total
        under "loss".

        Every top with a loss weight counts, by the sum of its numbers, as in Caffe.
        """
        return self.scalars_later()()

    def scalars_later(self) -> Callable[[], dict[str, float]]:
        """Return a function that waits for `scalars()` of this pass. It may be called in a later
        pass."""
        return self.results().scores()

    def label_counts(self) -> tuple[int, ...]:
        """Return the counts of the last layer that counts labels in a test (its `label_counts`)."""
        return next(filter(None, (node.layer.label_counts() for node in reversed(self.nodes))), ())
