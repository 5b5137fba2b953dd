"""A replica: one of p workers that each hold the whole net and add up their gradients.

ticket -> read rows, forward
       -> backward, bucket by bucket: each is summed and its layers updated while the next is
          computed and travels
       -> report

All replicas start from the same parameters and apply the same sums. So they stay equal to the last
bit without a server. The exchange decides which actors add up, and which way the sums travel
(`exchange`).
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from functools import partial
from typing import ClassVar

from ops import Array
from roles.exchange.buckets import Bucket
from roles.learning.accumulated import AccumulatedNet
from roles.learning.buffers import in_memory_of
from roles.learning.confusion import counts_of
from roles.learning.model_holder import ModelHolder
from roles.learning.parameter_store import ParameterStore
from roles.learning.replayed_pass import parts_of
from roles.learning.resume import keep, restored
from roles.learning.scoreboard import Scores
from roles.messages import (
    TRAIN,
    Blobs,
    Contribution,
    SharedSum,
    Taken,
    Ticket,
)
from roles.workers.exposure import Exposure
from roles.workers.passes import PassWorker, further_passes
from roles.workers.replica_options import ReplicaOptions
from runtime import Envelope, GetReached, KeepState, KeptState, Reached


class Replica(ModelHolder, PassWorker):
    """A worker that holds the whole net, and sums gradients with its equals."""

    Options: ClassVar[type[ReplicaOptions]] = ReplicaOptions
    part = "all"  # the part of the net
    begins = "forward"  # the label of the piece of work that ends with the first bucket

    def __init__(self, options: ReplicaOptions) -> None:
        self._job = options.job
        self._chosen = options.exchange
        self._coordinator = options.coordinator
        self._buckets_of = options.buckets
        self.reads_device = options.job.on_gpu and options.exchange.reads_device
        self._scores: Scores = {}  # of the last training pass
        self._atomic = options.atomic
        self._timed = options.timed
        self._updating = asyncio.Lock()

    async def on_start(self) -> None:
        """Open the data and build the net and its parameters."""
        await super().on_start()
        self._exchange = self._chosen.of(self, self._sizes(), self._job.host_ops, self._job.dtype)
        self._exposure = Exposure(self, timed=self._timed)
        self._clips = self._job.solver_spec.clips

    def _build(self) -> None:
        job = self._job
        in_memory_of(self, job.backend_ops, job.host_ops)
        self._open(self.part)
        net = self._nets[TRAIN]
        params = job.learned(net.params)
        store = ParameterStore(
            params, net.initial_blobs(), job.solver_spec, job.backend_ops, in_place=True
        )
        self._store = restored(store, job)
        self._buckets = self._buckets_of(net)
        self._parts_of = parts_of(self._nets, job, 1 + self._back)

    @property
    def _back(self) -> int:
        """The number of parts of a backward pass."""
        return len(self._buckets)

    def _sizes(self) -> dict[int, int]:
        """The size of the sum of each bucket, in numbers."""
        return {bucket.number: bucket.size for bucket in self._buckets}

    async def _pass(self, ticket: Ticket) -> None:
        await (self._train(ticket) if ticket.phase == TRAIN else self._test(ticket))

    async def on_contribution(self, message: Contribution, envelope: Envelope) -> None:
        """Take note that the gradients of other members for a bucket are complete."""
        self._exchange.contributed(message, envelope.sender)

    async def on_shared_sum(self, message: SharedSum, envelope: Envelope) -> None:
        """Take a bucket's sum, or a share of it."""
        self._exchange.summed(message, envelope.sender)
        await self.reply(envelope, Taken())

    # Messages after a death.

    async def on_get_reached(self, message: GetReached, envelope: Envelope) -> None:
        """Answer with the number of iterations that are in the model, each with all its layers."""
        async with self._updating:
            await self.reply(envelope, Reached(steps=self.model_version()))

    async def on_keep_state(self, message: KeepState, envelope: Envelope) -> None:
        """Keep the state, so that another run goes on from this model.

        State in host memory is read outside of the compute thread, which does not write to it while
        the lock is held.
        """
        async with self._updating:
            done = self.model_version()
            work = self.race if self._job.backend_ops.on_host else self.compute
            file = await work("state", keep, self._store, self._job, done, self.name, message.facts)
        await self.reply(
            envelope, KeptState(file=f"/proc/{os.getpid()}/fd/{file}", at=f"iteration {done}")
        )

    async def _test(self, ticket: Ticket) -> None:
        with self.phase("test"):
            scores = await self._score(ticket)
        self._report(ticket, scores)

    async def _score(self, ticket: Ticket) -> Scores:
        """Run a forward pass and return its scores."""
        return await self.compute("test", self._scored, ticket)

    async def _before(self, ticket: Ticket) -> tuple[Scores | None, Callable[[], object]]:
        """The work before the backward pass.

        Return the scores, if they are known then, and the work that is done in one piece with the
        first bucket.
        """
        net = self._nets[TRAIN]
        if not isinstance(net, AccumulatedNet):
            return None, partial(self._forward, ticket)
        await self.compute("forward", self._forward, ticket)
        await further_passes(self, net, "pass")
        return None, _nothing

    async def _train(self, ticket: Ticket) -> None:
        with self._exposure.measured():
            scores, work = await self._before(ticket)
            async with asyncio.TaskGroup() as group:
                # all are queued at once: the thread goes from one to the next while their
                # gradients are sent
                first, *later = self._buckets
                parts = [partial(self.compute, self.begins, self._first, work, first)]
                parts += [partial(self.compute, "backward", self._backward, each) for each in later]
                sums = [
                    group.create_task(self._sum(ticket.number, bucket, part))
                    for bucket, part in zip(self._buckets, parts, strict=True)
                ]
            totals = [task.result() for task in sums]
            clipping = await self._clipping(ticket, totals) if self._clips else _nothing
            async with self._updating:
                if self._clips:
                    await self.compute("update", clipping)
                elif self._atomic:
                    for bucket, total in zip(self._buckets, totals, strict=True):
                        await self.compute("update", self._update, bucket, total)
        low, high = ticket.mine
        self._images.inc(high - low)
        self._iterations.inc()
        self._report(ticket, self._scores if scores is None else scores)

    async def _clipping(
        self, ticket: Ticket, totals: list[Callable[[], Array]]
    ) -> Callable[[], None]:
        """The work that clips all gradients by their norm and updates."""
        return partial(self._clip_and_update, totals)

    async def _sum(
        self, number: int, bucket: Bucket, part: Callable[[], Awaitable[Array]]
    ) -> Callable[[], Array]:
        """Compute a bucket, sum it with the other members and update its layers, while later
        buckets are computed and travel."""
        total = await self._exchange.sum((number, bucket.number), await self._mine(part))
        if not (self._clips or self._atomic):
            await self.compute("update", self._update, bucket, total)
        return total

    async def _mine(self, part: Callable[[], Awaitable[Array]]) -> Array:
        """A bucket's gradients as the exchange takes them. No task keeps them on the device."""
        mine = await part()
        return mine if self._chosen.reads_device else await self.to_host(mine)

    def _report(self, ticket: Ticket, scores: Scores) -> None:
        self._passes.report_part(ticket, scores, self._exposure, self._counted(ticket))

    def _counted(self, ticket: Ticket) -> tuple[int, ...]:
        """The counts of a test on this member's rows, after its scores."""
        return counts_of(self._nets[ticket.phase])

    # These methods run in the compute thread.

    def _forward(self, ticket: Ticket) -> Blobs:
        """Forward. Returns the blobs that leave for the FC phase, if other actors compute that."""
        net = self._nets[ticket.phase]
        parts = self._parts_of[ticket.phase]
        self._passes.read(net, ticket)
        for layer in net.params:
            net.load(layer, self._store.read(layer, ticket.phase))
        parts.begin()
        return parts.forward(net.stages, () if self.part == "all" else net.boundary)

    def _scored(self, ticket: Ticket) -> Scores:
        self._forward(ticket)
        return self._parts_of[ticket.phase].scalars()

    def _first(self, work: Callable[[], object], bucket: Bucket) -> Array:
        """The backward pass to the first bucket, after `work`."""
        work()
        return self._backward(bucket)

    def _backward(self, bucket: Bucket) -> Array:
        """A bucket's gradients, in a new array that peers can read."""
        net = self._nets[TRAIN]
        parts = self._parts_of[TRAIN]
        flat = parts.own(bucket.number, partial(net.ops.empty, (bucket.size,), net.dtype))
        (mine,) = parts.backward(bucket.stages, bucket.views(flat), lambda: (flat,))
        found = net.ops.to_share(mine)
        if bucket is self._buckets[-1]:
            # here, since this thread owns the device, which is idle now
            self._scores = parts.scalars()
            self._exposure.finish(net.ops)
        return found

    def _update(self, bucket: Bucket, total: Callable[[], Array]) -> None:
        for layer, gradients in bucket.views(self._job.backend_ops.asarray(total())).items():
            self._store.apply(layer, gradients)

    def _clip_and_update(self, sums: list[Callable[[], Array]]) -> None:
        self._store.apply_all(self._gradients_of(sums))

    def _gradients_of(self, sums: list[Callable[[], Array]]) -> dict[str, Blobs]:
        """All gradients. Clipping needs them at once and writes over them. The sums belong to all
        members, so they are copied."""
        gradients: dict[str, Blobs] = {}
        for bucket, total in zip(self._buckets, sums, strict=True):
            gradients |= bucket.views(self._job.backend_ops.asarray(total()).copy())
        return gradients


def _nothing() -> None:
    """The work where everything is done already."""
