"""An actor that holds parameters: its rates, its state for a checkpoint, and the way back from a
state.

Some actors also keep state next to the model, which lasts from one iteration to the next. Senders
of gradients keep errors, and workers keep the state of recurrent layers. While a run is held, the
owner keeps a copy of this state, so that probes leave no trace.

For a checkpoint, every holder copies its arrays in memory, between two iterations. It hands over
the copy array by array while training goes on. When another run resumes the checkpoint, the actor
of the same name gets the state next to the model back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any, Protocol, TypeVar

from nets import NetError
from ops import Array
from roles.learning.parameter_store import ParameterStore
from roles.learning.stream_states import Slices, StreamStates, place_of
from roles.messages import Done, GetState, Rates, SetState, State
from runtime import Actor, Envelope, Json, Message, MessageError, message
from runtime.messages.message import Refusal

T = TypeVar("T")


@message
class SetAside(Message):
    """Coordinator asks: keep a copy of your state next to the model. No iteration is under way.
    Answered with Done."""


@message
class TakeBack(Message):
    """Coordinator asks after a probe: go on from that copy. If it is the `last` time, drop the
    copy. No iteration is under way. Answered with Done."""

    last: bool


@message
class KeepCopy(Message):
    """Coordinator asks: keep a copy of all your arrays that a checkpoint must hold. No iteration is
    under way. Answered with Copied."""


@message
class Copied(Message):
    """Answer: the copy is made. The names of its arrays in a checkpoint; `slices` as in State.

    `zero`: for arrays that only other actors copy, an array here of the same shape. They are zero
    in the checkpoint if all these actors have died.
    """

    names: tuple[str, ...]
    slices: Json
    zero: Json = field(default_factory=dict)


@message
class GetCopy(Message):
    """Coordinator asks for one array of that copy, which the holder then drops. Training goes on
    meanwhile. Answered with CopiedArray."""

    name: str


@message
class CopiedArray(Message):
    """Answer: the array of this name from the copy for a checkpoint."""

    array: Array


@message
class GetStreams(Message):
    """Coordinator asks: which states do your recurrent layers have for the next batch? No iteration
    is under way. Answered with Streams."""


@message
class Streams(Message):
    """Answer: the states, by their names in a checkpoint; `slices` as in State."""

    names: tuple[str, ...]
    arrays: tuple[Array, ...]
    slices: Json


@message
class PutBeside(Message):
    """Coordinator asks while no iteration is under way: go on from these arrays. They are the state
    next to the model in a checkpoint, or states of recurrent layers of all streams. Answered with
    Done."""

    names: tuple[str, ...]
    arrays: tuple[Array, ...]


# in the names of arrays next to the model: NAME.beside.NUMBER.ACTOR
BESIDE = ".beside."


class Beside(Protocol):
    """State next to the model. All methods are called in the compute thread."""

    def set_aside(self) -> Mapping[str, Any]:
        """A copy of the state, as named arrays if a checkpoint has it."""

    def take_back(self, kept: Mapping[str, Any]) -> None:
        """Go on from a copy, which is not changed."""


class KeepsBeside(Actor):
    """An actor that may keep state next to the model.

    The planner knows whether it does (`RecoveryOptions.keeps_beside`, formats of gradients).
    """

    beside: Sequence[Beside] = ()
    streams: StreamStates | None = None  # of the net that it trains, if that has recurrent layers
    _copy: dict[str, Array] | None = None
    _aside: Sequence[Mapping[str, Any]] | None = None

    async def on_set_aside(self, message: SetAside, envelope: Envelope) -> None:
        """Copy the state next to the model."""
        self._aside = await self.compute("state", lambda: [each.set_aside() for each in self._all])
        await self.reply(envelope, Done())

    async def on_take_back(self, message: TakeBack, envelope: Envelope) -> None:
        """Go on from the copy. In a life that began after it was made, the state stays."""
        for each, kept in zip(self._all, self._aside or (), strict=self._aside is not None):
            await self.compute("state", each.take_back, kept)
        self._aside = None if message.last else self._aside
        await self.reply(envelope, Done())

    async def on_keep_copy(self, message: KeepCopy, envelope: Envelope) -> None:
        """Copy everything that a checkpoint must hold."""
        copy, slices = await self.compute("state", self._copied)
        self._copy = copy
        await self.reply(envelope, Copied(names=tuple(copy), slices=slices, zero=self.zero()))

    async def on_get_copy(self, message: GetCopy, envelope: Envelope) -> None:
        """Hand over an array of the copy. Raises MessageError if there is none, as in a life of the
        process that began after it was made."""
        if self._copy is None or message.name not in self._copy:
            raise MessageError("bad_value", f"{self.name} has no copy of {message.name}")
        await self.reply(envelope, CopiedArray(array=self._copy.pop(message.name)))

    async def on_get_streams(self, message: GetStreams, envelope: Envelope) -> None:
        """Hand over the states of recurrent layers."""
        arrays, slices = await self.compute("state", self._states)
        answer = Streams(names=tuple(arrays), arrays=tuple(arrays.values()), slices=slices)
        await self.reply(envelope, answer)

    async def on_put_beside(self, message: PutBeside, envelope: Envelope) -> None:
        """Go on from the state of an earlier run, or from states that other workers had."""
        found = dict(zip(message.names, message.arrays, strict=True))
        if self.streams is not None:
            await self.compute("state", self.streams.give, found)
            if any(place_of(name) is None for name in found) and not self.beside:
                text = "%s: states of recurrent layers of an older version are dropped"
                self.log.warning(text, ", ".join(found))
        for number, each in enumerate(self.beside):
            end = f"{BESIDE}{number}.{self.name}"
            named = {
                name.removesuffix(end): array for name, array in found.items() if name.endswith(end)
            }
            await self.compute("state", each.take_back, named)
        await self.reply(envelope, Done())

    @property
    def _all(self) -> Sequence[Beside]:
        return [*self.beside, *([] if self.streams is None else [self.streams])]

    def _states(self) -> tuple[dict[str, Array], Slices]:
        return ({}, {}) if self.streams is None else self.streams.saved()

    def _copied(self) -> tuple[dict[str, Array], Json]:
        """The copy for a checkpoint, and its slices. Runs in the compute thread."""
        mine = self.state()
        beside = {
            f"{name}{BESIDE}{number}.{self.name}": array
            for number, each in enumerate(self.beside)
            for name, array in each.set_aside().items()
        }
        states, slices = self._states()
        return mine | beside | states, {**self.slices(mine), **slices}

    def state(self) -> dict[str, Array]:
        """The actor's part of the model, in arrays that are not written to any more."""
        return {}

    def zero(self) -> Json:
        """Arrays that are zero in a checkpoint if no other actor has them; see Copied."""
        return {}

    def slices(self, state: Mapping[str, Array]) -> Json:
        """For arrays that are parts of a whole: their places in it, as in State."""
        return {}


class ModelHolder(KeepsBeside, overrides=("compute", "race")):
    """An actor with a `_store`, which on_start makes. The coordinator asks only while no iteration
    is under way."""

    _store: ParameterStore

    async def compute(
        self, label: str, work: Callable[..., T], *args: Any, size: int | None = None
    ) -> T:
        """Run array work (`Actor.compute`). Report the histograms that it made."""
        found = await super().compute(label, work, *args, size=size)
        self._report_histograms()
        return found

    async def race(self, label: str, work: Callable[..., T], *args: Any) -> T:
        """Run array work at once (`Actor.race`). Report the histograms that it made."""
        found = await super().race(label, work, *args)
        self._report_histograms()
        return found

    def _report_histograms(self) -> None:
        store = getattr(self, "_store", None)
        if store is not None and store.histograms is not None:
            for fields in store.histograms.take():
                self.emit("histograms", **fields)

    async def on_rates(self, message: Rates, envelope: Envelope) -> None:
        """Use another learning rate and momentum from now on."""
        await self.about_model(envelope)

    async def on_get_state(self, message: GetState, envelope: Envelope) -> None:
        """Hand over everything that a checkpoint must hold."""
        await self.about_model(envelope)

    async def on_set_state(self, message: SetState, envelope: Envelope) -> None:
        """Go on from such a state. If arrays are missing or misshapen, the refusal names them, and
        nothing is changed."""
        await self.about_model(envelope)

    async def on_keep_copy(self, message: KeepCopy, envelope: Envelope) -> None:
        """Copy the model and the state next to it."""
        await self.about_model(envelope)

    async def about_model(self, envelope: Envelope) -> None:
        """Answer now. A holder with updates of its own under way answers when they are in the
        model."""
        await self.answer(envelope)

    async def answer(self, envelope: Envelope) -> None:
        """Do what the message asks, and reply."""
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
        """The number of updates that are in the model."""
        return max(self._store.versions.values(), default=0)

    def go_on_at(self, version: int) -> None:
        """Note that the model has this version now, for holders that count versions themselves."""

    def takes_batches_of(self, images: int) -> None:
        """Note that gradients are those of batches of `images` images now, for holders that need
        it."""

    def state(self) -> dict[str, Array]:
        return self._store.state()
