"""The conv worker: one member of a compute group. Its `run` is a training iteration, read from top
to bottom.

ticket -> read rows -> per layer: pull the model, forward
       -> activations to the FC server, their gradients back
       -> per layer, last first: backward, the gradient leaves at once -> report

Without servers for the FC phase, the worker's part is the whole net, and no activations are sent.
"""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from functools import partial
from itertools import zip_longest
from typing import Any

from nets import Stage
from roles.fc.phase import FcPhase
from roles.learning.buffers import in_memory_of, layer_gradients
from roles.learning.confusion import counts_of
from roles.learning.micro_batches import WorkerNet
from roles.learning.model_holder import KeepsBeside
from roles.learning.plain_pass import PlainPass
from roles.learning.replayed_pass import parts_of
from roles.learning.tree import Parent
from roles.learning.wire_formats import Formats, layers_of
from roles.messages import (
    TRAIN,
    Blobs,
    Done,
    LayerGradient,
    LayerModel,
    Place,
    PullLayer,
    Ticket,
)
from roles.workers.conv_options import ConvOptions
from roles.workers.exposure import Exposure
from roles.workers.model_links import ModelLink
from roles.workers.passes import PassWorker, further_passes
from runtime import Envelope

Scores = dict[str, float]


class ConvCompute(KeepsBeside, PassWorker):
    """A worker of a compute group: it computes its rows of each batch, forward and backward."""

    Options = ConvOptions

    def __init__(self, options: ConvOptions) -> None:
        self._job = options.job
        self._part = options.part
        self._coordinator = options.coordinator
        self._models = options.models
        self._fc_servers = options.fc_servers
        self._scheme = options.scheme
        self._timed = options.timed
        self.reads_device = options.job.on_gpu
        self._scores: Scores = {}  # of the last pass, if the worker computes the whole net

    async def on_start(self) -> None:
        """Open the data and build the conv phase of the net."""
        await super().on_start()
        self._exposure = Exposure(self, timed=self._timed)

    def _build(self) -> None:
        job = self._job
        in_memory_of(self, job.backend_ops, job.host_ops)
        self._open(self._part)
        net = self._nets[TRAIN]
        self._parts_of = parts_of(self._nets, job, 2 * len(net.stages))
        layers = layers_of(net)
        self._links = [ModelLink(way, layers, job.host_ops) for way in self._models]
        self.beside = [link.wire.errors for link in self._links]
        self._link_of = {layer: link for link in self._links for layer in link.layers}
        self._fc = FcPhase(self, self._fc_servers, job.host_ops, self._scheme, job.micro_batches)

    async def on_place(self, message: Place, envelope: Envelope) -> None:
        """Take another place in the tree above, whose shape has changed."""
        for link in self._links:
            if link.server == message.server:
                link.parent = Parent(message.parent, message.part, message.parts)
        await self.reply(envelope, Done())

    async def _pass(self, ticket: Ticket) -> None:
        net = self._nets[ticket.phase]
        train = ticket.phase == TRAIN
        with self._exposure.measured() if train else nullcontext():
            activations = await self._forward(net, ticket)
            await further_passes(self, net, "pass", by_stage=True)
            scores, incoming = await self._top(ticket, activations)
            if train:
                await self._backward(net, ticket, incoming)
        low, high = ticket.mine
        if train:
            self._images.inc(high - low)
            self._iterations.inc()
        counts = self._fc.counts or counts_of(net)
        self._passes.report_part(ticket, scores or self._scores, self._exposure, counts)

    async def _forward(self, net: WorkerNet, ticket: Ticket) -> Blobs:
        """Forward, stage by stage.

        A layer is pulled while the layer below is computed, and the next work is queued before that
        is done. So the compute thread goes from one stage to the next without waiting for the loop.
        """
        parts = self._parts_of[ticket.phase]
        read, forward = ("read", "forward") if ticket.phase == TRAIN else ("test read", "test")
        async with asyncio.TaskGroup() as group:
            pull = group.create_task(self._pull(net.stages[0], ticket))
            before: asyncio.Task[Any] = group.create_task(
                self.compute(read, self._read, parts, ticket)
            )
            phase = "read"
            for stage, above in zip_longest(net.stages, net.stages[1:]):
                with self.phase("wait_model"):
                    blobs = await pull
                work = self.compute(
                    f"{forward} {stage.layer}", self._forward_stage, parts, stage, blobs
                )
                following = group.create_task(work)
                if above is not None:
                    pull = group.create_task(self._pull(above, ticket))
                with self.phase(phase):
                    await before
                before = following
                phase = "forward"
            with self.phase(phase):
                activations: Blobs = await before
        return activations

    async def _pull(self, stage: Stage, ticket: Ticket) -> Blobs:
        """The parameters of a stage's layer; () if the stage has none."""
        layer = stage.layer
        if layer is None:
            return ()
        group = ticket.group
        members = ticket.members
        phase = ticket.phase
        number = ticket.number
        pull = PullLayer(
            group=group,
            members=members,
            phase=phase,
            number=number,
            layer=layer,
            after=ticket.after,
        )
        return (
            await self.ask(self._link_of[layer].server, pull, LayerModel, step=ticket.number)
        ).blobs

    async def _top(self, ticket: Ticket, activations: Blobs) -> tuple[Scores, Blobs]:
        """The scores, and the gradients of the activations, from the servers of the FC phase."""
        if not self._fc_servers:
            return {}, ()
        with self.phase("wait_fc"):
            answer = await self._fc.run(ticket, activations)
        self._exposure.excuse(answer.seconds)
        return dict(answer.scores), answer.blobs

    async def _backward(self, net: WorkerNet, ticket: Ticket, incoming: Blobs) -> None:
        """Backward, stage by stage. All stages are queued at once, so the compute thread goes from
        one to the next while their gradients are sent."""
        last, *_ = stages = tuple(reversed(net.stages))
        async with asyncio.TaskGroup() as group:
            works = [
                group.create_task(
                    self.compute(
                        f"backward {stage.layer}",
                        self._backward_stage,
                        self._parts_of[TRAIN],
                        stage,
                        incoming if stage is last else (),
                    )
                )
                for stage in stages
            ]
            for stage in stages:
                work = works.pop(0)  # a task keeps its gradients, which may lie on a device
                with self.phase("backward"):
                    formats, blobs = await work
                if stage.layer is not None:
                    await self._send(ticket, stage.layer, formats, blobs)

    async def _send(self, ticket: Ticket, layer: str, formats: Formats, blobs: Blobs) -> None:
        parent = self._link_of[layer].parent
        gradient = LayerGradient(
            group=ticket.group,
            number=ticket.number,
            layer=layer,
            part=parent.part,
            parts=parent.parts,
            formats=formats,
            blobs=blobs,
        )
        with self.phase("send"):
            await self.tell(parent.name, gradient, step=ticket.number)

    # These methods run in the compute thread. Arrays in messages may lie on the host; those of the
    # net may lie on a device.

    def _read(self, parts: PlainPass, ticket: Ticket) -> None:
        """Begin the pass on this member's rows."""
        self._passes.read(parts.net, ticket)
        parts.begin()

    def _forward_stage(self, parts: PlainPass, stage: Stage, blobs: Blobs) -> Blobs:
        """Run a stage forward. After the last stage, return the activations for the FC phase."""
        net = parts.net
        if stage.layer is not None:
            parts.load(stage.layer, blobs)
        last = stage is net.stages[-1]
        leaving = parts.forward((stage,), net.boundary if last and self._fc_servers else ())
        if last and not self._fc_servers:
            self._scores = {} if net is self._nets[TRAIN] else parts.scalars()
        shared = tuple(map(net.ops.to_share, leaving))
        if last:
            self._exposure.finish(net.ops)
        return shared

    def _backward_stage(
        self, parts: PlainPass, stage: Stage, incoming: Blobs
    ) -> tuple[Formats, Blobs]:
        """Run a stage backward. Return its parameter gradients as they travel.

        `incoming`: the gradients from the FC phase, for the stage that runs first.
        """
        net = parts.net
        if incoming:
            for name, gradient in zip(net.boundary_grads, incoming, strict=True):
                net.set_grad_rows(name, gradient)
        layer = stage.layer
        out: dict[str, Blobs] = {}
        if layer is not None:
            out[layer] = parts.own(layer, partial(layer_gradients, net, layer))
        gradients = parts.backward((stage,), out, lambda: out.get(layer or "", ()))
        if stage is net.stages[0] and not self._fc_servers:
            # of all passes; the device is idle now, so this is cheap
            self._scores = parts.scalars()
        leaving: tuple[Formats, Blobs] = ((), ())
        if layer is not None:
            leaving = self._link_of[layer].wire.encode(layer, gradients, net.ops)
        if stage is net.stages[0]:
            self._exposure.finish(net.ops)
        return leaving
