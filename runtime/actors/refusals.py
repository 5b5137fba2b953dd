"""The refusals of an actor: an ask whose envelope is dropped without an answer is refused."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from runtime.actors.actor import Actor
from runtime.actors.misuse import unanswered_by
from runtime.errors import ActorStopped
from runtime.messages.message import Envelope, Refusal


class Refusals:
    """Refuses asks on behalf of `actor` until `end`. Needs a running event loop."""

    def __init__(self, actor: Actor) -> None:
        self._actor = actor
        self._loop = asyncio.get_running_loop()
        self._under_way: set[asyncio.Task[None]] = set()
        self._ended = False

    def __repr__(self) -> str:
        return f"<refusals of {self._actor!r}, {len(self._under_way)} under way>"

    def end(self) -> None:
        """Refuse nothing from now on: the actor stops, and its askers get ActorStopped."""
        self._ended = True

    def dropped(self, ask: Envelope) -> None:
        """Refuse an ask whose envelope was freed. May be called from any thread."""
        with suppress(RuntimeError):  # the loop is closed, and with it all asks
            self._loop.call_soon_threadsafe(self._begin, ask)

    def _begin(self, ask: Envelope) -> None:
        if self._ended:
            return
        refusing = asyncio.create_task(self._refuse(ask), name=f"{ask.receiver} refuses")
        self._under_way.add(refusing)
        refusing.add_done_callback(self._under_way.discard)

    async def _refuse(self, ask: Envelope) -> None:
        handler = getattr(self._actor, self._actor.handlers[type(ask.message)])
        with suppress(ActorStopped):
            await self._actor.reply(ask, Refusal(error=unanswered_by(handler)))
