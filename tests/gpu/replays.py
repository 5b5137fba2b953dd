"""On the stand-in: the same training with plain steps, with replayed ones and with graphs, for
`tests.gpu.test_replay` and `tests.gpu.test_graph_steps`."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import ops
from nets import Net, SolverExtras, SolverSpec, Stage, load_net, load_solver
from nets.definition.rate_schedule import RateSchedule
from roles.learning.buffers import gradient_buffers
from roles.learning.parameter_store import ParameterStore
from roles.learning.replayed_pass import ReplayedPass
from roles.learning.replayed_step import ReplayedStep
from roles.messages import Blobs

SIDE = 10  # pixels of a side
CLASSES = 5
Losses = list[dict[str, float]]

NET = """
name: "small"
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 8 dim: 3 dim: 10 dim: 10 } } }
layer { name: "label" type: "Input" top: "label" input_param { shape { dim: 8 } } }
layer { name: "conv" type: "Convolution" bottom: "data" top: "conv"
  convolution_param { num_output: 6 kernel_size: 3 pad: 1 weight_filler { type: "xavier" } } }
layer { name: "norm" type: "BatchNorm" bottom: "conv" top: "norm" }
layer { name: "scale" type: "Scale" bottom: "norm" top: "scale" scale_param { bias_term: true } }
layer { name: "relu" type: "ReLU" bottom: "scale" top: "scale" }
layer { name: "pool" type: "Pooling" bottom: "scale" top: "pool" pooling_param { kernel_size: 2 stride: 2 } }
layer { name: "dropped" type: "Dropout" bottom: "pool" top: "dropped" dropout_param { dropout_ratio: 0.3 } }
layer { name: "hidden" type: "InnerProduct" bottom: "dropped" top: "hidden"
  inner_product_param { num_output: 16 weight_filler { type: "xavier" } } }
layer { name: "drop" type: "Dropout" bottom: "hidden" top: "hidden" }
layer { name: "scores" type: "InnerProduct" bottom: "hidden" top: "scores"
  inner_product_param { num_output: 5 weight_filler { type: "xavier" } } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "scores" bottom: "label" top: "loss" }
"""
SOLVER = """
train_net: "small.prototxt"
base_lr: 0.01
momentum: 0.9
weight_decay: 0.001
max_iter: 200
lr_policy: "inv"
gamma: 0.01
power: 0.75
stepvalue: 30
stepvalue: 60
"""


class StepInParts:
    """A step whose pass has three parts, as a replica's with two buckets. It is updated from the
    arrays that leave."""

    def __init__(
        self, net: Net, store: ParameterStore, gradients: dict[str, Blobs], *, graph: bool
    ) -> None:
        self._net = net
        self._store = store
        self._gradients = gradients
        self._passes = ReplayedPass(net, 3, graph=graph)
        self.recordings = self._passes.recordings

    @property
    def calls(self) -> int:
        """The calls of the longest part."""
        found = self.recordings.by_size.values()
        return max((len(part.calls) for one in found for part in one.parts), default=0)

    def __call__(self) -> Callable[[], dict[str, float]]:
        for layer in self._net.params:
            self._net.load(layer, self._store.read(layer))
        self._passes.begin()
        self._passes.forward(self._net.stages)
        *first, last = reversed(self._net.stages)
        self._store.apply_all(self._backward(first) | self._backward([last]))
        scores = self._passes.scalars()
        return lambda: scores

    def _backward(self, stages: Sequence[Stage]) -> dict[str, Blobs]:
        out = {at: self._gradients[at] for stage in stages if (at := stage.layer) is not None}
        left = iter(self._passes.backward(stages, out, lambda: [*itertools.chain(*out.values())]))
        return {layer: tuple(next(left) for _ in of) for layer, of in out.items()}


class Trained:
    """A net and its parameters, trained step by step. `how`: "plain", "replay" or "graph"; `kind`:
    the class of its steps."""

    def __init__(
        self,
        how: str,
        *,
        net: str = NET,
        solver: SolverSpec | None = None,
        cudnn: str = "off",
        kind: Callable[..., Any] = ReplayedStep,
    ) -> None:
        self.how = how
        self.ops: Any = ops.get_backend("cupy", cudnn=cudnn)
        self.net = self._net(net, "TRAIN", 8)
        self.test = self._net(net, "TEST", 32)
        self.test.share_memory(self.net)
        solver = solver or solver_of()
        self.store = ParameterStore(
            self.net.params, self.net.initial_blobs(), solver, self.ops, in_place=True
        )
        self.gradients = gradient_buffers(self.net)
        self.step = kind(self.net, self.store, self.gradients, graph=how == "graph")
        if how == "plain":
            self.step.recordings.refused = "the test compares with plain steps"

    def _net(self, text: str, phase: str, batch: int) -> Net:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "small.prototxt")
            file.write_text(text)
            spec = load_net(str(file))
        return Net(spec, phase, ops=self.ops, batch=batch, seed=1, memory="reused")

    def begin(self, net: Net, number: int, rows: int) -> None:
        """Feed `rows` random images, the same for a number in every process."""
        random = np.random.default_rng(number)
        net.batch = rows
        net.begin(number)
        images = random.standard_normal((rows, 3, SIDE, SIDE), np.float32)
        labels = random.integers(0, CLASSES, rows).astype(np.float32)
        for blob, host in zip(net.inputs, (images, labels), strict=True):
            net.feed(blob, self.ops.staged(host))

    def train(self, numbers: range, rows: int = 8) -> Losses:
        """Train; the scores are read one step late, as a worker does."""
        return list(self._scores(numbers, rows))

    def _scores(self, numbers: range, rows: int) -> Iterator[dict[str, float]]:
        late: Callable[[], dict[str, float]] | None = None
        for number in numbers:
            self.begin(self.net, number, rows)
            started = self.step()
            if late is not None:
                yield late()
            late = started
        assert late is not None
        yield late()

    def unread(self, numbers: range) -> Losses:
        """Train; the scores are read at the end, so nothing waits for a step before the next."""
        late = []
        for number in numbers:
            self.begin(self.net, number, 8)
            late.append(self.step())
        return [read() for read in late]

    def tested(self) -> dict[str, float]:
        """The scores of 32 images."""
        self.begin(self.test, 0, 32)
        for stage in self.test.stages:
            if stage.layer is not None:
                self.test.load(stage.layer, self.store.read(stage.layer, "TEST"))
            self.test.forward(stage)
        return self.test.scalars()

    @property
    def as_wanted(self) -> bool:
        """Whether steps of one size are replayed, in the way that was asked for."""
        return self.replays == 1 and (self.step.calls == 1) == (self.how == "graph")

    @property
    def replays(self) -> int:
        """How many sizes of batches are replayed now."""
        return sum(one.tried for one in self.step.recordings.by_size.values())


def solver_of(schedule: RateSchedule | None = None, **values: Any) -> SolverSpec:
    """The solver, with other fields of the file and a schedule that files lack."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "solver.prototxt")
        file.write_text(SOLVER)
        return load_solver(str(file), values, SolverExtras(schedule=schedule))


def compared(
    do: Callable[[Trained], Any], *, hows: tuple[str, ...] = ("replay", "graph"), **options: Any
) -> list[Trained]:
    """Do the same with plain steps and in other ways. Fails unless all leave the same bits."""
    plain = Trained("plain", **options)
    expected = do(plain)
    others = []
    for how in hows:
        one = Trained(how, **options)
        assert do(one) == expected, how
        found = one.store.state()
        for name, right in plain.store.state().items():
            np.testing.assert_array_equal(found[name], right, f"{how}: {name}")
        others.append(one)
    return others
