"""The handing over of a run: it ends at a checkpoint, from which another run goes on with other
workers, or without a machine.

asked -> iterations under way end -> the checkpoint is on disk -> handed over
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
    """An actor, as far as it answers: `reply` sends `message` to the sender of `envelope`."""

    async def reply(self, envelope: Envelope, message: Message) -> None: ...


class HandingOver:
    """The handing over of one coordinator's run. `emulated`: the run has no model."""

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
        return f"<handing over: {'done' if self.done else 'asked' if self._asked else 'not asked'}>"

    def hear(self, envelope: Envelope) -> None:
        """Take a request to hand the run over. Raises MessageError with the reason if that is
        impossible now."""
        if why := self._why_not():
            raise MessageError("bad_value", why)
        self._asked = envelope
        self._schedule.save()

    async def saved(self) -> None:
        """Wait for the disk and answer the request, if there is one. Called when the state to save
        is copied in memory."""
        if self._asked is None or self._schedule.saves_again:
            return
        await self._checkpoints.written()
        if self._schedule.over:
            await self.refuse("the training is at its end")
        elif self._checkpoints.unsaved:
            await self.refuse(
                f"the checkpoint cannot be saved: {self._checkpoints.unsaved}; training goes on"
            )
        else:
            asked = self._asked
            self._asked = None
            self.done = True
            self._schedule.hand_over()
            at = f"iteration {self._schedule.completed}"
            await self._actor.reply(asked, HandedOver(file=self._checkpoints.last, at=at))

    async def refuse(self, why: str) -> None:
        """Refuse the request for this reason, if there is one."""
        if self._asked is not None:
            asked = self._asked
            self._asked = None
            await self._actor.reply(asked, Refusal(error=why))

    def _why_not(self) -> str:
        if self._emulated:
            return "emulated devices train nothing: there is no model to hand over"
        if self._schedule.winding_down or self._schedule.over:
            return "the run ends"
        if self._asked is not None:
            return "the run is being handed over already"
        if not self._probing.quiet:
            return (
                "the tuner tries settings, or watches the one that it chose, and may undo the "
                "training since then: ask again when it has finished (`watch` shows what it does)"
            )
        return ""
