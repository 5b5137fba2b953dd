"""The conv worker: one member of a compute group. Its `run` is a training iteration, read from top to bottom.

ticket -> read rows -> per layer: pull the model, forward -> activations to the FC server, their gradients back
       -> per layer, last first: backward, the gradient leaves at once -> report
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any

from nets import Net, Stage
from nets.data import Prefetcher
from nets.warm import warm
from roles.buffers import layer_gradients
from roles.exposure import Exposure
from roles.job import Job
from roles.messages import (
    TRAIN,
    ActivationGrads,
    Activations,
    LayerGradient,
    LayerModel,
    PassDone,
    PullLayer,
    Ticket,
)
from roles.passes import Passes
from roles.wire_formats import PLAIN, Blobs, Formats, Wire, layers_of
from runtime import Actor


class ConvCompute(Actor):
    """Options: the job, its group, rank and number of members, and the names of its peers.

    `parent` is who gets its gradients, a reducer or the conv model itself, and `wire` their format.
    """

    def __init__(
        self,
        *,
        job: Mapping[str, Any],
        group: int,
        rank: int,
        members: int,
        coordinator: str,
        conv_model: str,
        fc_server: str,
        parent: str,
        wire: Mapping[str, Any] = PLAIN,
    ) -> None:
        self._job = Job.from_options(job)
        self._group, self._rank, self._members = group, rank, members
        self._coordinator, self._conv_model, self._fc_server = coordinator, conv_model, fc_server
        self._parent, self._wire_options = parent, wire
        self._trained = 0  # training passes of this worker's group so far: what its next pull must see applied

    async def on_start(self) -> None:
        """Open the data and build the conv phase of the net."""
        await self.compute("build", self._build)
        self._exposure = Exposure(self)
        self._images = self.counter("images", "Images trained on.")
        self._iterations = self.counter("iterations", "Training iterations computed.")

    def _build(self) -> None:
        job = self._job
        job.backend_ops.memory = job.host_ops.memory = self.memory
        sources = {phase: job.source(phase) for phase in job.phases}
        readers = {phase: Prefetcher(job.batches(phase, source)) for phase, source in sources.items()}
        self._passes = Passes(
            self, self._coordinator, readers, group=self._group, rank=self._rank, members=self._members
        )
        self._nets = {phase: job.build(phase, "conv", sources[phase].shape) for phase in job.phases}
        self._wire = Wire(layers_of(self._nets[TRAIN]), job.host_ops, self._wire_options)
        for net in self._nets.values():
            warm(net)

    async def on_stop(self) -> None:
        """Stop reading ahead."""
        if hasattr(self, "_passes"):
            self._passes.close()

    async def run(self) -> None:
        """Do pass after pass until the coordinator says stop; read the rows of the next while this one is computed."""
        await self._passes.run(self._pass)

    async def _pass(self, ticket: Ticket, position: int) -> None:
        net = self._nets[ticket.phase]
        with self._exposure.measured() if ticket.phase == TRAIN else nullcontext():
            activations = await self._forward(net, ticket, position)
            answer = await self._fc(ticket, position, activations)
            self._exposure.excuse(answer.seconds)
            if ticket.phase == TRAIN:
                await self._backward(net, ticket, position, answer.blobs)
        if ticket.phase == TRAIN:
            self._trained += 1
            self._images.inc(len(activations[0]))
            self._iterations.inc()
        done = PassDone(
            group=self._group,
            rank=self._rank,
            phase=ticket.phase,
            number=ticket.number,
            rows=ticket.rows,
            scores=answer.scores,
            exposed=self._exposure.last,
        )
        await self.tell(self._coordinator, done, step=ticket.number)

    async def _forward(self, net: Net, ticket: Ticket, position: int) -> Blobs:
        with self.phase("read"):
            await self.compute("read", self._passes.read, net, ticket)
        activations: Blobs = ()
        for stage in net.stages:
            blobs = await self._pull(stage.layer, ticket, position) if stage.layer is not None else ()
            with self.phase("forward"):
                activations = await self.compute(f"forward {stage.layer}", self._forward_stage, net, stage, blobs)
        return activations

    async def _pull(self, layer: str, ticket: Ticket, position: int) -> Blobs:
        pull = PullLayer(group=self._group, position=position, phase=ticket.phase, layer=layer, after=self._trained)
        with self.phase("wait_model"):
            return (await self.ask(self._conv_model, pull, LayerModel, step=ticket.number)).blobs

    async def _fc(self, ticket: Ticket, position: int, blobs: Blobs) -> ActivationGrads:
        activations = Activations(
            group=self._group,
            rank=self._rank,
            position=position,
            phase=ticket.phase,
            number=ticket.number,
            rows=ticket.rows,
            blobs=blobs,
        )
        with self.phase("wait_fc"):
            return await self.ask(self._fc_server, activations, ActivationGrads, step=ticket.number)

    async def _backward(self, net: Net, ticket: Ticket, position: int, incoming: Blobs) -> None:
        for stage in reversed(net.stages):
            with self.phase("backward"):
                work = self.compute(f"backward {stage.layer}", self._backward_stage, net, stage, incoming)
                (formats, blobs), incoming = await work, ()
            if stage.layer is not None:
                gradient = LayerGradient(
                    group=self._group,
                    position=position,
                    number=ticket.number,
                    layer=stage.layer,
                    formats=formats,
                    blobs=blobs,
                )
                with self.phase("send"):
                    await self.tell(self._parent, gradient, step=ticket.number)

    # What runs in the compute thread. Messages hold host arrays; the net's may live on a device.

    def _forward_stage(self, net: Net, stage: Stage, blobs: Blobs) -> Blobs:
        """The activations that cross to the FC phase, after the last stage."""
        if stage.layer is not None:
            net.load(stage.layer, tuple(net.ops.asarray(blob) for blob in blobs))
        net.forward(stage)
        if stage is not net.stages[-1]:
            return ()
        return tuple(net.ops.to_host(net.blob(name)) for name in net.boundary)

    def _backward_stage(self, net: Net, stage: Stage, incoming: Blobs) -> tuple[Formats, Blobs]:
        """The stage's parameter gradients as they travel. `incoming`: what came back from the FC phase, for the first
        to run."""
        if incoming:
            for name, gradient in zip(net.boundary_grads, incoming, strict=True):
                net.set_grad(name, gradient)
        out = layer_gradients(net, stage.layer) if stage.layer is not None else None
        gradients = tuple(net.ops.to_host(gradient) for gradient in net.backward(stage, out))
        return self._wire.encode(stage.layer, gradients) if stage.layer is not None else ((), ())
