"""A conv replica: a replica for the conv phase of the net, whose FC phase is shared out over shards (One weird trick).

ticket -> read rows, conv phase forward -> activations to all shards, the sum of their gradients back
       -> conv phase backward, bucket by bucket, as every replica -> report
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from roles.fc.phase import Blobs, FcPhase
from roles.learning.scoreboard import Scores
from roles.messages import TRAIN, Ticket
from roles.workers.replica import Replica


class ConvReplica(Replica):
    """Options besides a replica's: its `part` of the net, the names of the FC shards in the order of summation, their
    scheme."""

    begins = "backward"

    def __init__(
        self,
        *,
        job: Mapping[str, Any],
        exchange: Mapping[str, Any],
        coordinator: str,
        part: str,
        fc_servers: Sequence[str],
        scheme: str,
    ) -> None:
        super().__init__(job=job, exchange=exchange, coordinator=coordinator)
        self.part, self._fc_servers, self._scheme = part, fc_servers, scheme

    def _build(self) -> None:
        super()._build()
        self._fc = FcPhase(self, self._fc_servers, self._job.host_ops, self._scheme)

    async def _score(self, ticket: Ticket) -> Scores:
        scores, _ = await self._top(ticket)
        return scores

    async def _before(self, ticket: Ticket) -> tuple[Scores | None, Callable[[], None]]:
        scores, incoming = await self._top(ticket)
        return scores, partial(self._come_back, incoming)

    async def _top(self, ticket: Ticket) -> tuple[Scores, Blobs]:
        """Forward, and the FC phase; the scores, and the gradients that came back."""
        activations = await self.compute("forward", self._activations, ticket)
        with self.phase("wait_fc"):
            answer = await self._fc.run(ticket, activations)
        return dict(answer.scores), answer.blobs

    # What runs in the compute thread.

    def _activations(self, ticket: Ticket) -> Blobs:
        """What crosses from the conv to the FC phase."""
        self._forward(ticket)
        net = self._nets[ticket.phase]
        return tuple(net.ops.to_host(net.blob(name)) for name in net.boundary)

    def _come_back(self, incoming: Blobs) -> None:
        net = self._nets[TRAIN]
        for name, gradient in zip(net.boundary_grads, incoming, strict=True):
            net.set_grad(name, gradient)
