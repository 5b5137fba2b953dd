"""The passes of a worker, one after the other; meanwhile it asks for the next and reads their rows.

Passes come in runs (`Ticket.count`), and are reported together at the end of each run. For LeNet
with two workers, where a pass takes 10 ms, a request and a report for each pass took 0.7 ms of each
core.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType

from nets import SampleError
from nets.data import DecodingProcesses, Prefetcher
from ops import Array
from roles.base.reads import ReadsJob
from roles.learning.accumulated import AccumulatedNet, Span, spans_of
from roles.learning.micro_batches import WorkerNet
from roles.learning.stream_states import StreamStates
from roles.learning.working_nets import working_nets
from roles.messages import STOP, TRAIN, NextTicket, PassDone, Ticket
from roles.workers.decoders import decoders_for
from roles.workers.exposure import Exposure
from roles.workers.reading_ahead import ReadingAhead, Share
from runtime import Actor, Json, ProgramFailed


class Passes:
    """The passes of one worker.

    `readers` are its data by phase, which this object closes. With `repeats`, its training nets
    compute their rows in that many passes and read the rows of each. `states` are those of its nets
    with recurrent layers, by phase.
    """

    def __init__(
        self,
        actor: Actor,
        coordinator: str,
        readers: Mapping[str, Prefetcher],
        repeats: int = 1,
        states: Mapping[str, StreamStates] = MappingProxyType({}),
    ) -> None:
        self.states = states
        self._actor = actor
        self._coordinator = coordinator
        self._reading = ReadingAhead(readers)
        self._repeats = repeats
        self._mine: Callable[[Ticket], Sequence[Ticket]] = lambda ticket: [*ticket.each()]
        self._done: list[PassDone] = []  # of the present run of passes
        self._group: int | None = None
        self._now: Callable[[], float] = lambda: 0.0  # the loop's clock, also for other threads

    async def run(
        self,
        do: Callable[[Ticket], Awaitable[None]],
        mine: Callable[[Ticket], Sequence[Ticket]] | None = None,
        after: Callable[[Ticket], Awaitable[None]] | None = None,
    ) -> None:
        """Call `do(ticket)` for pass after pass until the coordinator says stop.

        `mine`: the passes of a run of passes that this worker does. `after`: called with the whole
        run of passes once they are done, before they are reported.
        """
        self._mine = mine or self._mine
        self._now = asyncio.get_running_loop().time
        upcoming = asyncio.create_task(self._next())
        try:
            async with asyncio.TaskGroup() as reports:
                while True:
                    with self._actor.phase("wait_ticket"):
                        ticket = await upcoming
                    if ticket.phase == STOP:
                        return
                    self._note_group(ticket.group)
                    passes = self._mine(ticket)
                    for each in passes[:-1]:
                        await do(each)
                    upcoming = asyncio.create_task(self._next())
                    for each in passes[-1:]:
                        await do(each)
                    if after is not None:
                        await after(ticket)
                    reports.create_task(self._tell(self._done))
                    self._done = []
        finally:
            upcoming.cancel()
            await asyncio.gather(upcoming, return_exceptions=True)

    def _note_group(self, group: int) -> None:
        """Show the worker's group as a metric. Groups may change while a run goes on."""
        if group == self._group:
            return
        for number, is_mine in ((self._group, 0), (group, 1)):
            if number is not None:
                text = "1 for the group that a worker is in, 0 for its former groups."
                self._actor.gauge("worker_group_info", text, group=str(number)).set(is_mine)
        self._group = group

    def report(self, done: PassDone) -> None:
        """Note that a pass is done. The coordinator gets the report at the end of the run of
        passes."""
        self._done.append(done)

    def report_part(
        self, ticket: Ticket, scores: Json, exposure: Exposure, counts: tuple[int, ...] = ()
    ) -> None:
        """Note that a pass on this member's rows of a ticket is done, with the seconds that it has
        computed and waited, and the `counts` of a test."""
        low, high = ticket.mine
        done = PassDone(
            members=ticket.members,
            phase=ticket.phase,
            number=ticket.number,
            rows=high - low,
            scores=scores,
            seconds=exposure.busy,
            exposed=exposure.last,
            counts=counts,
        )
        self.report(done)

    async def _tell(self, reports: list[PassDone]) -> None:
        # let the loop queue the next pass's work first
        await asyncio.sleep(0)
        for done in reports:
            await self._actor.tell(self._coordinator, done, step=done.number)

    def read(self, net: WorkerNet, ticket: Ticket) -> None:
        """Start the pass on this member's rows. Runs in the compute thread."""
        mine = ticket.mine
        if ticket.phase == TRAIN:
            net.batch = ticket.rows
        if isinstance(net, AccumulatedNet):
            read = partial(self._read_one, ticket)
            self._begin(ticket, partial(net.begin_with, ticket.counted, mine, read))
            return
        batch = self._rows(ticket, mine)
        self._begin(ticket, partial(net.begin, ticket.counted, mine))
        for name, array in zip(net.inputs, batch, strict=True):
            net.feed_rows(name, array)

    def _begin(self, ticket: Ticket, begin: Callable[[], None]) -> None:
        """Begin a pass. Recurrent layers then have the states of its streams."""
        states = self.states.get(ticket.phase)
        if states is None:
            begin()
        else:
            states.begin(ticket.first, ticket.rows, ticket.mine, begin)

    def _read_one(self, ticket: Ticket, spans: Sequence[Span], at: int) -> Sequence[Array]:
        """The rows of one of the net's passes."""
        return self._rows(ticket, spans[at])

    def _rows(self, ticket: Ticket, span: Span) -> Sequence[Array]:
        """These rows of a pass, once they are read. The next rows are read meanwhile. Raises
        ProgramFailed for a damaged sample: a run that is started again would meet it again."""
        started = self._now()
        try:
            rows = self._reading.fetch((ticket.phase, *ticket.samples(*span)))
        except SampleError as error:
            raise ProgramFailed(str(error)) from None
        self._actor.waited_for_data(self._now() - started)
        return rows

    def close(self) -> None:
        """Stop reading ahead."""
        self._reading.close()

    async def _next(self) -> Ticket:
        ticket = await self._actor.ask(self._coordinator, NextTicket(), Ticket)
        if ticket.phase != STOP:
            for each in self._mine(ticket):
                self._reading.expect(self._shares(each))
        return ticket

    def _shares(self, ticket: Ticket) -> list[Share]:
        """The samples of this worker's rows, in the order in which the pass reads them."""
        spans = spans_of(ticket.mine, self._repeats if ticket.phase == TRAIN else 1)
        return [(ticket.phase, *ticket.samples(*span)) for span in spans]


class PassWorker(Actor, ReadsJob):
    """A worker that does the passes of its job, as the coordinator hands them out. `_build` calls
    `_open`."""

    _coordinator: str
    streams: StreamStates | None = None
    _decoders: DecodingProcesses | None = None

    async def on_start(self) -> None:
        """Open the data and build the nets."""
        await self.compute("build", self._build)
        self._images = self.counter("images", "Images trained on.")
        self._iterations = self.counter("iterations", "Training iterations that a worker computed.")

    def _open(self, part: str) -> None:
        """Open the data and build the nets of this part for each phase. Runs in the compute
        thread."""
        job = self._job
        sources = self._sources = {phase: job.source(phase) for phase in job.phases}
        self._decoders = decoders = decoders_for(self, sources.values(), on_gpu=job.on_gpu)
        starved = None if decoders is None else decoders.start
        readers = {phase: job.reader(phase, source, starved) for phase, source in sources.items()}
        self._nets = working_nets(job, part, sources)
        states = {
            phase: StreamStates(net)
            for phase, net in self._nets.items()
            if job.recurrent(phase) and not job.emulated
        }
        self.streams = states.get(TRAIN)
        self._passes = Passes(self, self._coordinator, readers, job.passes, states)

    async def on_stop(self) -> None:
        """Stop reading ahead."""
        if self._decoders is not None:
            self._decoders.close()
        if hasattr(self, "_passes"):
            self._passes.close()

    async def run(self) -> None:
        """Do pass after pass until the coordinator says stop. The rows of the next pass are read
        meanwhile."""
        await self._passes.run(self._pass)

    @abstractmethod
    def _build(self) -> None:
        """Build everything that the worker computes with. Runs in the compute thread."""

    @abstractmethod
    async def _pass(self, ticket: Ticket) -> None:
        """Compute a pass and `report` it."""


async def further_passes(
    actor: Actor, net: WorkerNet, label: str, *, by_stage: bool = False
) -> None:
    """Compute the passes between the first forward and the last backward pass of a net that
    computes several.

    They are cut into pieces like the worker's other pieces, of a pass or of a stage, so that no
    piece takes much longer than usual.
    """
    for works in net.further() if isinstance(net, AccumulatedNet) else ():
        for piece in [[work] for work in works] if by_stage else [works]:
            await actor.compute(label, _do, piece)


def _do(works: Sequence[Callable[[], None]]) -> None:
    for work in works:
        work()
