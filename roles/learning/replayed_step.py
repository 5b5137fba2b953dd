"""A training step on a device that is recorded once for each size of batch, and then replayed.

A step is one pass forward and backward and the update of all parameters. Its first passes are
computed plainly: they compile kernels, choose algorithms and take memory. Then one pass is
recorded. The recording is tried on the pass after that, whose images and numbers are other ones: it
must leave the bits of the plain pass. Only then do replays take the place of plain passes. This
finds all work that is not recorded, such as an added layer's own arithmetic.

The calls of a recording can be made one graph, which one call launches. The graph is tried like
the calls. If the driver makes no graph of them, the calls are replayed one by one.

Memory that has moved makes the step be recorded anew. A step that cannot be replayed is computed
plainly, and the log gives the reason once.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nets import Net, Stage
from ops import Array, OpsError, Recording
from roles.learning.parameter_store import ParameterStore
from roles.learning.scoreboard import Scores
from roles.learning.step_numbers import StepNumbers
from roles.messages import Blobs

PLAIN = "plain"
REPLAY = "replay"
GRAPH = "graph"
FIRST = 2  # plain passes of each size before one is recorded
MOST = 4  # sizes of batches that are recorded at a time
# The greatest difference, as a part of the greatest change, where cuDNN's sums differ from run to
# run. Elsewhere the bits must agree.
TOLERANCE = 1e-2
_log = logging.getLogger("roles")


@dataclass(eq=False)
class Recorded:
    """The recorded step of one size of batch. It holds while its memory stays where it was: the
    block of the net's arrays, and the parameters with their histories."""

    recording: Recording
    numbers: StepNumbers
    left: Mapping[int, Array]
    block: Array | None
    state: list[Array]
    tried: bool = False

    def moved(self, net: Net, store: ParameterStore) -> bool:
        """Whether memory that outlives the step has moved."""
        if self.recording.moved or net.memory is not self.block:
            return True
        return any(a is not b for a, b in zip(self.state, _overwritten(store), strict=True))


class ReplayedStep:
    """The training steps of a net and its parameters. `gradients` are the arrays of their
    gradients. With `graph`, recorded steps become graphs if the driver can make them."""

    def __init__(
        self,
        net: Net,
        store: ParameterStore,
        gradients: Mapping[str, Blobs],
        *,
        graph: bool = False,
    ) -> None:
        self._net = net
        self._store = store
        self._gradients = gradients
        self.graph = graph
        self._recorded: dict[tuple[int, int], Recorded] = {}
        self._passes: Counter[tuple[int, int]] = Counter()  # plain ones, by size
        self.refused = ""  # the reason why no step is replayed
        net.hold_inputs()

    def __repr__(self) -> str:
        return f"<replayed step of {len(self._recorded)} sizes {self.refused}>"

    @property
    def calls(self) -> int:
        """The calls that start the longest recorded step, 1 for a graph; 0 if none is recorded."""
        return max((len(one.recording.calls) for one in self._recorded.values()), default=0)

    def __call__(self) -> Callable[[], Scores]:
        """Compute the pass that has begun, and update. Returns a function that waits for the
        scores; it may be called after the next step."""
        size = self._net.size_of_pass
        recorded = self._recorded.get(size)
        if recorded is not None and recorded.moved(self._net, self._store):
            self._drop(size)
            self._passes[size] = 0
            recorded = None
        if self.refused or len({*self._store.versions.values()}) > 1:
            self._plain()
        elif recorded is not None and recorded.tried:
            self._replay(recorded)
        elif recorded is not None:
            self._try(recorded, size)
        elif self._passes[size] < FIRST:
            self._passes[size] += 1
            self._plain()
        else:
            self._record(size)
        return self._net.scalars_later()

    def _plain(self) -> None:
        for _, work in self._pieces():
            work()

    def _pieces(self) -> Iterator[tuple[str, Callable[[], object]]]:
        """The pieces of a step, with their names in messages."""
        for stage in self._net.stages:
            yield f"forward of {', '.join(stage.layers)}", partial(self._forward, stage)
        for stage in reversed(self._net.stages):
            yield f"backward of {', '.join(stage.layers)}", partial(self._backward, stage)
        update = partial(self._store.apply_all, self._gradients)
        yield "the update of the parameters", update

    def _forward(self, stage: Stage) -> None:
        if stage.layer is not None:
            self._net.load(stage.layer, self._store.read(stage.layer))
        self._net.forward(stage)

    def _backward(self, stage: Stage) -> None:
        self._net.backward(stage, self._gradients.get(stage.layer or ""))

    def _numbers(self) -> list[NDArray[Any]]:
        return [*self._net.step_numbers(), self._store.step_numbers()]

    def _record(self, size: tuple[int, int]) -> None:
        numbers = StepNumbers(self._net.ops, self._numbers())
        *of_net, self._store.given = numbers.arrays
        self._net.read_numbers(of_net)
        try:
            recording = self._net.ops.record(self._pieces())
        finally:
            self._net.read_numbers(None)
            self._store.given = None
        if recording.gap:
            self._refuse(f"{recording.gap} does work that cannot be recorded")
            return
        if len(self._recorded) == MOST:
            self._drop(next(iter(self._recorded)))
        recording = self._one_call(recording)
        self._recorded[size] = Recorded(
            recording, numbers, self._net.left(), self._net.memory, _overwritten(self._store)
        )

    def _one_call(self, recording: Recording) -> Recording:
        """The graph of these calls, if it is wanted and can be made."""
        if not self.graph:
            return recording
        try:
            return self._net.ops.graph(recording)
        except OpsError as error:
            self._refuse_graphs(str(error))
            return recording

    def _drop(self, size: tuple[int, int]) -> None:
        """Forget a recording. The device may not have finished its last replay."""
        self._net.ops.synchronize()
        del self._recorded[size]

    def _replay(self, recorded: Recorded) -> None:
        recorded.numbers.fill(self._numbers())
        recorded.recording.replay()
        self._net.take(recorded.left)
        for layer in self._store.layers:
            self._store.count(layer)

    def _try(self, recorded: Recorded, size: tuple[int, int]) -> None:
        """Compute the pass plainly and by a replay, and compare what both leave."""
        version = max(self._store.versions.values())
        before = self._store.state()
        self._plain()
        expected = self._store.state()
        scores = self._net.scalars_later()()
        self._store.restore(before, version)
        self._replay(recorded)
        found = self._store.state()
        exact = self._net.ops.repeatable
        replayed = self._net.scalars_later()()
        wrong = [
            name
            for name, right in expected.items()
            if not _same(found[name], right, before[name], exact)
        ]
        wrong += [
            name
            for name, right in scores.items()
            if exact and not np.array_equal(replayed[name], right, equal_nan=True)
        ]
        if not wrong:
            recorded.tried = True
            calls = len(recorded.recording.calls)
            _log.info("train.gpu_step: steps of %d rows are replayed, calls: %d", size[0], calls)
            return
        if self.graph:
            self._drop(size)
            self._refuse_graphs(f"a graph leaves another '{wrong[0]}' than a plain step")
        else:
            self._refuse(f"a replay leaves another '{wrong[0]}' than a plain step")
        self._store.restore(before, version)
        self._net.again()
        self._plain()

    def _refuse(self, why: str) -> None:
        self.refused = why
        for size in list(self._recorded):
            self._drop(size)
        _log.warning("train.gpu_step: steps are computed plainly, since %s", why)

    def _refuse_graphs(self, why: str) -> None:
        self.graph = False
        _log.warning("train.gpu_step: steps are replayed call by call, since %s", why)


def _overwritten(store: ParameterStore) -> list[Array]:
    """The arrays that an update overwrites: all parameters and histories."""
    return [array for layer in store.layers for array in store.in_place(layer, histories=True)]


def _same(found: Array, expected: Array, before: Array, exact: bool) -> bool:
    """Whether a replay has left the array of a plain step: the same bits, or nearly the same
    change."""
    if exact:
        return np.array_equal(found, expected, equal_nan=True)
    change = np.abs(expected - before).max(initial=0)
    return bool(np.abs(found - expected).max(initial=0) <= TOLERANCE * change)
