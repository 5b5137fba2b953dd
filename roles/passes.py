"""A worker's passes, one after the other: the next is asked for and its rows are read meanwhile.

What never lives here: what a pass does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from nets.data import Prefetcher
from roles.messages import STOP, NextTicket, Ticket
from roles.micro_batches import WorkerNet
from runtime import Actor


class Passes:
    """Of one worker. `readers` are its data by phase; it closes them."""

    def __init__(self, actor: Actor, coordinator: str, readers: Mapping[str, Prefetcher]) -> None:
        self._actor, self._coordinator, self._readers = actor, coordinator, readers

    async def run(self, do: Callable[[Ticket], Awaitable[None]]) -> None:
        """`do(ticket)` for pass after pass until the coordinator says stop."""
        upcoming = asyncio.create_task(self._next())
        try:
            while True:
                with self._actor.phase("wait_ticket"):
                    ticket = await upcoming
                if ticket.phase == STOP:
                    return
                upcoming = asyncio.create_task(self._next())
                await do(ticket)
        finally:
            upcoming.cancel()
            await asyncio.gather(upcoming, return_exceptions=True)

    def read(self, net: WorkerNet, ticket: Ticket) -> None:
        """Begin the pass on this member's rows; in the compute thread."""
        low, high = ticket.mine
        batch = self._readers[ticket.phase].get(ticket.number, low, high)
        net.begin(ticket.number, (low, high))
        for name, array in zip(net.inputs, batch, strict=True):
            net.feed(name, array)

    def close(self) -> None:
        """Stop reading ahead."""
        for reader in self._readers.values():
            reader.close()

    async def _next(self) -> Ticket:
        ticket = await self._actor.ask(self._coordinator, NextTicket(), Ticket)
        if ticket.phase != STOP:
            self._readers[ticket.phase].request(ticket.number, *ticket.mine)
        return ticket
