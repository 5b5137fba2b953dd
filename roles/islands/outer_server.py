"""The outer server: it holds the outer model, and answers islands that send what they have learned.

gain of an island -> the grace window: other gains that arrive in it are averaged with it
                  -> an outer step, and an answer to each of these islands
                  -> report to the coordinator

An island that dies is abandoned: the others go on, and it gets the whole outer model in its next
life. With the quorum "all" the server waits for every island. An iteration counts as trained when
it is in the outer model.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NamedTuple, Self

from ops import Array
from roles.attendance_messages import Abandon, Abandoned
from roles.base.loads import Load, Loads, count
from roles.base.reads import ReadsJob
from roles.base.role import EMULATED, Anew, Held, JobOptions, Sent, Wires
from roles.base.shapes import Shapes
from roles.base.sizes import encoded, model
from roles.base.steps import Sending, Step, Steps, Turn, Work
from roles.islands.gathering import GAIN, Gathering
from roles.islands.island_messages import (
    UNKNOWN,
    Gain,
    GetHeld,
    GetOuter,
    GetVersion,
    OuterModel,
)
from roles.islands.island_model import HISTORY, histories_of
from roles.islands.outer_state import Learned, OuterState
from roles.islands.outer_step import OuterStep
from roles.islands.packed_model import unpack
from roles.learning.buffers import in_memory_of
from roles.learning.job import InputShape
from roles.learning.model_holder import ModelHolder
from roles.learning.parameter_store import ParameterStore
from roles.learning.resume import restored
from roles.learning.wire_formats import PLAIN, Wire, WireFormat, layers_of
from roles.messages import TRAIN, Updated
from runtime import ActorStopped, Conversation, Envelope, MessageError


@dataclass(frozen=True, kw_only=True)
class OuterOptions(JobOptions):
    """The job, the data's image shape, the coordinator's name, and the names of the `islands`.

    `grace`: seconds that the server waits for further gains after the first; None: until every
    island has sent one. `rate` and `momentum` are those of the outer step; momentum None: chosen by
    the number of islands and their speeds. `wires`: island -> the format of the answers that it
    gets. `beside`: the island on whose machine the server lives. `restarts`: the number of deaths
    after which the server is started again.
    """

    anew: ClassVar[Anew] = Anew.FROM_STATE
    any_batch: ClassVar[bool] = True
    keeps_beside: ClassVar[bool] = True
    serves: ClassVar[bool] = True
    image_shape: InputShape
    coordinator: str
    islands: tuple[str, ...]
    grace: float | None
    rate: float
    momentum: float | None
    beside: str
    wires: Mapping[str, WireFormat] = field(default_factory=dict)
    restarts: int = 0

    def on_device(self, device: str, blank: Mapping[str, Any]) -> Self | None:
        """The same options for an emulated device. None for all others: the outer model is in host
        memory."""
        return super().on_device(device, blank) if device == EMULATED else None

    def parents(self) -> tuple[str, ...]:
        """The islands: answers have wire formats, as gains have."""
        return self.islands

    def with_wires(self, wires: Wires) -> Self:
        """A format for each island."""
        return replace(self, wires=wires.to)

    def sends(self, name: str, shapes: Shapes) -> Sent:
        """The answer to each island. This describes the last iteration before an exchange."""
        layers = shapes.layers(self.job, "all")
        for island in self.islands:
            yield island, OuterModel, encoded(layers, self.wires.get(island, PLAIN))

    def steps(self, name: str, shapes: Shapes, turn: Turn) -> Steps:
        """The gains of this group are unpacked. Then follow an outer step with them, and an answer
        to each of them."""
        if not turn.last:
            return
        layers = shapes.layers(self.job, "all")
        for island in turn.members:
            yield Step((name, "unpack", island), Work("unpack"), ((island, "Gain"),))
        gains = tuple((name, "unpack", island) for island in turn.members)
        yield Step((name, "merge"), Work("merge"), gains)
        for island in turn.members:
            size = encoded(layers, self.wires.get(island, PLAIN))
            yield Step((name, "OuterModel", island), Sending((island,), size), ((name, "merge"),))

    def holds(self, name: str, shapes: Shapes) -> Held:
        """Parameters and the histories that a checkpoint names, the velocity of the outer step, and
        the copies that islands hold where differences travel."""
        layers = shapes.layers(self.job, "all")
        size = shapes.size(layers)
        coarse = sum(said.format != self.job.dtype.name for said in self.wires.values())
        held = model(self.job, layers, shapes)
        held |= {"velocity": size} if self.momentum != 0 else {}
        return held | ({"copies of islands": coarse * size} if coarse else {})

    def loads(self, name: str, shapes: Shapes) -> Loads:
        """A gain is unpacked. In the outer step every gain is added, and each island gets an
        answer."""
        numbers = sum(map(count, shapes.layers(self.job, "all").values()))
        yield Load("unpack", added=numbers)
        yield Load("merge", added=(len(self.islands) + 3) * numbers)


class Arrived(NamedTuple):
    """A gain that waits, and what it says, decoded."""

    gain: Gain
    learned: Learned
    envelope: Envelope


class OuterServer(ModelHolder, ReadsJob):
    """The actor that holds the outer model. It averages the gains that islands send, makes an outer
    step with the average, and answers these islands with the model."""

    Options = OuterOptions
    conversations: ClassVar[tuple[Conversation, ...]] = (GAIN,)

    def __init__(self, options: OuterOptions) -> None:
        self._said = options
        self._job = options.job
        self._gathering: Gathering[Arrived] = Gathering(options.islands)
        self._arrived = asyncio.Event()
        self._stepping = asyncio.Lock()  # held from a step's gains to its last report
        self._version = 0  # iterations in the outer model
        self._seen = dict.fromkeys(options.islands, 0)  # island -> the version that it holds
        self._merged = dict.fromkeys(options.islands, 0)  # island -> its last gain in the model
        self._ready = asyncio.Event()  # the model is the run's, also in a later life

    async def on_start(self) -> None:
        """Build the parameters; every process that builds them gets the same numbers."""
        self._store = await self.compute("build", self._build)
        self._version = super().model_version()
        self._seen = dict.fromkeys(self._seen, self._version)
        self._steps_done = self.counter("outer_steps", "Steps of the outer model.")
        self._together = self.histogram(
            "gains_together",
            "Gains that an outer step takes in.",
            buckets=(1, 2, 4, 8, 16, 32),
        )

    def _build(self) -> ParameterStore:
        job = self._job
        ops = job.host_ops
        in_memory_of(self, ops)
        net = job.build(TRAIN, "all", self._said.image_shape)
        params = job.learned(net.params)
        store = ParameterStore(params, net.initial_blobs(), job.solver_spec, ops, in_place=True)
        store = restored(store, job)
        self._layers = layers_of(net)
        self._takes = Wire(self._layers, ops, WireFormat(job.dtype.name))
        self._outer_step = step = OuterStep(self._said.rate, self._said.momentum)
        plain = WireFormat(job.dtype.name)
        wires = {name: self._said.wires.get(name, plain) for name in self._said.islands}
        self._state = OuterState(store, self._layers, ops, step, wires)
        self.beside = [step]
        return store

    async def on_gain(self, message: Gain, envelope: Envelope) -> None:
        """Let a gain wait for the next outer step. Raises MessageError if it does not fit the
        model, or if an island sends an earlier gain as a new one."""
        name = envelope.sender
        learned = await self.compute("unpack", self._learned, message)
        before = self._merged.get(name, message.sequence - 1)
        if message.sequence <= before and not message.again:
            text = f"Gain: found sequence {message.sequence}, expected more than {before}"
            raise MessageError("bad_value", f"{text}, which the outer model has already")
        self._gathering.take(message, name, Arrived(message, learned, envelope))
        self._arrived.set()

    def _learned(self, gain: Gain) -> Learned:
        """Decode a gain. Runs in the compute thread."""
        if gain.rows < 0 or gain.count < 0:
            text = (
                f"Gain: found {gain.count} iterations with {gain.rows} samples, expected 0 or more"
            )
            raise MessageError("bad_value", text)
        return Learned(unpack(self._takes, self._layers, gain), gain.rows)

    async def on_get_outer(self, message: GetOuter, envelope: Envelope) -> None:
        """Hand over the whole outer model."""
        await self._ready.wait()
        name = envelope.sender
        self._gathering.asked(message, name)
        answer = await self.compute("merge", self._state.whole_for, name, self._version)
        self._seen[name] = self._version
        await self.reply(envelope, self._marked(answer))

    async def on_abandon(self, message: Abandon, envelope: Envelope) -> None:
        """Go on without an island that has died. Its gain that waits is dropped."""
        self._gathering.abandon(message, envelope.sender)
        self._arrived.set()
        async with self._stepping:  # a step that has its gain reports it first
            await self.tell(self._said.coordinator, Abandoned(worker=message.worker))

    async def run(self) -> None:
        """Take outer steps as gains arrive."""
        if self.incarnation > 1:
            await self._anchored()
        self._ready.set()
        while True:
            await self._window()
            if self._gathering.waiting:
                await self._step()

    async def _anchored(self) -> None:
        """Begin a later life with the newest outer model that an island holds. Islands send the
        gains again that are not in it."""
        names = self._said.islands
        found = await asyncio.gather(*map(self._version_of, names))
        versions = dict(zip(names, found, strict=True))
        if max(found) == UNKNOWN:
            raise RuntimeError("no island that is left holds the outer model")
        for name in sorted(versions, key=versions.__getitem__, reverse=True):
            if versions[name] <= self._version:
                return
            with suppress(ActorStopped):
                anchor = await self.ask(name, GetHeld(), OuterModel)
                await self.compute("merge", self._take_anchor, anchor)
                self.emit("anchored", iteration=self._version, by=name)
                return

    async def _version_of(self, island: str) -> int:
        try:
            return await self.ask(island, GetVersion(), int)
        except ActorStopped:  # it is away
            return UNKNOWN

    def _take_anchor(self, anchor: OuterModel) -> None:
        """Take over the outer model that an island holds. Runs in the compute thread."""
        self._state.go_on_from(unpack(self._takes, self._layers, anchor))
        self._version = anchor.version
        self._seen = dict.fromkeys(self._seen, anchor.version)
        self._merged = dict(zip(self._said.islands, anchor.merged, strict=True))

    def _marked(self, answer: OuterModel) -> OuterModel:
        """The answer with the gains that are in the model."""
        return replace(answer, merged=tuple(self._merged.values()))

    async def _window(self) -> None:
        """Wait for a first gain, then for the others, or until the grace window has passed."""
        while not self._gathering.waiting:
            await self._next()
        with suppress(TimeoutError):
            async with asyncio.timeout(self._said.grace):
                while not self._gathering.complete:
                    await self._next()

    async def _next(self) -> None:
        self._arrived.clear()
        await self._arrived.wait()

    async def _step(self) -> None:
        """Take in all gains that wait, answer each, and report their iterations."""
        async with self._stepping:
            taken = self._gathering.taken()
            answers = await self._merge(taken)
        replies = (self.reply(each.envelope, answers[name]) for name, each in taken.items())
        await asyncio.gather(*replies)

    async def _merge(self, arrived: Mapping[str, Arrived]) -> dict[str, OuterModel]:
        """Take an outer step with these gains, and report their iterations. Gains that the model
        has already, since a former life of the server merged them, are only reported. Returns the
        answers."""
        before = self._version
        gains = {name: each.gain for name, each in arrived.items()}
        new = {name: gain for name, gain in gains.items() if gain.sequence > self._merged[name]}
        self._merged |= {name: gain.sequence for name, gain in new.items()}
        learned = [arrived[name].learned for name in new]
        rows = [each.rows for each in learned]
        # with all islands the gains of this step decide, so that a resumed run repeats itself
        share = 1.0 if self._said.grace is None else self._gathering.share(sum(rows))
        self._outer_step.suit(rows if self._said.grace is None else self._gathering.rows, share)
        self._version += sum(gain.count for gain in new.values())
        with self.phase("merge"):
            answers = await self.compute("merge", self._stepped, learned, tuple(gains), share)
        self._steps_done.inc()
        self._together.observe(len(gains))
        for name, gain in gains.items():
            stale = before - self._seen[name]
            self._seen[name] = self._version
            for number in range(gain.number, gain.number + gain.count):
                report = Updated(
                    number=number, version=self._version, staleness=stale, again=gain.again
                )
                await self.tell(self._said.coordinator, report, step=number)
        return answers

    def _stepped(
        self, learned: Sequence[Learned], asking: Sequence[str], share: float
    ) -> dict[str, OuterModel]:
        """Take the outer step. Returns the answers to the asking islands. Runs in the compute
        thread."""
        self._state.merge(learned, share)
        answers = self._state.answers(asking, self._version)
        return {name: self._marked(answer) for name, answer in answers.items()}

    async def about_model(self, envelope: Envelope) -> None:
        """Answer once the model is the run's."""
        await self._ready.wait()
        await self.answer(envelope)

    def model_version(self) -> int:
        """The number of iterations that are in the model."""
        return self._version

    def go_on_at(self, version: int) -> None:
        self._version = version
        self._seen = dict.fromkeys(self._seen, version)
        self._state.all_hold_it()

    def state(self) -> dict[str, Array]:
        """The parameters. The histories of a checkpoint are those of the islands."""
        histories = histories_of(self._store)
        return {name: array for name, array in self._store.state().items() if name not in histories}

    def zero(self) -> dict[str, str]:
        """The histories, which are zero in the next life of an island, too."""
        return {name: name.partition(HISTORY)[0] for name in histories_of(self._store)}
