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

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nets import Net, Stage
from roles.learning.parameter_store import ParameterStore
from roles.learning.recordings import Recorded, Recordings, same
from roles.learning.scoreboard import Scores
from roles.learning.step_numbers import StepNumbers
from roles.messages import Blobs


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
        self.recordings = Recordings[Recorded](net, graph=graph)

    def __repr__(self) -> str:
        return f"<replayed step, {self.recordings!r}>"

    @property
    def calls(self) -> int:
        """The calls that start the longest recorded step, 1 for a graph; 0 if none is recorded."""
        found = self.recordings.by_size.values()
        return max((len(part.calls) for one in found for part in one.parts), default=0)

    def __call__(self) -> Callable[[], Scores]:
        """Compute the pass that has begun, and update. Returns a function that waits for the
        scores; it may be called after the next step."""
        recorded = self.recordings.of_pass(self._store.overwritten())
        if self.recordings.refused or len({*self._store.versions.values()}) > 1:
            self._plain()
        elif recorded is not None and recorded.tried:
            return self._replay(recorded)
        elif recorded is not None:
            self._try(recorded)
        elif self.recordings.due():
            self._record()
        else:
            self._plain()
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

    def _record(self) -> None:
        numbers = StepNumbers(self._net.ops, self._numbers())
        *of_net, self._store.given = numbers.arrays
        self._net.read_numbers(of_net)
        try:
            recording = self._net.ops.record(self._pieces())
        finally:
            self._net.read_numbers(None)
            self._store.given = None
        if recording.gap:
            self.recordings.refuse(f"{recording.gap} does work that cannot be recorded")
            return
        self.recordings.keep(
            Recorded(
                numbers,
                self._net.memory,
                self._store.overwritten(),
                [self.recordings.one_call(recording)],
                self._net.results(),
            )
        )

    def _replay(self, recorded: Recorded) -> Callable[[], Scores]:
        recorded.numbers.fill(self._numbers())
        for part in recorded.parts:
            part.replay()
        self._net.take(recorded.left)
        self._store.count_all()
        return recorded.left.scores()

    def _try(self, recorded: Recorded) -> None:
        """Compute the pass plainly and by a replay, and compare what both leave."""
        version = max(self._store.versions.values())
        before = self._store.state()
        self._plain()
        expected = self._store.state()
        scores = self._net.scalars_later()()
        self._store.restore(before, version)
        replayed = self._replay(recorded)()
        found = self._store.state()
        exact = self._net.ops.repeatable
        wrong = [
            name
            for name, right in expected.items()
            if not same(found[name], right, before[name], exact)
        ]
        wrong += [
            name
            for name, right in scores.items()
            if exact and not np.array_equal(replayed[name], right, equal_nan=True)
        ]
        if not wrong:
            self.recordings.trust(recorded)
            return
        self.recordings.distrust(f"another '{wrong[0]}' than a plain step")
        self._store.restore(before, version)
        self._net.again()
        self._plain()
