"""A conv worker's side of the FC phase: activations to those who compute it, their gradients back.

One server computes the FC phase whole; several hold a share of its units each, and each one's gradients are a part of
the sum. What never lives here: how the FC phase is computed (`fc_server`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from ops import Array, Backend
from roles.messages import ActivationGrads, Activations, Ticket
from runtime import Actor

Blobs = tuple[Array, ...]


class FcPhase:
    """Of one worker; `servers` in the order of summation."""

    def __init__(self, actor: Actor, servers: Sequence[str], ops: Backend) -> None:
        self._actor, self._servers, self._ops = actor, tuple(servers), ops

    async def run(self, ticket: Ticket, blobs: Blobs) -> ActivationGrads:
        """The answer to what crosses the cut on this member's rows; gradients of several servers are added up."""
        activations = Activations(
            group=ticket.group,
            rank=ticket.rank,
            members=ticket.members,
            phase=ticket.phase,
            number=ticket.number,
            rows=ticket.rows,
            blobs=blobs,
        )
        asks = [self._actor.ask(name, activations, ActivationGrads, step=ticket.number) for name in self._servers]
        first, *others = await asyncio.gather(*asks)
        if not others:
            return first
        total = await self._actor.compute("add", self._add, [first, *others])
        return ActivationGrads(blobs=total, scores=first.scores, seconds=max(a.seconds for a in (first, *others)))

    def _add(self, answers: Sequence[ActivationGrads]) -> Blobs:
        found = []
        for parts in zip(*(answer.blobs for answer in answers), strict=True):
            flat = [part.reshape(-1) for part in parts]
            found.append(self._ops.add_all(flat, self._ops.empty(flat[0].shape)).reshape(parts[0].shape))
        return tuple(found)
