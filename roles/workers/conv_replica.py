"""A conv replica, which is a replica for the conv phase of the net; shards compute the FC phase.

The strategy is One weird trick.

ticket -> read rows, conv phase forward
       -> activations to all shards, the sum of their gradients back
       -> conv phase backward, bucket by bucket, as every replica -> report
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from ops import Array
from roles.base.loads import Load, Loads, layers_in, norm_load
from roles.base.role import Held, Sent
from roles.base.shapes import Shapes
from roles.base.sizes import crossing, model, passes
from roles.base.steps import Key, Step, Steps, Turn, Work, norm_known, norm_steps
from roles.fc.phase import FcPhase, activations_sent, answers_added, fc_phase
from roles.learning.common_norm import ALONE, SHARE, CommonNorm, NormShare, NormShares, norm_sent
from roles.learning.scoreboard import Scores
from roles.messages import TRAIN, Blobs, Ticket
from roles.workers.replica import Replica
from roles.workers.replica_options import ReplicaOptions
from runtime import Conversation, Envelope


@dataclass(frozen=True, kw_only=True)
class ConvReplicaOptions(ReplicaOptions):
    """The options of a replica, the `part` of the net, the names of the FC shards in the order of
    summation, and their scheme. `norm`: the shards too, if gradients are clipped."""

    norm_alike: ClassVar[bool] = True  # all of them have the same sums of gradients
    part: str
    fc_servers: tuple[str, ...]
    scheme: str
    norm: NormShares = ALONE

    def sends(self, name: str, shapes: Shapes) -> Sent:
        """The messages of a conv worker and of a replica, for the conv phase."""
        yield from norm_sent(self.norm)
        yield from activations_sent(self, name, shapes)
        yield from super().sends(name, shapes)

    def steps(self, name: str, shapes: Shapes, turn: Turn) -> Steps:
        """The conv phase forward, the FC phase on its shards, then the steps of every replica."""
        yield Step((name, "begin"), since=((name, "end"),))
        yield Step((name, "forward"), Work("forward", shapes.rows(name)), ((name, "begin"),))
        yield from fc_phase(self, name, shapes, (name, "forward"))
        yield from self.learned(name, shapes, turn, (name, "answered"), "backward")

    def clipped(self, name: str, after: tuple[Key, ...]) -> Steps:
        """The replica's share of the norm. Only the first replica tells it."""
        return norm_steps(name, self.norm.told, after) if self.norm != ALONE else ()

    def known(self, name: str) -> tuple[Key, ...]:
        """The shares of the shards."""
        return norm_known(name, self.norm.heard) if self.norm != ALONE else ()

    def holds(self, name: str, shapes: Shapes) -> Held:
        """The conv phase's passes, gradients, sums, parameters and histories."""
        held = passes(self.job, self.part, shapes, name) | self.exchanged(name, shapes)
        return held | model(self.job, shapes.layers(self.job, self.part), shapes)

    def exchanging(self, name: str, shapes: Shapes) -> tuple[str, ...]:
        """The other replicas, without the shards."""
        return tuple(peer for peer in shapes.peers(name) if peer not in self.fc_servers)

    def loads(self, name: str, shapes: Shapes) -> Loads:
        """The conv phase forward, then the work of a replica."""
        net = shapes.net(self.job, self.part)
        rows = shapes.rows(name)
        yield Load("forward", rows, forward=layers_in(net), copied=crossing(net, rows))
        yield from answers_added(self, name, shapes)
        begins = Load("backward", rows, copied=crossing(net, rows, back=True))
        yield from self._loads(net, begins, self._copied(name, shapes))
        if self.norm != ALONE:
            yield norm_load(shapes.layers(self.job, self.part))
        for size in self.summed(shapes):
            yield from self.exchange.options.loads(name, size, shapes)

    def summed(self, shapes: Shapes) -> list[int]:
        """The numbers of its part."""
        return [bucket.size for bucket in self.buckets(shapes.net(self.job, self.part))]


class ConvReplica(Replica):
    """A replica for the conv phase, next to the shards of the FC phase."""

    Options: ClassVar[type[ConvReplicaOptions]] = ConvReplicaOptions
    conversations: ClassVar[tuple[Conversation, ...]] = (*Replica.conversations, SHARE)
    begins = "backward"

    def __init__(self, options: ConvReplicaOptions) -> None:
        super().__init__(options)
        self._shares = options.norm
        self._known: dict[int, asyncio.Future[tuple[float, ...]]] = {}  # by number of the iteration
        self.part = options.part
        self._fc_servers = options.fc_servers
        self._scheme = options.scheme

    def _build(self) -> None:
        super()._build()
        job = self._job
        self._fc = FcPhase(self, self._fc_servers, job.host_ops, self._scheme, job.micro_batches)

    async def on_start(self) -> None:
        """Open the data and build the net and its parameters."""
        await super().on_start()
        self._norm = CommonNorm(self, self._shares)

    async def _clipping(
        self, ticket: Ticket, totals: list[Callable[[], Array]]
    ) -> Callable[[], None]:
        """The work that clips by the norm of all gradients, also of those of the shards."""
        gradients, squares = await self.compute("norm", self._measured, totals)
        known = self._squares_of(ticket.number)
        self._tell(ticket.number, await self._norm.share(ticket.group, ticket.number, squares))
        with self.phase("wait_norm"):
            everything = await known
        del self._known[ticket.number]
        return partial(self._apply_clipped, gradients, everything)

    async def on_norm_share(self, message: NormShare, envelope: Envelope) -> None:
        """Take a shard's share of an iteration's norm."""
        self._tell(message.number, self._norm.came(message, envelope.sender))

    def _squares_of(self, number: int) -> asyncio.Future[tuple[float, ...]]:
        """The squares of all gradients of an iteration, once they are known."""
        return self._known.setdefault(number, asyncio.get_running_loop().create_future())

    def _tell(self, number: int, squares: tuple[float, ...] | None) -> None:
        if squares is not None:
            self._squares_of(number).set_result(squares)

    async def _score(self, ticket: Ticket) -> Scores:
        scores, _ = await self._top(ticket)
        return scores

    def _counted(self, ticket: Ticket) -> tuple[int, ...]:
        return self._fc.counts

    async def _before(self, ticket: Ticket) -> tuple[Scores | None, Callable[[], object]]:
        scores, incoming = await self._top(ticket)
        return scores, partial(self._come_back, incoming)

    async def _top(self, ticket: Ticket) -> tuple[Scores, Blobs]:
        """Forward, then the FC phase. Return the scores, and the gradients of the activations."""
        label = "forward" if ticket.phase == TRAIN else "test"
        activations = await self.compute(label, self._activations, ticket)
        with self.phase("wait_fc"):
            answer = await self._fc.run(ticket, activations)
        return dict(answer.scores), answer.blobs

    # These methods run in the compute thread.

    def _activations(self, ticket: Ticket) -> Blobs:
        """The activations that the conv phase sends to the FC phase."""
        ops = self._nets[ticket.phase].ops
        shared = tuple(map(ops.to_share, self._forward(ticket)))
        self._exposure.finish(ops)
        return shared

    def _come_back(self, incoming: Blobs) -> None:
        net = self._nets[TRAIN]
        for name, gradient in zip(net.boundary_grads, incoming, strict=True):
            net.set_grad_rows(name, gradient)

    def _apply_clipped(self, gradients: dict[str, Blobs], squares: tuple[float, ...]) -> None:
        for layer, of in gradients.items():
            self._store.apply(layer, self._store.clipped(layer, of, squares))

    def _measured(self, totals: list[Callable[[], Array]]) -> tuple[dict[str, Blobs], list[float]]:
        """All gradients of the conv phase, and the sum of squares of each."""
        gradients = self._gradients_of(totals)
        return gradients, self._store.squares(gradients)
