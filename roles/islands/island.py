"""An island: a worker that trains iterations of its own, and exchanges what it has learned.

ticket -> iterations on whole batches, each with its update
       -> the gain since the last answer goes to the outer server
       -> meanwhile the next ticket; the answer is taken in between two iterations
       -> report

With the quorum "all", the islands are one group. They share out the iterations of a ticket, and
each waits for the answer before it goes on. So the result does not depend on the time that anything
takes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from ops import Array
from roles.attendance_messages import Join
from roles.base.loads import Load, Loads, count
from roles.base.role import Held, Sent, Wires
from roles.base.shapes import Shapes
from roles.base.sizes import encoded
from roles.base.steps import Sending, Step, Steps, Turn, Work
from roles.islands.island_messages import (
    UNKNOWN,
    UNMOVED,
    Gain,
    GetHeld,
    GetOuter,
    GetVersion,
    OuterModel,
)
from roles.islands.island_model import IslandModel, KeptHistories, histories_of
from roles.learning.buffers import in_memory_of
from roles.learning.confusion import counts_of
from roles.learning.local_steps import LEAST, shared_out
from roles.learning.wire_formats import PLAIN, WireFormat, layers_of
from roles.messages import TRAIN, Done, Ticket
from roles.workers.exposure import Exposure
from roles.workers.single import Single, WholeOptions
from runtime import ActorStopped, Envelope
from runtime.messages.message import Refusal

AGAIN_SECONDS = 0.05  # before the next life of the outer server is asked
LIFE_BITS = 32  # gains of one life; the gains of a later life have larger numbers


@dataclass(frozen=True, kw_only=True)
class IslandOptions(WholeOptions):
    """The job, the coordinator's name, the `outer` server's name, and the format of gains.

    `restarts`: the number of deaths after which the island is started again while the others go on.
    `optional`: the run goes on without the island if it cannot be started again.
    `speeds`: with the quorum "all", the speeds by which the islands share out the iterations of a
    ticket, by rank. Empty: each ticket is for one island. `overlaps`: the island goes on learning
    while it waits for an answer. `steps_between`: the iterations between two exchanges, for
    predictions.
    """

    spread: ClassVar[bool] = True
    outer: str
    restarts: int = 0
    optional: bool = False
    speeds: tuple[float, ...] = ()
    overlaps: bool = True
    steps_between: int = LEAST
    wire: WireFormat = PLAIN

    @property
    def shares_gpu(self) -> str:
        """None: gains go through host memory."""
        return ""

    def parents(self) -> tuple[str, ...]:
        return (self.outer,)

    def with_wires(self, wires: Wires) -> IslandOptions:
        """The format of gains."""
        return replace(self, wire=wires.to[self.outer])

    def sends(self, name: str, shapes: Shapes) -> Sent:
        """The gain of all layers. This describes the last iteration before an exchange."""
        yield self.outer, Gain, encoded(shapes.layers(self.job, "all"), self.wire)

    def loads(self, name: str, shapes: Shapes) -> Loads:
        """An iteration of its own, and its share of an exchange."""
        yield from super().loads(name, shapes)
        numbers = sum(map(count, shapes.layers(self.job, "all").values()))
        copied = shapes.number * numbers
        yield Load("encode", added=2 * numbers, copied=copied)
        yield Load("decode", added=2 * numbers, copied=copied)

    @property
    def period(self) -> int:
        """An exchange after so many iterations."""
        return self.steps_between

    def steps(self, name: str, shapes: Shapes, turn: Turn) -> Steps:
        """An iteration of its own, if it is in its share. After the last before an exchange, the
        gain leaves. The next iteration waits for the answer only if the island does not go on
        learning meanwhile."""
        if name not in turn.members:
            return
        *before, end = super().steps(name, shapes, turn)
        if self.speeds:
            cuts = shared_out(turn.of, self.speeds)
            rank = turn.members.index(name)
            if not cuts[rank] <= turn.number < cuts[rank + 1]:
                before = before[:1]
                end = replace(end, after=(before[0].name,))
        yield from before
        if not turn.last:
            yield end
            return
        size = encoded(shapes.layers(self.job, "all"), self.wire)
        yield Step((name, "encode"), Work("encode"), end.after)
        yield Step((name, "Gain"), Sending((self.outer,), size), ((name, "encode"),))
        yield Step((name, "decode"), Work("decode"), ((self.outer, "OuterModel", name),))
        yield replace(end, after=((name, "encode" if self.overlaps else "decode"),))

    def holds(self, name: str, shapes: Shapes) -> Held:
        """The memory of a single worker, and two copies of the model in host memory."""
        layers = shapes.layers(self.job, "all")
        return super().holds(name, shapes) | {"copies of the model": 2 * shapes.size(layers)}


class Island(Single):
    """A worker that trains its own model. It sends the change of this model since the last answer,
    its gain, to the outer server, and takes in the outer model that it is answered with."""

    Options: ClassVar[type[IslandOptions]] = IslandOptions

    def __init__(self, options: IslandOptions) -> None:
        super().__init__(options)
        self._said = options
        self._rows = 0  # trained on since the last gain
        self._exchange: asyncio.Task[OuterModel] | None = None  # under way, or to be taken in
        self._settling = asyncio.Lock()  # a checkpoint may ask while the island takes an answer in
        self._taking = asyncio.Lock()  # held while the outer model changes that the island holds
        self._answering: set[asyncio.Task[None]] = set()  # answers that wait for the outer server
        self._sequence = 0  # of the last gain
        self._version = UNMOVED  # iterations in the outer model that is held
        self._merged: tuple[int, ...] = ()  # the last gains of all islands in it
        self._exact = True  # the store has the outer model as no other island has changed it

    async def on_start(self) -> None:
        """Open the data, build the net and its parameters, and the copy of the outer model."""
        await super().on_start()
        self._sequence = self.incarnation << LIFE_BITS
        self._version = UNMOVED if self.incarnation == 1 else UNKNOWN
        self._exposure = Exposure(self)
        self._exchanges = self.counter("exchanges", "Gains that islands have sent.")

    def _build(self) -> None:
        job = self._job
        in_memory_of(self, job.backend_ops, job.host_ops)
        super()._build()
        layers = layers_of(self._nets[TRAIN])
        self._model = IslandModel(
            self._store, layers, job.backend_ops, job.host_ops, self._said.wire
        )
        self.beside = [KeptHistories(self._store), self._model.errors]

    async def on_stop(self) -> None:
        """Stop reading ahead. An answer that has not come is not waited for."""
        await super().on_stop()
        under_way = [*self._answering, *([] if self._exchange is None else [self._exchange])]
        for task in under_way:
            task.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)

    async def run(self) -> None:
        """Do the island's passes until the coordinator says stop."""
        await self._passes.run(self._pass, self._mine, self._after)
        await self._settled()

    def _mine(self, ticket: Ticket) -> Sequence[Ticket]:
        """The passes of a ticket that this island does: all, or its share of the iterations of the
        group. It computes whole batches."""
        passes = list(ticket.each())
        if ticket.phase != TRAIN:
            return passes
        if self._said.speeds:
            cuts = shared_out(ticket.count, self._said.speeds)
            passes = passes[cuts[ticket.rank] : cuts[ticket.rank + 1]]
        return [replace(each, rank=0, cuts=(0, each.rows)) for each in passes]

    async def _pass(self, ticket: Ticket) -> None:
        if ticket.phase != TRAIN:
            await self._resynchronised()
            scores = await self._computed(ticket)
        else:
            await self._settled_if_answered()
            self._store.versions = dict.fromkeys(self._store.versions, ticket.counted)
            with self._exposure.measured():
                scores = await self._computed(ticket)
            self._model.stepped()
            self._exact = False
            self._rows += ticket.rows
            self._images.inc(ticket.rows)
            self._iterations.inc()
        counts = counts_of(self._nets[ticket.phase])
        self._passes.report_part(ticket, scores, self._exposure, counts)

    async def _after(self, ticket: Ticket) -> None:
        """Send the gain of a ticket's iterations. One exchange is under way at a time."""
        if ticket.phase != TRAIN:
            return
        await self._settled()
        mine = self._mine(ticket)
        packed = await self.compute("encode", self._model.gain)
        number = mine[0].number if mine else ticket.number
        self._sequence += 1
        gain = Gain(
            number=number,
            count=len(mine),
            rows=self._rows,
            sequence=self._sequence,
            **packed._asdict(),
        )
        self._rows = 0
        self._exchange = asyncio.create_task(self._exchanged(gain), name="exchange")
        self._exchanges.inc()
        if not self._said.overlaps:
            with self.phase("exchange"):
                await self._settled()

    async def _exchanged(self, gain: Gain) -> OuterModel:
        """Send a gain. If the server dies, its next life gets it again."""
        while True:
            try:
                return await self.ask(self._said.outer, gain, OuterModel, step=gain.number)
            except ActorStopped:
                gain = replace(gain, again=True)
                await asyncio.sleep(AGAIN_SECONDS)

    async def _settled_if_answered(self) -> None:
        """Take in the answer to the last gain, if it has come."""
        if self._exchange is not None and self._exchange.done():
            await self._settled()

    async def _settled(self) -> None:
        """Take in the answer to the last gain, if there is one to come."""
        async with self._settling:
            if self._exchange is None:
                return
            answer = await self._exchange
            self._exchange = None
            await self._take(self._model.take, answer)
            self._exact = answer.whole and bool(self._said.speeds) and not self._model.trained

    async def _resynchronised(self) -> None:
        """Have the outer model itself, with the gains of all islands, and as no format rounds it.
        No gain is under way."""
        await self._settled()
        if self._exact:
            return
        await self._take(self._model.take_whole, await self._outer_model())
        self._exact = True

    async def _outer_model(self) -> OuterModel:
        while True:
            try:
                return await self.ask(self._said.outer, GetOuter(), OuterModel)
            except ActorStopped:  # the server has died: its next life answers
                await asyncio.sleep(AGAIN_SECONDS)

    async def _take(self, how: Callable[[OuterModel], None], answer: OuterModel) -> None:
        """Hold the outer model of an answer from now on."""
        async with self._taking:
            await self.compute("decode", how, answer)
            self._version = answer.version
            self._merged = answer.merged

    async def on_get_version(self, message: GetVersion, envelope: Envelope) -> int:
        """Answer how new the outer model is that this island holds."""
        await self._settled_if_answered()
        return self._version

    async def on_get_held(self, message: GetHeld, envelope: Envelope) -> OuterModel:
        """Hand over the outer model that this island holds."""
        async with self._taking:
            packed = await self.compute("encode", self._model.held)
            version, merged = self._version, self._merged
        return OuterModel(version=version, whole=True, merged=merged, **packed._asdict())

    async def on_join(self, message: Join, envelope: Envelope) -> None:
        """Begin a new life with the outer model and the present rates."""
        self._exact = False
        self._later(envelope, self._joined(message, envelope))

    async def _joined(self, message: Join, envelope: Envelope) -> None:
        await self._resynchronised()
        self._store.set_rates(message.base_lr, message.momentum)
        await self.reply(envelope, Done())

    async def about_model(self, envelope: Envelope) -> None:
        """Answer once the island has the outer model: a run that resumes begins with it, too."""
        self._later(envelope, self._settled_answer(envelope))

    async def _settled_answer(self, envelope: Envelope) -> None:
        await self._resynchronised()
        await self.answer(envelope)

    async def _answered(self, envelope: Envelope, answering: Coroutine[Any, Any, None]) -> None:
        try:
            await answering
        except Exception as error:  # as if the handler had failed: the asker must not wait
            self.log.exception("%s could not answer %r", self.name, envelope)
            await self.reply(envelope, Refusal(error=f"{type(error).__name__}: {error}"))

    def _later(self, envelope: Envelope, answering: Coroutine[Any, Any, None]) -> None:
        """Answer while the inbox stays open: the outer server may have died, and in its next life
        it asks this island for the model before it answers anything."""
        task = asyncio.create_task(self._answered(envelope, answering), name=f"{self.name} answers")
        self._answering.add(task)
        task.add_done_callback(self._answering.discard)

    def go_on_at(self, version: int) -> None:
        """Take the store's new state as the outer model."""
        self._model.holds_outer()
        self._version = version

    def model_version(self) -> int:
        """The number of iterations in the outer model that is held."""
        return super().model_version() if self._version < 0 else self._version

    def state(self) -> dict[str, Array]:
        """The histories. A checkpoint has their mean, and the parameters of the outer server."""
        return histories_of(self._store)
