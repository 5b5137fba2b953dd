"""One worker that holds the whole net and its parameters: the reference for every distributed
preset."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

from roles.base.loads import Load, Loads, first_passes, layers_in
from roles.base.role import Anew, Held, JobOptions
from roles.base.shapes import Shapes
from roles.base.sizes import gradients, model, passes
from roles.base.steps import Key, Step, Steps, Turn, Work
from roles.learning.accumulated import AccumulatedNet
from roles.learning.buffers import gradient_buffers
from roles.learning.confusion import counts_of
from roles.learning.micro_batches import WorkerNet
from roles.learning.model_holder import ModelHolder
from roles.learning.parameter_store import ParameterStore
from roles.learning.recordings import GRAPH, kept_plain, replays
from roles.learning.replayed_step import ReplayedStep
from roles.learning.resume import restored
from roles.learning.scoreboard import Scores
from roles.messages import TRAIN, Blobs, PassDone, Ticket
from roles.workers.passes import PassWorker, further_passes


@dataclass(frozen=True, kw_only=True)
class WholeOptions(JobOptions):
    """The options of a worker that holds the whole net: the job and the coordinator's name."""

    anew: ClassVar[Anew] = Anew.FROM_STATE
    # the state that recurrent layers hand from one pass to the next, if the net has some
    keeps_beside: ClassVar[bool] = True
    computes: ClassVar[bool] = True
    coordinator: str

    def steps(self, name: str, shapes: Shapes, turn: Turn) -> Steps:
        """All work in one piece. With several passes, there is one piece more than passes."""
        above: Key = (name, "end")
        pieces = 1 if self.job.passes == 1 else self.job.passes + 1
        rows = self.job.rows(TRAIN)
        yield Step((name, "begin"), since=(above,))
        above = (name, "begin")
        for number in range(pieces):
            yield Step(
                (name, "train", str(number)), Work("train", -(-rows // self.job.passes)), (above,)
            )
            above = (name, "train", str(number))
        yield Step((name, "end"), None, (above,))

    def holds(self, name: str, shapes: Shapes) -> Held:
        """Passes, gradients, parameters and histories."""
        layers = shapes.layers(self.job, "all")
        held = passes(self.job, "all", shapes, name) | {
            "gradients": gradients(self.job, layers, shapes)
        }
        return held | model(self.job, layers, shapes)

    def kept_plain(self) -> str:
        """The recorded step includes the update."""
        solver = self.job.solver_spec
        if solver.clips:
            return "clip_gradients needs a norm on the host before the update"
        if solver.average:
            return "[train.ema] averages the parameters after the update"
        return kept_plain(self.job)

    def loads(self, name: str, shapes: Shapes) -> Loads:
        """All work in one piece."""
        net = shapes.net(self.job, "all")
        layers = layers_in(net)
        passes = self.job.passes
        rows = -(-shapes.rows(name) // passes)
        yield from first_passes("train", rows, layers, passes, "train")
        yield Load("train", rows, layers if passes == 1 else (), layers, updated=tuple(net.params))


class Single(ModelHolder, PassWorker):
    """A worker that holds the whole net and its parameters, and makes every update itself."""

    Options = WholeOptions
    _step: ReplayedStep | None
    # the last replayed step, and the function that waits for its scores
    _late: tuple[Ticket, Callable[[], Scores]] | None = None

    def __init__(self, options: WholeOptions) -> None:
        self._job = options.job
        self._coordinator = options.coordinator

    def _build(self) -> None:
        job = self._job
        self._open("all")
        net = self._nets[TRAIN]
        params = job.learned(net.params)
        store = ParameterStore(
            params, net.initial_blobs(), job.solver_spec, job.backend_ops, in_place=True
        )
        self._gradients = gradient_buffers(net)
        self._store = restored(store, job)
        self._step = (
            ReplayedStep(net, self._store, self._gradients, graph=job.gpu_step == GRAPH)
            if replays(net, job)
            else None
        )

    async def run(self) -> None:
        """Do pass after pass. Scores of replayed steps are complete at the end of each run of
        passes."""
        await self._passes.run(self._pass, after=self._last_scores)

    async def _pass(self, ticket: Ticket) -> None:
        if ticket.phase == TRAIN and self._step is not None:
            with self.phase("train"):
                late = await self.compute("train", self._replayed, ticket)
            if late is not None:
                self._report(*late)
        else:
            await self._last_scores(ticket)
            self._report(ticket, await self._computed(ticket))
        if ticket.phase == TRAIN:
            self._images.inc(ticket.rows)
            self._iterations.inc()

    def _report(self, ticket: Ticket, scores: Scores) -> None:
        done = PassDone(
            members=1,
            phase=ticket.phase,
            number=ticket.number,
            rows=ticket.rows,
            scores=scores,
            counts=counts_of(self._nets[ticket.phase]),
        )
        self._passes.report(done)

    def _replayed(self, ticket: Ticket) -> tuple[Ticket, Scores] | None:
        """Start a step. Then wait for the scores of the step before, so that the device has work
        meanwhile."""
        assert self._step is not None
        started = ticket, self._started(self._step, ticket)
        late = self._scores_of_last()
        self._late = started
        return late

    def _started(self, step: ReplayedStep, ticket: Ticket) -> Callable[[], Scores]:
        """Start a step. Returns a function that waits for its scores."""
        self._passes.read(self._nets[TRAIN], ticket)
        return step()

    def _scores_of_last(self) -> tuple[Ticket, Scores] | None:
        """The scores of the last step if they were not reported, and its ticket."""
        late, self._late = self._late, None
        return None if late is None else (late[0], late[1]())

    async def _last_scores(self, ticket: Ticket) -> None:
        """Report the scores of the last step, which no step follows in this run of passes."""
        if self._late is not None:
            with self.phase("train"):
                late = await self.compute("train", self._scores_of_last)
            if late is not None:
                self._report(*late)

    async def _computed(self, ticket: Ticket) -> dict[str, float]:
        """Compute a pass, with its update in training. Return its scores."""
        net = self._nets[ticket.phase]
        label = ticket.phase.lower()
        with self.phase(label):
            if isinstance(net, AccumulatedNet):
                await self.compute(label, self._forward, ticket)
                await further_passes(self, net, label)
                return await self.compute(label, self._learn, net)
            return await self.compute(label, self._compute, ticket)

    def _compute(self, ticket: Ticket) -> dict[str, float]:
        if ticket.phase == TRAIN and self._step is not None:
            return self._started(self._step, ticket)()
        self._forward(ticket)
        net = self._nets[ticket.phase]
        return self._learn(net) if ticket.phase == TRAIN else net.scalars()

    def _forward(self, ticket: Ticket) -> None:
        net = self._nets[ticket.phase]
        self._passes.read(net, ticket)
        for stage in net.stages:
            if stage.layer is not None:
                net.load(stage.layer, self._store.read(stage.layer, ticket.phase))
            net.forward(stage)

    def _learn(self, net: WorkerNet) -> dict[str, float]:
        train(net, self._store, self._gradients)
        return net.scalars()


def train(net: WorkerNet, store: ParameterStore, gradients: Mapping[str, Blobs]) -> None:
    """After a forward pass: run the whole net backward, then update every parameter."""
    for stage in reversed(net.stages):
        net.backward(stage, gradients[stage.layer] if stage.layer is not None else None)
    update(store, gradients)


def update(store: ParameterStore, gradients: Mapping[str, Blobs], factor: float = 1.0) -> None:
    """Update every parameter by `factor` times its gradient, which may be written over."""
    if factor != 1.0:
        for gradient in itertools.chain.from_iterable(gradients.values()):
            gradient *= factor
    store.apply_all(gradients)
