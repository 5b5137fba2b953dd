"""A run that ends so that another goes on from where it is: with other workers, or without a
machine.

asked -> what is under way ends -> the checkpoint is on disk -> handed over
                                \\> it could not be written -> refused: the run goes on
"""

from __future__ import annotations

from typing import Protocol

from roles.checkpoints.saving import Checkpoints
from roles.coordination.probing import Probing
from roles.coordination.schedule import Schedule
from runtime import Envelope, HandedOver, Message, MessageError
from runtime.messages.message import Refusal


class Replies(Protocol):
    """Whose answers they are. See Actor."""

    async def reply(self, envelope: Envelope, message: Message) -> None: ...


class HandingOver:
    """Of the run of one coordinator. `emulated`: it has no model."""

    def __init__(
        self,
        actor: Replies,
        schedule: Schedule,
        probing: Probing,
        checkpoints: Checkpoints,
        *,
        emulated: bool,
    ) -> None:
        self._actor = actor
        self._schedule = schedule
        self._probing = probing
        self._checkpoints = checkpoints
        self._emulated = emulated
        self._asked: Envelope | None = None
        self.done = False

    def __repr__(self) -> str:
        return (
            f"<handing over: {'done' if self.done else 'asked' if self._asked else 'nobody asks'}>"
        )

    def hear(self, envelope: Envelope) -> None:
        """Somebody wants it. MessageError in words if it cannot be now."""
        if why := self._why_not():
            raise MessageError("bad_value", why)
        self._asked = envelope
        self._schedule.save()

    async def saved(self) -> None:
        """What was to be saved is copied in memory: if it is to be handed over, wait for the
        disk."""
        if self._asked is None or self._schedule.saves_again:
            return
        await self._checkpoints.written()
        if self._schedule.over:
            await self.refuse("the training is at its end")
        elif self._checkpoints.unsaved:
            await self.refuse(
                f"nothing can be saved: {self._checkpoints.unsaved}; training goes on as it is"
            )
        else:
            asked = self._asked
            self._asked = None
            self.done = True
            self._schedule.hand_over()
            at = f"iteration {self._schedule.completed}"
            await self._actor.reply(asked, HandedOver(file=self._checkpoints.last, at=at))

    async def refuse(self, why: str) -> None:
        """Nothing comes of it: tell whoever waits, if somebody does."""
        if self._asked is not None:
            asked = self._asked
            self._asked = None
            await self._actor.reply(asked, Refusal(error=why))

    def _why_not(self) -> str:
        if self._emulated:
            return "nothing is trained on emulated devices: there is no model that could go on"
        if self._schedule.winding_down or self._schedule.over:
            return "the run ends"
        if self._asked is not None:
            return "it is being handed over already"
        if not self._probing.quiet:
            return "the run is held, or what it tries may be undone: ask again when that is over"
        return ""
