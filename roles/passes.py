"""A worker's passes, one after the other: the next is asked for and its rows are read meanwhile.

What never lives here: what a pass does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from nets import Net
from nets.data import Prefetcher
from roles.messages import STOP, NextTicket, Ticket
from roles.tree import rows_of
from runtime import Actor


class Passes:
    """Of one member of a group. `readers` are its data by phase; it closes them."""

    def __init__(
        self, actor: Actor, coordinator: str, readers: Mapping[str, Prefetcher], *, group: int, rank: int, members: int
    ) -> None:
        self._actor, self._coordinator, self._readers = actor, coordinator, readers
        self._group, self._rank, self._members = group, rank, members

    def rows(self, ticket: Ticket) -> tuple[int, int]:
        """The rows [low, high) of the pass that are this member's."""
        return rows_of(self._rank, self._members, ticket.rows)

    async def run(self, do: Callable[[Ticket, int], Awaitable[None]]) -> None:
        """`do(ticket, position)` for pass after pass until the coordinator says stop."""
        position, upcoming = 0, asyncio.create_task(self._next(0))
        try:
            while True:
                with self._actor.phase("wait_ticket"):
                    ticket = await upcoming
                if ticket.phase == STOP:
                    return
                upcoming = asyncio.create_task(self._next(position + 1))
                await do(ticket, position)
                position += 1
        finally:
            upcoming.cancel()
            await asyncio.gather(upcoming, return_exceptions=True)

    def read(self, net: Net, ticket: Ticket) -> None:
        """Begin the pass on this member's rows; in the compute thread."""
        low, high = self.rows(ticket)
        batch = self._readers[ticket.phase].get(ticket.number, low, high)
        net.begin(ticket.number, (low, high))
        for name, array in zip(net.inputs, batch, strict=True):
            net.feed(name, array)

    def close(self) -> None:
        """Stop reading ahead."""
        for reader in self._readers.values():
            reader.close()

    async def _next(self, position: int) -> Ticket:
        ticket = await self._actor.ask(self._coordinator, NextTicket(group=self._group, position=position), Ticket)
        if ticket.phase != STOP:
            self._readers[ticket.phase].request(ticket.number, *self.rows(ticket))
        return ticket
