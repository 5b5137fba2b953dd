"""The records of the router: where actors live, and the open asks."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import NamedTuple

from runtime.errors import ActorStopped
from runtime.messages.message import Lane, Message
from runtime.transport import Transport


@dataclass(frozen=True, slots=True)
class Home:
    """The place where actors live: their process, its incarnation (which life of it), and the
    transport that leads there.

    `latest` holds the id of the last accepted message for each (sender, lane). A sender's ids only
    grow. A message whose id is not larger was accepted before, or a later message overtook it.
    """

    process: str
    incarnation: int
    road: Transport
    latest: dict[tuple[str, Lane], int] = field(default_factory=dict)


class Ask(NamedTuple):
    """An ask of one of this process's actors that is not answered yet."""

    asker: str
    peer: str
    answer: asyncio.Future[Message]
    said: type[Message] = Message
    since: float = 0.0  # loop time

    def fail(self, why: str) -> None:
        """Fail the ask with ActorStopped(`why`)."""
        if not self.answer.done():
            self.answer.set_exception(ActorStopped(why))
            # Without this call, asyncio would log the error if the asker is still sending and never
            # awaits the answer.
            self.answer.exception()
