"""A client of a run: `async with attach(directory) as run:` in any process of the same user and
host.

    async with attach("runs/20260101-120000-roles") as run:
        state = await run.ask("conv_model", GetState(), State)
        async for event in run.events(): ...

Nothing that happens to this process disturbs the run. `cluster/clients.py` is the other end.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from runtime.actors.actor import Actor
from runtime.actors.inspection import (
    BeginTrace,
    EndTrace,
    GetSnapshot,
    Looked,
    ShowStacks,
    Snapshot,
)
from runtime.actors.metrics import Metrics
from runtime.actors.node import Node
from runtime.actors.routes import Home
from runtime.attached.finding import present_in
from runtime.cluster.clients import (
    CLIENT,
    Attach,
    Attached,
    End,
    Ending,
    GetStatus,
    Parting,
    RunStatus,
    Scale,
    Scaled,
)
from runtime.cluster.lifecycle import FIRST, EventReport, agent_of
from runtime.compute.compute import InlineCompute
from runtime.errors import ActorStopped, AskTimeout, ConfigError, ConvoyError, Refused
from runtime.messages.message import Envelope, Message, Save
from runtime.plan.growth import ENDED, SPAWNED
from runtime.plan.run_plan import RunPlan
from runtime.plan.topology import SUPERVISOR, Placement
from runtime.records.lock_file import RUNNING
from runtime.records.presence import Sign
from runtime.report.event_stream import Event, Events
from runtime.suggest import hint
from runtime.transport import Endpoints, Transport
from runtime.transport.sockets import SocketTransport

R = TypeVar("R")
ANSWER_SECONDS = 10.0  # within which a living run admits a client
# after its connection broke, to read the last messages: one may report the end of the run
LAST_SECONDS = 1.0

_numbers = itertools.count(1)


class _Voice(Actor):
    """The actor of this process. It receives the events and the end of the run."""

    def __init__(
        self, events: Events, over: asyncio.Future[str], on_growth: Callable[[], Awaitable[None]]
    ) -> None:
        self._events = events
        self._over = over
        self._on_growth = on_growth

    async def on_event_report(self, message: EventReport, envelope: Envelope) -> None:
        if message.actor == SUPERVISOR and message.event in (SPAWNED, ENDED):
            await self._on_growth()
        self._events.event(message.actor, message.event, dict(message.fields))

    async def on_parting(self, message: Parting, envelope: Envelope) -> None:
        if not self._over.done():
            self._over.set_result(message.error)


class Client:
    """A client of a run of other processes. Every method raises ConvoyError, with the reason, when
    that run is over.

    `patience` is the number of seconds within which the run must admit this client. `is_broken`
    means that the connection broke before the run reported its end.
    """

    is_broken = False
    _takes_part = _is_cut = False

    def __init__(self, directory: str | Path, patience: float | None = ANSWER_SECONDS) -> None:
        self.directory = Path(directory)
        self._patience = patience
        self._plan = RunPlan.read(self.directory)
        self.name = f"{CLIENT}{os.getpid()}-{next(_numbers)}"

    def __repr__(self) -> str:
        return f"<client of the run {self.called}>"

    @property
    def called(self) -> str:
        """The run, as the words that follow "the run"."""
        return f"in {self.directory}"

    @property
    def placement(self) -> Placement:
        """The placement of the run: its actors, processes and machines."""
        return self._plan.placement

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        began = loop.time()
        name = self.name
        self._events = Events(lambda: loop.time() - began)
        self._over: asyncio.Future[str] = loop.create_future()
        self._over.add_done_callback(lambda over: self._events.end())
        self._voice = _Voice(self._events, self._over, self._grow)
        self._node = Node(name, FIRST, InlineCompute(), Metrics())
        self._road = await self._way()
        try:
            here = await self._road.open()
            self._node.connect(SUPERVISOR, FIRST, self._where(), [SUPERVISOR], self._road)
            self._node.add(name, "client", self._voice)
            self._node.begin([name])
            attach = Attach(control=here.control, bulk=here.bulk, host=here.host)
            await self._asked(SUPERVISOR, attach, Attached, self._patience)
            self._takes_part = True
            await self._arrive()
        except BaseException:
            await self._close()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._close()

    # -- the way to the run on this host; `remote_client` has the way to another host

    async def _way(self) -> Transport:
        """The road to the supervisor. Raises ConvoyError if it is known that nothing listens
        there."""
        self._check_socket()
        return SocketTransport(
            self.name,
            self._node.deliver,
            self._node.reject,
            self._plan.limits,
            incarnation=FIRST,
            bind=lambda lane: (f"unix://{self._plan.socket_directory}/{self.name}.{lane}",),
            on_link_lost=lambda process: self._lost(),
        )

    def _where(self) -> Endpoints:
        """The endpoints at which the supervisor listens."""
        return self._plan.supervisor.nearest()

    async def _arrive(self) -> None:
        """After admission: make all actors and agents known."""
        self._know()

    async def _grow(self) -> None:
        """Read the plan again, since an actor was started or has ended while the run goes on."""
        with suppress(ConvoyError):  # the run directory is gone; the old plan stays
            self._plan = RunPlan.read(self.directory)
            self._know()

    def _know(self) -> None:
        """Let the node reach each actor and agent through the supervisor."""
        actors = [actor.name for actor in self.placement.topology.actors]
        agents = [agent_of(process.name) for process in self.placement.processes]
        self._node.router.know([*actors, *agents], Home(SUPERVISOR, FIRST, self._road))

    # -- messages to the run

    @property
    def over(self) -> bool:
        """Whether the run has ended or the connection to it is gone."""
        return self._over.done()

    async def tell(self, actor: str, message: Message) -> None:
        """Send a message to an actor of the run."""
        self._check(actor)
        await self._voice.tell(actor, message)

    async def ask(
        self, actor: str, message: Message, answer: type[R], *, timeout: float | None = None
    ) -> R:
        """Send a message to an actor of the run and wait for its answer."""
        self._check(actor)
        return await self._asked(actor, message, answer, timeout)

    async def status(self) -> RunStatus:
        """The status of every process and actor, as the process of `up` knows it. No other process
        is asked."""
        return await self._asked(SUPERVISOR, GetStatus(), RunStatus, self._patience)

    async def snapshot(self, process: str) -> dict[str, Any] | None:
        """The present state of a process's actors, see `actors.snapshot`. None if the process has
        not greeted yet or is gone. A process that is stuck or stopped answers when it runs
        again."""
        try:
            said = await self._asked(agent_of(process), GetSnapshot(), Snapshot, None)
        except Refused:
            return None
        found: dict[str, Any] = json.loads(said.state.tobytes())
        return found

    async def show_stacks(self, process: str) -> None:
        """Make a process append its stacks to its file, see `machine.stacks`. A reader of the file
        sees when it has done so."""
        await self._asked(SUPERVISOR, ShowStacks(process=process), Looked, self._patience)

    async def begin_trace(self, iterations: int = 0) -> tuple[str, ...]:
        """Trace the run from now on, for so many iterations or until `end_trace`. Returns lines for
        the person. Raises Refused if the run is being traced already."""
        return (
            await self._asked(SUPERVISOR, BeginTrace(iterations=iterations), Looked, None)
        ).lines

    async def end_trace(self) -> tuple[str, ...]:
        """End the trace, and have trace.json made. Returns lines for the person. Raises Refused if
        the run is not being traced."""
        return (await self._asked(SUPERVISOR, EndTrace(), Looked, None)).lines

    async def save(self) -> None:
        """Ask the lead actor for a checkpoint."""
        await self.tell(self.placement.topology.lead, Save())

    async def scale(
        self,
        *,
        workers: int = 0,
        groups: int = 0,
        without: Sequence[str] = (),
        including: Sequence[str] = (),
    ) -> Scaled:
        """Continue the run with so many workers in so many groups (0: unchanged), without the
        machines in `without`, and with the machines of cluster.toml in `including`. Returns when
        this run has saved the checkpoint from which the next one resumes. Raises ConfigError if the
        run cannot have this shape, and ConvoyError if it cannot be changed now, with the reason."""
        wish = Scale(
            workers=workers, groups=groups, without=tuple(without), including=tuple(including)
        )
        try:
            return await self._asked(SUPERVISOR, wish, Scaled, None)
        except Refused as refused:
            why = str(refused).rpartition(f"{wish!r} of {self._voice.name}: ")[2]
            raise (ConfigError([why]) if refused.mistaken else ConvoyError(why)) from None

    async def end(self, *, now: bool = False) -> str:
        """End the run, in good order or at once (`now`), and wait until it is over. Returns the
        error that ended it, or ""."""
        await self._asked(SUPERVISOR, End(now=now), Ending, self._patience)
        return await self.ended()

    async def ended(self) -> str:
        """Wait until the run is over. Returns the error that ended it, or "". Raises ConvoyError if
        the connection breaks."""
        error = await asyncio.shield(self._over)
        if self.is_broken:
            raise self._ended()
        return error

    async def events(self) -> AsyncIterator[Event]:
        """Yield every event after the client was admitted, until the run is over. Then raises
        ConvoyError if the run failed or the connection broke."""
        async for event in self._events.stream():
            yield event
        if error := await self.ended():
            raise ConvoyError(error)

    async def _asked(
        self, actor: str, message: Message, answer: type[R], timeout: float | None
    ) -> R:
        asking = asyncio.ensure_future(self._voice.ask(actor, message, answer, timeout=timeout))
        either: list[asyncio.Future[Any]] = [asking, self._over]
        try:
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if asking.done():
                return await asking
        except ActorStopped:
            if not (self._is_cut or self.over):
                raise
            await asyncio.shield(self._over)
            raise self._ended() from None
        except AskTimeout:
            if actor == SUPERVISOR:
                raise ConvoyError(f"the run {self.called} does not answer") from None
            raise
        finally:
            asking.cancel()
        raise self._ended()

    def _check(self, actor: str) -> None:
        names = [spec.name for spec in self.placement.topology.actors]
        if actor not in names:
            raise ConfigError([f"no actor of this run is called '{actor}'{hint(actor, names)}"])
        if self._over.done():
            raise self._ended()

    def _check_socket(self) -> None:
        try:
            living = Path(self._plan.supervisor.control[0].removeprefix("unix://")).exists()
        except PermissionError:
            raise ConvoyError(f"the run {self.called} is another user's") from None
        except OSError:  # the plan has no name of a file there
            living = False
        if not living:
            raise self._absent() or self._ended()

    def _absent(self) -> ConvoyError | None:
        """The error for a living `up` whose sockets are not here. None if no `up` lives."""
        presence = present_in(self.directory)
        if presence is None:
            return None
        if presence.sign is Sign.HELD and presence.holder.state == RUNNING:
            why = "it is just beginning or ending, or is in another container"
            return ConvoyError(
                f"the run {self.called} {presence.words}, and its sockets cannot be reached "
                f"from here: {why}"
            )
        return ConvoyError(f"the run {self.called} cannot be reached: {presence.words}")

    def _ended(self) -> ConvoyError:
        if self.is_broken:
            return ConvoyError(f"the connection to the run {self.called} broke; it may go on")
        why = self._over.result() if self._over.done() else ""
        return ActorStopped(f"the run {self.called} is over{': ' if why else ''}{why}")

    def _lost(self) -> None:
        self._is_cut = True
        asyncio.get_running_loop().call_later(LAST_SECONDS if self._takes_part else 0, self._broke)

    def _broke(self) -> None:
        if not self._over.done():
            self.is_broken = self._takes_part
            self._over.set_result("")

    async def _close(self) -> None:
        self._takes_part = False
        await self._node.stop()
        await self._road.close()
        self._broke()


def attach(directory: str | Path) -> Client:
    """A client of the run with this run directory, to be entered with `async with`. Raises
    ConfigError if it is not a run directory. Entering raises ConvoyError if the run is over."""
    return Client(directory)
