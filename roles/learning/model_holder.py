"""Whoever holds parameters: its rates, its state as a checkpoint holds it, and that state put back.

And whoever has something beside them that goes from one iteration to the next: the errors that a
sender of gradients keeps, the state of recurrent layers. While a run is held its owner keeps a
copy: probes leave no trace.

For a checkpoint everybody makes a copy in memory, between two iterations, and hands it over array
by array while training goes on. A run that resumes it gives what was beside the model back to
whoever has the same name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from nets import NetError
from ops import Array
from roles.learning.parameter_store import ParameterStore
from roles.messages import Done, GetState, Rates, SetState, State
from runtime import Actor, Envelope, Json, Message, message
from runtime.messages.message import Refusal


@message
class SetAside(Message):
    """Coordinator asks: keep a copy of what you have beside the model. Nothing is under way.
    Answered with Done."""


@message
class TakeBack(Message):
    """Coordinator asks after a probe: go on from that copy; if it is the `last` time, keep it no
    longer. Nothing is under way. Answered with Done."""

    last: bool


@message
class KeepCopy(Message):
    """Coordinator asks: keep a copy of all of yours that a checkpoint must hold. Nothing is under
    way. Answered with Copied."""


@message
class Copied(Message):
    """Answer: so it is. What each of its arrays is called in a checkpoint; `slices` as in State."""

    names: tuple[str, ...]
    slices: Json


@message
class GetCopy(Message):
    """Coordinator asks for one array of that copy, which is kept no longer. Training goes on
    meanwhile. Answered with CopiedArray."""

    name: str


@message
class CopiedArray(Message):
    """Answer."""

    array: Array


@message
class PutBeside(Message):
    """Coordinator asks before the first iteration: go on from these arrays of a checkpoint, which
    you had beside the model when it was made. Answered with Done."""

    names: tuple[str, ...]
    arrays: tuple[Array, ...]


BESIDE = ".beside."  # in the names of arrays that are none of a layer's: what.beside.number.actor


class Beside(Protocol):
    """Something of the kind. All are called in the compute thread."""

    def set_aside(self) -> Mapping[str, Array]:
        """A copy of it, as named arrays."""

    def take_back(self, kept: Mapping[str, Array]) -> None:
        """Go on from a copy, which stays as it is."""


class KeepsBeside(Actor):
    """An actor that may have something of the kind; whoever plans the run knows if it has
    (`RecoveryOptions.keeps_beside`, formats of gradients)."""

    beside: Sequence[Beside] = ()
    _aside: Sequence[Mapping[str, Array]] = ()
    _copy: dict[str, Array]

    async def on_set_aside(self, message: SetAside, envelope: Envelope) -> None:
        """Copy it."""
        self._aside = await self.compute(
            "state", lambda: [each.set_aside() for each in self.beside]
        )
        await self.reply(envelope, Done())

    async def on_take_back(self, message: TakeBack, envelope: Envelope) -> None:
        """Go on from the copy."""
        for each, kept in zip(self.beside, self._aside, strict=True):
            await self.compute("state", each.take_back, kept)
        self._aside = () if message.last else self._aside
        await self.reply(envelope, Done())

    async def on_keep_copy(self, message: KeepCopy, envelope: Envelope) -> None:
        """Copy everything."""
        self._copy = await self.compute("state", self._copied)
        await self.reply(envelope, Copied(names=tuple(self._copy), slices=self.slices(self._copy)))

    async def on_get_copy(self, message: GetCopy, envelope: Envelope) -> None:
        """Hand over an array."""
        await self.reply(envelope, CopiedArray(array=self._copy.pop(message.name)))

    async def on_put_beside(self, message: PutBeside, envelope: Envelope) -> None:
        """Go on from what a run before had."""
        found = dict(zip(message.names, message.arrays, strict=True))
        for number, each in enumerate(self.beside):
            end = f"{BESIDE}{number}.{self.name}"
            named = {
                name.removesuffix(end): array for name, array in found.items() if name.endswith(end)
            }
            await self.compute("state", each.take_back, named)
        await self.reply(envelope, Done())

    def _copied(self) -> dict[str, Array]:
        """In the compute thread."""
        return self.state() | {
            f"{name}{BESIDE}{number}.{self.name}": array
            for number, each in enumerate(self.beside)
            for name, array in each.set_aside().items()
        }

    def state(self) -> dict[str, Array]:
        """What it has of the model, in arrays that nobody writes to."""
        return {}

    def slices(self, state: Mapping[str, Array]) -> Json:
        """Which of these arrays are parts of a whole, see State."""
        return {}


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
        """Go on from such a state. What is missing or misshapen is named in the refusal, and
        nothing is changed."""
        await self.about_model(envelope)

    async def on_keep_copy(self, message: KeepCopy, envelope: Envelope) -> None:
        """Copy the model, and what is beside it."""
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
            case KeepCopy() as keep:
                await super().on_keep_copy(keep, envelope)
                return
            case _:
                found = await self.compute("state", self._store.state)
                names = tuple(found)
                arrays = tuple(found.values())
                version = self.model_version()
                answer = State(
                    names=names, arrays=arrays, version=version, slices=self.slices(found)
                )
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

    def state(self) -> dict[str, Array]:
        """See KeepsBeside.state."""
        return self._store.state()
