"""What the router keeps: where actors live, and the questions that are open."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import NamedTuple

from runtime.errors import ActorStopped
from runtime.messages.message import Lane, Message
from runtime.transport import Transport


@dataclass(frozen=True, slots=True)
class Home:
    """Where actors live: their process, which life of it, and the road there.

    `latest` holds, per sender there and lane, the id of the last message that was taken. The ids of
    a sender only grow, so what has no larger one was taken before, or was overtaken on its way.
    """

    process: str
    incarnation: int
    road: Transport
    latest: dict[tuple[str, Lane], int] = field(default_factory=dict)


class Ask(NamedTuple):
    """A question of one of this process's actors that is not answered yet."""

    asker: str
    peer: str
    answer: asyncio.Future[Message]
    said: type[Message] = Message
    since: float = 0.0  # loop time

    def fail(self, why: str) -> None:
        """There will be no answer."""
        if not self.answer.done():
            self.answer.set_exception(ActorStopped(why))
            # asyncio would log it if the asker, still sending, never gets to look
            self.answer.exception()
