"""Who is outside a run and takes part in it, as the supervisor sees it. `attached/attach.py` is the
other end.

      client                             supervisor
         |  --- Attach ------------------>   over its private socket (plan.json), or from elsewhere
         |  <-- Attached -----------------
         |  --- a message to an actor --->   asked or told in the supervisor's name; answered
         |  --- GetStatus --------------->   answered by what the supervisor knows
         |  --- BeginTrace, ShowStacks -->   answered by who does it, see `looks`
         |  --- Scale ------------------->   answered by whoever makes the next run
         |  <-- EventReport --------------   every event from now on
         |  <-- Parting ------------------   the run is over

All goes through the supervisor: no process of the run ever waits for a client that is slow or gone.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any

from runtime.actors.actor import Actor
from runtime.actors.node import Node
from runtime.cluster.lifecycle import EventReport, Heartbeat, is_agent
from runtime.errors import ConvoyError, Refused
from runtime.messages.message import Envelope, Json, Message, Refusal, message
from runtime.plan.topology import SUPERVISOR
from runtime.transport import Endpoints, Release, Transport

Answer = Callable[[Any], Awaitable[Message]]
CLIENT = "client-"  # how the names of clients begin
MAX_REPORTS = 10_000  # events that wait for one client; it is told how many it missed
PARTING_SECONDS = 1.0


@message
class Attach(Message):
    """A client is up: where it listens, see Endpoints."""

    control: tuple[str, ...]
    bulk: tuple[str, ...]
    host: str


@message
class Attached(Message):
    """It takes part."""


@message
class GetStatus(Message):
    """What is known of every process and actor?"""


@message
class RunStatus(Message):
    """Process -> its stage, and what it said of itself when it greeted; actor -> what its last
    heartbeat said."""

    processes: Json
    actors: Json


@message
class End(Message):
    """Bring the run to a good end, or end it `now`. Answered before that begins."""

    now: bool


@message
class Ending(Message):
    """It is about to."""


@message
class Scale(Message):
    """Go on with so many `workers` in so many `groups` (0: as many as now), on the machines of now
    `without` these and `including` others of cluster.toml. A machine that is `leaving` was told to
    go. Answered once this run has saved what the next goes on from; refused in words if that cannot
    be."""

    workers: int = 0
    groups: int = 0
    without: tuple[str, ...] = ()
    including: tuple[str, ...] = ()
    leaving: str = ""


@message
class Scaled(Message):
    """The run ends now, and the one in the run directory called `run` goes on from there; `at` says
    where, `warnings` what the person should know."""

    run: str
    at: str
    warnings: tuple[str, ...] = ()


@message
class Parting(Message):
    """The run is over. `error` ended it; "" if none did."""

    error: str


async def nobody_reads() -> None:
    """Of a run whose clients are all of this host."""


@dataclass
class _Client:
    incarnation: int
    road: Transport
    reports: asyncio.Queue[Message] = field(default_factory=asyncio.Queue)
    missed: int = 0
    tasks: set[asyncio.Task[None]] = field(default_factory=set)


class Clients:
    """Admits, relays, and is a watcher that tells every client. `voice` speaks for them from
    `began` on; `status` is what they are told at any time, `end` what ends the run for them;
    `answers`: message -> who answers it. Agents are asked before the run has begun, too."""

    def __init__(
        self,
        home: Node,
        voice: Actor,
        began: asyncio.Event,
        status: Callable[[], tuple[dict[str, Any], dict[str, Any]]],
        end: Callable[[bool], Awaitable[None]],
        answers: Mapping[type[Message], Answer],
    ) -> None:
        self._home = home
        self._voice = voice
        self._began = began
        self._status = status
        self._end = end
        self._answers = answers
        self._clients: dict[str, _Client] = {}
        self._error = ""
        self._over = False
        # awaited when all have heard of the end, before they are let go
        self.read_out = nobody_reads
        self._tasks: set[asyncio.Task[None]] = set()  # of all, also of those that are gone

    def __repr__(self) -> str:
        return f"<{len(self._clients)} clients>"

    def take(self, envelope: Envelope, release: Release, road: Transport) -> bool:
        """Take what is a client's business; False if it is somebody else's. `road`: where it came
        from."""
        name = envelope.sender
        client = self._clients.get(envelope.sender)
        if client is None and isinstance(envelope.message, Attach) and name.startswith(CLIENT):
            if not self._over:  # or it hears that the connection broke
                self._admit(envelope, envelope.message, road)
            release()
            return True
        if client is None or client.incarnation != envelope.incarnation or client.road is not road:
            return False
        if isinstance(envelope.message, GetStatus):
            release()
            self._spawn(client, self._tell_status(envelope))
        elif isinstance(envelope.message, End):
            release()
            self._spawn(client, self._end_it(envelope, envelope.message.now))
        elif type(envelope.message) in self._answers:
            release()
            self._spawn(client, self._answer(envelope))
        else:
            self._spawn(client, self._relay(envelope, release))
        return True

    def _admit(self, envelope: Envelope, attach: Attach, road: Transport) -> None:
        name = envelope.sender
        where = Endpoints(attach.control, attach.bulk, host=attach.host)
        self._home.connect(name, envelope.incarnation, where, [name], road)
        client = self._clients[name] = _Client(envelope.incarnation, road)
        self._spawn(client, self._feed(name, client, envelope.id))

    async def _feed(self, name: str, client: _Client, attached: int) -> None:
        await self._home.send(SUPERVISOR, name, Attached(), answers=attached)
        report: Message = Attached()
        while not isinstance(report, Parting):
            report = await client.reports.get()
            if client.missed:
                missed = {"events": client.missed}
                client.missed = 0
                lost = EventReport(
                    actor=SUPERVISOR, event="missed", fields=missed, at=self._voice.now()
                )
                await self._home.send(SUPERVISOR, name, lost)
            await self._home.send(SUPERVISOR, name, report)

    async def _tell_status(self, envelope: Envelope) -> None:
        processes, actors = self._status()
        said = RunStatus(processes=processes, actors=actors)
        await self._home.send(SUPERVISOR, envelope.sender, said, answers=envelope.id)

    async def _end_it(self, envelope: Envelope, now: bool) -> None:
        await self._home.send(SUPERVISOR, envelope.sender, Ending(), answers=envelope.id)
        await self._end(now)

    async def _answer(self, envelope: Envelope) -> None:
        said: Message
        try:
            said = await self._answers[type(envelope.message)](envelope.message)
        except ConvoyError as error:
            said = Refusal(error=str(error))
        await self._home.send(SUPERVISOR, envelope.sender, said, answers=envelope.id)

    async def _relay(self, envelope: Envelope, release: Release) -> None:
        to = envelope.receiver
        said = envelope.message
        answer: Message
        try:
            if not is_agent(to):
                await self._began.wait()
            if not envelope.reply_to:
                await self._voice.tell(to, said, step=envelope.step)
                return
            answer = await self._voice.ask(to, said, Message, step=envelope.step)
        except ConvoyError as error:
            text = str(error)
            if isinstance(error, Refused):  # the client's own process says of whom and what
                text = text.removeprefix(f"{to} refused {said!r} of {SUPERVISOR}: ")
            answer = Refusal(error=text)
            if not envelope.reply_to:  # nobody waits for a word
                logging.getLogger("convoy").warning(
                    "what %s told is lost: %s", envelope.sender, text
                )
        finally:
            release()
        if envelope.reply_to:
            await self._home.send(to, envelope.sender, answer, answers=envelope.id)

    def _spawn(self, client: _Client, work: Coroutine[Any, Any, None]) -> None:
        async def done() -> None:
            try:
                await work
            except ConvoyError as error:  # it is gone, or said what cannot travel
                logging.getLogger("convoy").info("a client: %s", error)

        task = asyncio.create_task(done())
        client.tasks.add(task)
        task.add_done_callback(client.tasks.discard)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # -- a watcher

    def event(self, actor: str, event: str, fields: dict[str, Any]) -> None:
        """See Watcher."""
        for client in self._clients.values():
            if client.reports.qsize() < MAX_REPORTS:
                report = EventReport(actor=actor, event=event, fields=fields, at=self._voice.now())
                client.reports.put_nowait(report)
            else:
                client.missed += 1

    def beat(self, process: str, heartbeat: Heartbeat) -> None:
        """Clients do not hear of heartbeats."""

    def failed(self, error: ConvoyError) -> None:
        """See Watcher."""
        self._error = str(error)

    # -- the end

    def lost(self, process: str) -> None:
        """The connection to a process broke; if it is a client's, nothing of that client is
        kept."""
        client = self._clients.pop(process, None)
        if client is not None:
            for task in client.tasks:
                task.cancel()
            self._home.lost(process)

    async def close(self) -> None:
        """The run is over: say so to those that listen, and admit nobody more."""
        self._over = True
        tasks = [task for client in self._clients.values() for task in client.tasks]
        for client in self._clients.values():
            client.reports.put_nowait(Parting(error=self._error))
        if tasks:
            await asyncio.wait(tasks, timeout=PARTING_SECONDS)
        await self.read_out()
        for name in list(self._clients):
            self.lost(name)
        await asyncio.gather(*self._tasks, return_exceptions=True)
