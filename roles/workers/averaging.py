"""A replica that trains a separate model for `tau` iterations, then takes the mean of all replicas.

The systems are SparkNet and DL4J (Omnivore, D.2).

ticket -> read rows, forward, backward, update of its own parameters
       -> every `tau` iterations, and before a test, the parameters of all replicas are averaged
       -> report

A replica's own gradient is the mean over its own rows, as if they were the whole batch. In the mean
of all, a replica counts by the rows that it has computed since the last mean. With tau 1 and a
linear update, the result is the update of the whole batch.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ops import Array
from roles.base.loads import Load, Loads, first_passes, layers_in
from roles.base.role import Anew, Held
from roles.base.shapes import Shapes
from roles.base.sizes import gradients
from roles.base.steps import Key, Step, Steps, Turn, Work
from roles.exchange.buckets import Bucket
from roles.learning.buffers import gradient_buffers
from roles.learning.scoreboard import Scores
from roles.messages import TRAIN, Ticket
from roles.workers.replica import Replica
from roles.workers.replica_options import ReplicaOptions
from roles.workers.single import update


@dataclass(frozen=True, kw_only=True)
class AveragingOptions(ReplicaOptions):
    """The options of a replica, the number of iterations between two means, and whether the
    solver's `histories` are averaged too or stay local."""

    anew: ClassVar[Anew] = Anew.FROM_STATE
    tau: int
    histories: bool

    @property
    def shares_gpu(self) -> str:
        """None: its parameters are copied to the host for each mean."""
        return ""

    def exchanged(self, name: str, shapes: Shapes) -> Held:
        """All its gradients, which stay, and the sums of parameters."""
        layers = shapes.layers(self.job, "all")
        return {"gradients": gradients(self.job, layers, shapes)} | self.received(name, shapes)

    def loads(self, name: str, shapes: Shapes) -> Loads:
        """The work of an iteration of its own. Each tau-th iteration also packs, adds up and
        unpacks."""
        net = shapes.net(self.job, "all")
        layers = layers_in(net)
        passes = self.job.passes
        rows = -(-shapes.rows(name) // passes)
        yield from first_passes("forward", rows, layers, passes)
        yield Load("train", rows, layers if passes == 1 else (), layers, updated=tuple(net.params))
        for size in self.summed(shapes):
            copied = shapes.number * size
            yield Load("pack", added=size, copied=copied)
            yield Load("unpack", added=size, copied=copied)
            yield from self.exchange.options.loads(name, size, shapes)

    @property
    def period(self) -> int:
        """A mean in every tau-th iteration."""
        return self.tau

    def steps(self, name: str, shapes: Shapes, turn: Turn) -> Steps:
        """An iteration of its own. The last of tau iterations ends with the mean, bucket by
        bucket."""
        yield Step((name, "begin"), since=((name, "end"),))
        above: Key = (name, "begin")
        passes = self.job.passes
        rows = -(-shapes.rows(name) // self.job.passes)
        labels = ["forward", *["pass"] * (passes - 1), "train"] if passes > 1 else ["train"]
        for number, label in enumerate(labels):
            yield Step((name, label, str(number)), Work(label, rows), (above,))
            above = (name, label, str(number))
        done: list[Key] = [above]
        for bucket, size in enumerate(self.sums(shapes, turn)):
            yield Step((name, "bucket", str(bucket)), Work("pack"), (above,))
            yield from self.exchange.options.steps(name, str(bucket), size, shapes)
            done.append((name, "unpack", str(bucket)))
            yield Step(done[-1], Work("unpack"), ((name, "summed", str(bucket)),))
        yield Step((name, "end"), None, tuple(done))

    def sums(self, shapes: Shapes, turn: Turn) -> list[int]:
        """The sums of the mean, in the last of tau iterations."""
        return self.summed(shapes) if turn.last else []

    def summed(self, shapes: Shapes) -> list[int]:
        """Parameters and histories. They are exchanged in every tau-th iteration only; this
        describes that iteration."""
        net = shapes.net(self.job, "all")
        solver = self.job.solver_spec
        return [
            sum(
                math.prod(param.shape)
                * (1 + self.histories * len(solver.new_history(net.ops, param)))
                for params in bucket.params.values()
                for param in params
            )
            for bucket in self.buckets(net)
        ]


class AveragingReplica(Replica):
    """A replica whose model is averaged with those of the other replicas."""

    Options: ClassVar[type[AveragingOptions]] = AveragingOptions

    def __init__(self, options: AveragingOptions) -> None:
        super().__init__(options)
        self._tau = options.tau
        self._histories = options.histories
        self._last = -1  # the last training iteration
        # since the last mean: this replica's rows, and the rows of all replicas
        self._rows = np.zeros(2, np.int64)

    def _build(self) -> None:
        super()._build()
        self._gradients = gradient_buffers(self._nets[TRAIN])

    @property
    def _back(self) -> int:
        return 1

    def _sizes(self) -> dict[int, int]:
        return {
            bucket.number: sum(array.size for array in self._averaged(bucket))
            for bucket in self._buckets
        }

    async def _train(self, ticket: Ticket) -> None:
        low, high = ticket.mine
        with self._exposure.measured():
            _, work = await self._before(ticket)
            scores = await self.compute("train", self._iterate, ticket, work)
            self._last = ticket.number
            self._rows += high - low, ticket.rows
            if (ticket.counted + 1) % self._tau == 0:
                await self._average()
        self._images.inc(high - low)
        self._iterations.inc()
        self._report(ticket, scores)

    async def _test(self, ticket: Ticket) -> None:
        if self._rows.any():
            await self._average()
        await super()._test(ticket)

    async def _average(self) -> None:
        """Take the mean of all replicas, bucket by bucket: one bucket is packed while others
        travel."""
        with self.phase("average"):
            async with asyncio.TaskGroup() as group:
                for bucket in self._buckets:
                    group.create_task(self._average_of(bucket))
        self._rows[:] = 0

    async def _average_of(self, bucket: Bucket) -> None:
        mine = await self.compute("pack", self._pack, bucket)
        total = await self._exchange.sum((self._last, bucket.number), mine)
        await self.compute("unpack", self._unpack, bucket, total)

    # These methods run in the compute thread.

    def _iterate(self, ticket: Ticket, work: Callable[[], object]) -> Scores:
        """Compute one training iteration on this member's rows, as if they were the batch. `work`
        comes first."""
        work()
        low, high = ticket.mine
        parts = self._parts_of[TRAIN]
        parts.backward(tuple(reversed(self._nets[TRAIN].stages)), self._gradients)
        update(self._store, self._gradients, ticket.rows / (high - low))
        return parts.scalars()

    def _averaged(self, bucket: Bucket) -> list[Array]:
        """The arrays of a bucket's layers that are averaged, not copied."""
        layers = (self._store.in_place(layer, histories=self._histories) for layer in bucket.params)
        return [array for arrays in layers for array in arrays]

    def _pack(self, bucket: Bucket) -> Array:
        """This replica's part of the mean, in a new array in host memory that peers can read."""
        mine, total = self._rows
        arrays = self._averaged(bucket)
        flat = self._job.host_ops.empty((sum(array.size for array in arrays),), self._job.dtype)
        for array, part in zip(arrays, _parts(flat, arrays), strict=True):
            np.multiply(
                self._job.backend_ops.to_host(array), flat.dtype.type(mine / total), out=part
            )
        return flat

    def _unpack(self, bucket: Bucket, total: Callable[[], Array]) -> None:
        arrays = self._averaged(bucket)
        for array, part in zip(
            arrays, _parts(self._job.backend_ops.asarray(total()), arrays), strict=True
        ):
            array[...] = part


def _parts(flat: Array, arrays: list[Array]) -> list[Array]:
    """Views of `flat` for each of the arrays, one after the other."""
    found = []
    low = 0
    for array in arrays:
        found.append(flat[low : low + array.size].reshape(array.shape))
        low += array.size
    return found
