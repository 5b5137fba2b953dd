"""The clients of a run: processes outside the run that take part in it, as the supervisor sees
them. `attached/attach.py` is the client's end.

      client                             supervisor
         |  --- Attach ------------------>   over its private socket (plan.json), or from elsewhere
         |  <-- Attached -----------------
         |  --- a message to an actor --->   sent on in the supervisor's name; an ask is answered
         |  --- GetStatus --------------->   answered with the supervisor's own knowledge
         |  --- BeginTrace, ShowStacks -->   answered by the function that does it, see `looks`
         |  --- Scale ------------------->   answered by the code that makes the next run
         |  <-- EventReport --------------   every event from now on
         |  <-- Parting ------------------   the run is over

All messages go through the supervisor, so no process of the run ever waits for a client that is
slow or has died.
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
from runtime.errors import ConfigError, ConvoyError, Refused
from runtime.messages.message import Envelope, Json, Message, Refusal, message
from runtime.plan.topology import SUPERVISOR
from runtime.transport import Endpoints, Release, Transport

Answer = Callable[[Any], Awaitable[Message]]
CLIENT = "client-"  # the names of clients begin with this
MAX_REPORTS = 10_000  # events queued for one client; more are counted and reported as missed
PARTING_SECONDS = 1.0


@message
class Attach(Message):
    """A client has started. The fields give the addresses where it listens, see Endpoints."""

    control: tuple[str, ...]
    bulk: tuple[str, ...]
    host: str


@message
class Attached(Message):
    """The client takes part in the run."""


@message
class GetStatus(Message):
    """Ask for the state of every process and actor."""


@message
class RunStatus(Message):
    """`processes`: process -> its stage and the facts of its greeting. `actors`: actor -> its
    status in the last heartbeat."""

    processes: Json
    actors: Json


@message
class End(Message):
    """Bring the run to a good end, or end it `now`. Answered before that begins."""

    now: bool


@message
class Ending(Message):
    """The run is about to end."""


@message
class Scale(Message):
    """Continue with so many `workers` in so many `groups` (0: as many as now). `without` and
    `including` name machines of cluster.toml to remove from the current ones and to add. A machine
    that is `leaving` was told to go. Answered once this run has saved the state for the next run;
    refused, with a text for people, if the run cannot be scaled."""

    workers: int = 0
    groups: int = 0
    without: tuple[str, ...] = ()
    including: tuple[str, ...] = ()
    leaving: str = ""


@message
class Scaled(Message):
    """The run ends now, and the next run, in the run directory called `run`, resumes from its
    state. `at` describes the point where it resumes. `warnings` are for the user. With `live` the
    same run goes on, and `at` describes what has changed."""

    run: str
    at: str
    warnings: tuple[str, ...] = ()
    live: bool = False


@message
class Parting(Message):
    """The run is over. `error` is the error that ended it, or ""."""

    error: str


async def nobody_reads() -> None:
    """Do not wait for readers: all clients of the run are on this host."""


@dataclass
class _Client:
    incarnation: int
    road: Transport
    reports: asyncio.Queue[Message] = field(default_factory=asyncio.Queue)
    missed: int = 0
    tasks: set[asyncio.Task[None]] = field(default_factory=set)


class Clients:
    """Admits clients, relays their messages, and sends them the events of the run.

    `voice` is the actor that sends messages for them, from `began` on. Agents can be asked before
    that. `status` returns the state of the run, and `end` ends the run for a client. `answers`:
    type of message -> the function that answers it.
    """

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
        # awaited after all clients were sent the end of the run, before they are disconnected
        self.read_out = nobody_reads
        self._tasks: set[asyncio.Task[None]] = set()  # of all clients, also of former ones

    def __repr__(self) -> str:
        return f"<{len(self._clients)} clients>"

    def take(self, envelope: Envelope, release: Release, road: Transport) -> bool:
        """Handle a message of a client. Returns False if the message does not come from a client.
        `road` is the transport on which it came."""
        name = envelope.sender
        client = self._clients.get(envelope.sender)
        if client is None and isinstance(envelope.message, Attach) and name.startswith(CLIENT):
            if not self._over:  # when the run is over, the client sees a broken connection
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
            said = Refusal(error=str(error), mistaken=isinstance(error, ConfigError))
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
            if isinstance(error, Refused):  # the client's process adds the actor and the message
                text = text.removeprefix(f"{to} refused {said!r} of {SUPERVISOR}: ")
            answer = Refusal(error=text)
            if not envelope.reply_to:  # the client does not wait for an answer
                logging.getLogger("convoy").warning(
                    "a message of %s is lost: %s", envelope.sender, text
                )
        finally:
            release()
        if envelope.reply_to:
            await self._home.send(to, envelope.sender, answer, answers=envelope.id)

    def _spawn(self, client: _Client, work: Coroutine[Any, Any, None]) -> None:
        async def done() -> None:
            try:
                await work
            except ConvoyError as error:  # the client has left, or a message cannot be encoded
                logging.getLogger("convoy").info("a client: %s", error)

        task = asyncio.create_task(done())
        client.tasks.add(task)
        task.add_done_callback(client.tasks.discard)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # -- a watcher

    def event(self, actor: str, event: str, fields: dict[str, Any]) -> None:
        """Queue an event of the run for every client."""
        for client in self._clients.values():
            if client.reports.qsize() < MAX_REPORTS:
                report = EventReport(actor=actor, event=event, fields=fields, at=self._voice.now())
                client.reports.put_nowait(report)
            else:
                client.missed += 1

    def beat(self, process: str, heartbeat: Heartbeat) -> None:
        """Ignore a heartbeat: clients do not get heartbeats."""

    def failed(self, error: ConvoyError) -> None:
        """Keep the error that ended the run for the last message to clients."""
        self._error = str(error)

    # -- the end

    def lost(self, process: str) -> None:
        """Forget a client whose connection broke. Connections of other processes are ignored."""
        client = self._clients.pop(process, None)
        if client is not None:
            for task in client.tasks:
                task.cancel()
            self._home.lost(process)

    async def close(self) -> None:
        """Report to all clients that the run is over, and admit no more."""
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
