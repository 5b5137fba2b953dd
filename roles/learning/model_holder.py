"""Whoever holds parameters: its rates, its state as a checkpoint holds it, and that state put back.

And whoever has something beside them that goes from one iteration to the next and is in no checkpoint: the errors that
a sender of gradients keeps, the state of recurrent layers. While a run is held its owner keeps a copy: probes leave no
trace.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from nets import NetError
from ops import Array
from roles.learning.parameter_store import ParameterStore
from roles.messages import Done, GetState, Rates, SetState, State
from runtime import Actor, Envelope, Json, Message, message
from runtime.messages.message import Refusal


@message
class SetAside(Message):
    """Coordinator asks: keep a copy of what you have beside the model. Nothing is under way. Answered with Done."""


@message
class TakeBack(Message):
    """Coordinator asks after a probe: go on from that copy; if it is the `last` time, keep it no longer. Nothing is
    under way. Answered with Done."""

    last: bool


class Beside(Protocol):
    """Something of the kind. Both are called in the compute thread."""

    def set_aside(self) -> Any:
        """A copy of it."""

    def take_back(self, kept: Any) -> None:
        """Go on from a copy, which stays as it is."""


class KeepsBeside(Actor):
    """An actor that may have something of the kind; whoever plans the run knows if it has (`RoleOptions.keeps_beside`,
    formats of gradients)."""

    beside: Sequence[Beside] = ()
    _aside: Sequence[Any] = ()

    async def on_set_aside(self, message: SetAside, envelope: Envelope) -> None:
        """Copy it."""
        self._aside = await self.compute("state", lambda: [each.set_aside() for each in self.beside])
        await self.reply(envelope, Done())

    async def on_take_back(self, message: TakeBack, envelope: Envelope) -> None:
        """Go on from the copy."""
        for each, kept in zip(self.beside, self._aside, strict=True):
            await self.compute("state", each.take_back, kept)
        self._aside = () if message.last else self._aside
        await self.reply(envelope, Done())


class ModelHolder(KeepsBeside):
    """`_store` is made in on_start. Whoever asks sees to it that no iteration is under way."""

    _store: ParameterStore

    async def on_rates(self, message: Rates, envelope: Envelope) -> None:
        """Another learning rate and momentum from now on."""
        await self.about_model(envelope)

    async def on_get_state(self, message: GetState, envelope: Envelope) -> None:
        """Hand over everything a checkpoint must hold."""
        await self.about_model(envelope)

    async def on_set_state(self, message: SetState, envelope: Envelope) -> None:
        """Go on from such a state. What is missing or misshapen is named in the refusal, and nothing is changed."""
        await self.about_model(envelope)

    async def about_model(self, envelope: Envelope) -> None:
        """Answer now; who may have updates of its own under way answers when they are in."""
        await self.answer(envelope)

    async def answer(self, envelope: Envelope) -> None:
        """Do what is asked and say so."""
        match envelope.message:
            case Rates(base_lr=base_lr, momentum=momentum, batch=batch):
                self._store.set_rates(base_lr, momentum)
                self.takes_batches_of(batch)
            case SetState(names=names, arrays=arrays, version=version):
                try:
                    state = dict(zip(names, arrays, strict=True))
                    await self.compute("state", self._store.restore, state, version)
                except (NetError, ValueError) as error:
                    await self.reply(envelope, Refusal(error=str(error)))
                    return
                self.go_on_at(version)
            case _:
                found = await self.compute("state", self._store.state)
                names, arrays, version = tuple(found), tuple(found.values()), self.model_version()
                answer = State(names=names, arrays=arrays, version=version, slices=self.slices(found))
                await self.reply(envelope, answer)
                return
        await self.reply(envelope, Done())

    def model_version(self) -> int:
        """How many updates are in the model."""
        return max(self._store.versions.values(), default=0)

    def go_on_at(self, version: int) -> None:
        """The model has this version now; who counts its own takes it over."""

    def takes_batches_of(self, images: int) -> None:
        """Gradients are those of batches of so many images now; who counts images takes it over."""

    def slices(self, state: Mapping[str, Array]) -> Json:
        """Which of these arrays are parts of a whole, see State."""
        return {}
