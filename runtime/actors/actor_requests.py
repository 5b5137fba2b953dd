"""The messages that every actor handles, until its class handles them in its own way."""

from __future__ import annotations

from typing import cast

from runtime.actors.actor_state import ActorState, Unplaced
from runtime.compute.work_sums import processor_seconds
from runtime.messages.message import Envelope, GetWork, Save, WindDown, WorkTaken

REQUESTS = {WindDown: "on_wind_down", Save: "on_save", GetWork: "on_get_work"}


class Requested:
    """The handlers of REQUESTS."""

    _runtime: ActorState = cast("ActorState", Unplaced())

    async def on_wind_down(self, message: WindDown, envelope: Envelope) -> None:
        """End the run well. Only the lead actor is asked. The default ends the run at once."""
        self.finish()

    async def on_save(self, message: Save, envelope: Envelope) -> None:
        """Write a checkpoint. Only the lead actor is asked. The default has nothing to save."""

    async def on_get_work(self, message: GetWork, envelope: Envelope) -> object:
        """Answer how long the work of this actor has taken. Every actor answers."""
        state = self._runtime
        return WorkTaken(work=state.host.work.of(state.name), processor=processor_seconds())

    def finish(self) -> None:
        """End the run, if this is the lead actor."""
        self._runtime.host.finished(self._runtime.name)
