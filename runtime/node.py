"""A node: the actors of one process, their inboxes, and the way from one actor to another.

An operating-system process hosts one node; a simulated cluster hosts many on one event loop. The node knows
which process an actor lives in (`connect`), which messages await an answer, and what each actor is doing now.
Starting and watching processes is the supervisor's work.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from runtime.actor import Actor
from runtime.compute import Compute
from runtime.errors import ActorStopped, AskTimeout, MessageError, Refused
from runtime.messages import Envelope, Message, Refusal
from runtime.metrics import Counter, Histogram, Metrics
from runtime.transport import Endpoints, Release, Transport

R = TypeVar("R", bound=Message)
STOP_SECONDS = 1.0  # how long on_stop of one actor may take


@dataclass
class Hosted:
    """An actor and what the node keeps for it."""

    actor: Actor
    inbox: asyncio.Queue[tuple[Envelope, Release]] = field(default_factory=asyncio.Queue)
    tasks: list[asyncio.Task[None]] = field(default_factory=list)
    handled: int = 0
    doing: str = "idle"


@dataclass(frozen=True, slots=True)
class Ask:
    """A question of one of this node's actors that is not answered yet."""

    asker: str
    peer: str
    answer: asyncio.Future[Message]


class Node:
    """Hosts actors. `on_event(actor, event, fields)`, `on_failure(actor, error)` and `on_finished()` report upwards."""

    def __init__(self, process: str, incarnation: int, compute: Compute, metrics: Metrics) -> None:
        self.process = process
        self.incarnation = incarnation
        self.compute = compute
        self.metrics = metrics
        self.lead = ""
        self.directory = Path()  # of the run
        self.actors: dict[str, Hosted] = {}
        self.on_event: Callable[[str, str, dict[str, Any]], None] = lambda actor, event, fields: None
        self.on_failure: Callable[[str, BaseException], None] = lambda actor, error: None
        self.on_finished: Callable[[], None] = lambda: None
        self._log = logging.getLogger(f"convoy.{process}")
        self._where: dict[str, tuple[str, int, Transport]] = {}  # actor -> (process, incarnation, road)
        self._ids = itertools.count(1)
        self._asks: dict[int, Ask] = {}
        self._counters: dict[tuple[str, str], Counter] = {}
        self._phases: dict[tuple[str, str], Histogram] = {}
        self._stopping = False

    def __repr__(self) -> str:
        return f"<node {self.process}.{self.incarnation}: {len(self.actors)} actors, {len(self._asks)} asks open>"

    # -- placing actors and peers

    def add(self, name: str, role: str, actor: Actor) -> None:
        """Place an actor here. It does nothing until `prepare` and `begin`."""
        actor.name, actor.role, actor._node = name, role, self
        actor.log = logging.getLogger(f"convoy.{name}")
        self.actors[name] = Hosted(actor)

    def connect(
        self, process: str, incarnation: int, endpoints: Endpoints, actors: Iterable[str], road: Transport
    ) -> None:
        """Make the actors of a process reachable over a transport."""
        road.connect(process, endpoints)
        for actor in actors:
            self._where[actor] = (process, incarnation, road)

    def know(self, actor: str, process: str, incarnation: int, road: Transport) -> None:
        """Accept messages of an actor that cannot be reached (yet)."""
        self._where[actor] = (process, incarnation, road)

    async def prepare(self, names: Iterable[str]) -> None:
        """Call on_start of the named actors; the first error comes through."""
        for name in names:
            await self.actors[name].actor.on_start()

    def begin(self, names: Iterable[str]) -> None:
        """Open the inboxes of the named actors and start their own work."""
        for name in names:
            hosted = self.actors[name]
            hosted.tasks = [
                asyncio.create_task(self._guard(name, self._serve(hosted)), name=f"{name} inbox"),
                asyncio.create_task(self._guard(name, self._work(hosted)), name=f"{name} run"),
            ]

    async def stop(self, names: Iterable[str] | None = None) -> None:
        """Stop actors (all by default): cancel their work, fail their open asks, call on_stop."""
        chosen = list(self.actors if names is None else names)
        self._stopping = self._stopping or names is None
        for name in chosen:
            for task in self.actors[name].tasks:
                task.cancel()
        for ask in list(self._asks.values()):
            if ask.asker in chosen and not ask.answer.done():
                ask.answer.set_exception(ActorStopped(f"{ask.asker} is stopping"))
        for name in chosen:
            hosted = self.actors.pop(name)
            await asyncio.gather(*hosted.tasks, return_exceptions=True)
            while not hosted.inbox.empty():
                hosted.inbox.get_nowait()[1]()  # its senders get their credits back
            try:
                await asyncio.wait_for(hosted.actor.on_stop(), STOP_SECONDS)
            except Exception:  # noqa: BLE001  # one actor's bad end must not keep the others from theirs
                self._log.exception("%s: on_stop failed", name)

    # -- sending

    async def send(
        self, sender: str, to: str, message: Message, *, step: int = -1, reply_to: str = "", answers: int = 0
    ) -> int:
        """Send a message from one of this node's actors; returns the envelope's id."""
        envelope = Envelope(message, next(self._ids), sender, self.incarnation, to, reply_to, answers, step)
        await self._send(envelope)
        return envelope.id

    async def ask(
        self, sender: str, to: str, message: Message, answer: type[R], *, step: int, timeout: float | None
    ) -> R:
        """See Actor.ask."""
        if sender not in self.actors:
            raise ActorStopped(f"{sender} has stopped: it cannot ask {to}")
        loop = asyncio.get_running_loop()
        since = loop.time()
        envelope = Envelope(message, next(self._ids), sender, self.incarnation, to, sender, 0, step)
        ask = self._asks[envelope.id] = Ask(sender, to, loop.create_future())
        try:
            async with asyncio.timeout(timeout):
                await self._send(envelope)
                found = await ask.answer
        except TimeoutError:
            raise AskTimeout(f"{sender} asked {to} {message!r}: no answer in {timeout} s") from None
        finally:
            del self._asks[envelope.id]
            waited = loop.time() - since
            self._counter("wait_seconds", "Seconds spent waiting for answers of a peer.", sender, to).inc(waited)
        if isinstance(found, Refusal):
            raise Refused(f"{to} refused {message!r} of {sender}: {found.error}")
        if not isinstance(found, answer):
            raise MessageError("bad_type", f"{to} answered {found!r} to {message!r}, expected {answer.__name__}")
        return found

    async def _send(self, envelope: Envelope) -> None:
        place = self._where.get(envelope.receiver)
        if place is None:
            raise ActorStopped(f"{envelope.sender} has no link to an actor called '{envelope.receiver}'")
        await place[2].send(place[0], envelope)
        self._counter("messages_sent", "Messages sent.", envelope.sender, envelope.message.kind).inc()

    # -- receiving

    def deliver(self, envelope: Envelope, size: int, release: Release) -> None:
        """A transport hands over what arrived: an answer to its asker, anything else to the receiver's inbox."""
        hosted = self.actors.get(envelope.receiver)
        problem = self._problem(envelope, hosted)
        if problem is not None:
            release()
            self.reject(envelope.sender, problem)
            return
        assert hosted is not None
        self._counter("messages_received", "Messages received.", envelope.receiver, envelope.message.kind).inc()
        self._counter("message_bytes_received", "Bytes received.", envelope.receiver, envelope.message.kind).inc(size)
        if envelope.answers:
            release()
            self._asks[envelope.answers].answer.set_result(envelope.message)
        else:
            hosted.inbox.put_nowait((envelope, release))

    def reject(self, peer: str, error: MessageError) -> None:
        """Count and log a message that was not accepted; it changed nothing."""
        if self._stopping:
            return
        self.metrics.counter("messages_rejected", "Messages rejected.", role="node", reason=error.reason).inc()
        self._log.warning("rejected a message of %s: %s", peer, error)

    def _problem(self, envelope: Envelope, hosted: Hosted | None) -> MessageError | None:
        if hosted is None:
            return MessageError("unknown_receiver", f"no actor '{envelope.receiver}' lives in {self.process}")
        place = self._where.get(envelope.sender)
        if place is None or place[1] != envelope.incarnation:
            return MessageError("unknown_sender", f"{envelope!r}: no such sender or incarnation is linked here")
        if envelope.answers:
            ask = self._asks.get(envelope.answers)
            if ask is None or ask.answer.done() or (ask.peer, ask.asker) != (envelope.sender, envelope.receiver):
                return MessageError("unasked", f"{envelope!r} answers nothing that is open")
        elif type(envelope.message) not in hosted.actor.handlers:
            understood = ", ".join(sorted(kind.__name__ for kind in hosted.actor.handlers))
            return MessageError("not_understood", f"{envelope!r}; {envelope.receiver} understands {understood}")
        return None

    # -- the life of an actor

    async def _serve(self, hosted: Hosted) -> None:
        actor = hosted.actor
        while True:
            envelope, release = await hosted.inbox.get()
            hosted.doing = type(envelope.message).__name__
            try:
                await getattr(actor, actor.handlers[type(envelope.message)])(envelope.message, envelope)
            except MessageError as error:  # not legal here: rejected, counted, nothing changed
                self.reject(envelope.sender, error)
                await actor.reply(envelope, Refusal(error=str(error)))
            except Exception as error:
                if not envelope.reply_to:
                    raise
                self._log.exception("%s could not answer %r", actor.name, envelope)
                await actor.reply(envelope, Refusal(error=f"{type(error).__name__}: {error}"))
            finally:
                release()
                hosted.handled += 1
                hosted.doing = "idle"

    async def _work(self, hosted: Hosted) -> None:
        await hosted.actor.run()
        if type(hosted.actor).run is not Actor.run:
            self.finished(hosted.actor.name)

    async def _guard(self, name: str, life: Coroutine[Any, Any, None]) -> None:
        try:
            await life
        except Exception as error:  # noqa: BLE001  # whatever it is, it is this actor's failure: report it
            if not self._stopping:
                self.on_failure(name, error)

    def finished(self, name: str) -> None:
        """An actor's own work is done; the lead's ends the run."""
        if name == self.lead:
            self.on_finished()

    # -- what is going on here

    def status(self) -> list[dict[str, Any]]:
        """One plain dict per actor: what it does, for whom it waits, what it has handled."""
        current = self.compute.current
        waits = {ask.asker: ask.peer for ask in reversed(self._asks.values())}  # the oldest open ask of each
        return [
            {
                "actor": name,
                "role": hosted.actor.role,
                "doing": current.label if current and current.actor == name else hosted.doing,
                "waiting_for": waits.get(name, ""),
                "handled": hosted.handled,
                "inbox": hosted.inbox.qsize(),
            }
            for name, hosted in self.actors.items()
        ]

    def phase_seconds(self, actor: str, role: str, phase: str) -> Histogram:
        """The histogram of one phase of one actor."""
        key = (actor, phase)
        if key not in self._phases:
            self._phases[key] = self.metrics.histogram(
                "phase_duration_seconds",
                "Seconds per phase of an iteration.",
                role=role,
                actor=actor,
                phase=phase,
            )
        return self._phases[key]

    def _counter(self, name: str, help_text: str, actor: str, about: str) -> Counter:
        key = (f"{name}.{actor}", about)
        if key not in self._counters:
            hosted = self.actors.get(actor)
            role = hosted.actor.role if hosted else ""
            label = "peer" if name == "wait_seconds" else "kind"
            self._counters[key] = self.metrics.counter(name, help_text, role=role, actor=actor, **{label: about})
        return self._counters[key]
