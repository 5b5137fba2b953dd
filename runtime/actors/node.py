"""A node: the actors of one process. It places them, begins and stops them, and hands them what arrives.

An operating-system process hosts one node; a simulated cluster hosts many on one event loop. How messages find their
way is the switchboard's business; starting and watching processes is the supervisor's.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine, Iterable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from runtime.actors.actor import Actor
from runtime.actors.cell import Hosted
from runtime.actors.message_metrics import Meters
from runtime.actors.metrics import Histogram, Metrics
from runtime.actors.router import Place, Switchboard
from runtime.compute.compute import Compute, Item
from runtime.errors import ActorStopped, MessageError
from runtime.memory.arena import IN_PLACE_FROM, Arena
from runtime.messages.message import Array, Envelope, Message
from runtime.transport import Endpoints, Release, Transport

R = TypeVar("R", bound=Message)
LINE = 64  # bytes of a cache line: kernels are fastest on arrays that begin with one


class Node:
    """Hosts actors. `on_event(actor, event, fields)`, `on_failure(actor, error)` and `on_finished()` report upwards."""

    def __init__(self, process: str, incarnation: int, compute: Compute, metrics: Metrics) -> None:
        self.process = process
        self.incarnation = incarnation
        self.compute = compute
        self.metrics = metrics
        self.lead = ""
        self.directory = Path()  # of the run
        self.arena: Arena | None = None  # what peers on this host can read, if there are some
        self.actors: dict[str, Hosted] = {}
        self.on_event: Callable[[str, str, dict[str, Any]], None] = lambda actor, event, fields: None
        self.on_failure: Callable[[str, BaseException], None] = lambda actor, error: None
        self.on_finished: Callable[[], None] = lambda: None
        self.on_work: Callable[[str, str, float], None] = lambda role, label, seconds: None  # array work is done
        compute.on_done = self._worked
        self._log = logging.getLogger(f"convoy.{process}")
        self._meters = Meters(metrics)
        self._switchboard = Switchboard(incarnation, self._meters)
        self._stopped: set[str] = set()
        self._stopping = False

    def __repr__(self) -> str:
        return f"<node {self.process}.{self.incarnation}: {len(self.actors)} actors, {self._switchboard!r}>"

    # -- placing and running actors

    def add(self, name: str, role: str, actor: Actor, device: Compute | None = None) -> None:
        """Place an actor here, with an emulated device of its own if it has one. It does nothing until `prepare` and
        `begin`."""
        actor.attach(self, name, role, device)
        if device is not None:
            device.on_done = self._worked
        self._meters.roles[name] = role
        self.actors[name] = Hosted(actor, self._failed, self.finished, self.reject)

    async def prepare(self, names: Iterable[str]) -> None:
        """Call on_start of the named actors; the first error comes through."""
        for name in names:
            await self.actors[name].actor.on_start()

    def begin(self, names: Iterable[str]) -> None:
        """Open the inboxes of the named actors and start their own work."""
        for name in names:
            self.actors[name].begin()

    async def stop(self, names: Iterable[str] | None = None) -> None:
        """Stop actors (all by default): cancel their work, fail their open asks, call on_stop."""
        chosen = list(self.actors if names is None else names)
        self._stopping = self._stopping or names is None
        self._stopped.update(chosen)
        for name in chosen:
            self.actors[name].cancel()
        self._switchboard.stop(chosen)
        for name in chosen:
            await self.actors.pop(name).ended()

    def memory(self, size: int) -> Array:
        """See Actor.memory."""
        if self.arena is None or size < IN_PLACE_FROM:
            block = np.empty(size + LINE, np.uint8)
            start = -int(block.__array_interface__["data"][0]) % LINE
            return block[start : start + size]
        return self.arena.empty((size,), np.uint8)

    def finished(self, name: str) -> None:
        """An actor's own work is done; the lead's ends the run."""
        if name == self.lead:
            self.on_finished()

    def _failed(self, name: str, error: BaseException) -> None:
        if not self._stopping:
            self.on_failure(name, error)

    def _worked(self, item: Item, seconds: float) -> None:
        hosted = self.actors.get(item.actor)
        if hosted is not None:
            self.on_work(hosted.actor.role, item.label, seconds)

    # -- sending

    def connect(
        self, process: str, incarnation: int, endpoints: Endpoints, actors: Iterable[str], road: Transport
    ) -> None:
        """Make the actors of a process reachable over a transport."""
        road.connect(process, endpoints)
        self._switchboard.know(actors, Place(process, incarnation, road))

    def know(self, actor: str, process: str, incarnation: int, road: Transport) -> None:
        """Accept messages of an actor that cannot be reached (yet)."""
        self._switchboard.know([actor], Place(process, incarnation, road))

    def send(
        self, sender: str, to: str, message: Message, *, step: int = -1, answers: int = 0
    ) -> Coroutine[Any, Any, None]:
        """Send a message of one of this node's actors."""
        return self._switchboard.send(sender, to, message, step=step, answers=answers)

    def ask(
        self, sender: str, to: str, message: Message, answer: type[R], *, step: int, timeout: float | None
    ) -> Coroutine[Any, Any, R]:
        """See Actor.ask."""
        if sender not in self.actors:
            raise ActorStopped(f"{sender} has stopped: it cannot ask {to}")
        return self._switchboard.ask(sender, to, message, answer, step=step, timeout=timeout)

    # -- receiving

    def deliver(self, envelope: Envelope, size: int, release: Release) -> None:
        """A transport hands over what arrived: an answer to its asker, anything else to the receiver's inbox."""
        if envelope.receiver in self._stopped:  # it came too late; that is no offence
            release()
            return
        hosted = self.actors.get(envelope.receiver)
        problem: MessageError | None
        if hosted is None:
            problem = MessageError("unknown_receiver", f"no actor '{envelope.receiver}' lives in {self.process}")
        elif not envelope.answers and type(envelope.message) not in hosted.actor.handlers:
            understood = ", ".join(sorted(kind.__name__ for kind in hosted.actor.handlers))
            problem = MessageError("not_understood", f"{envelope!r}; {envelope.receiver} understands {understood}")
        else:
            problem = self._switchboard.take(envelope)
        if hosted is None or problem is not None:
            release()
            self.reject(envelope.sender, problem)
            return
        self._meters.received(envelope, size)
        if envelope.answers:
            release()
        else:
            hosted.take(envelope, release)

    def reject(self, peer: str, error: MessageError | None) -> None:
        """Count and log a message that was not accepted; it changed nothing."""
        if error is not None and not self._stopping:
            self._meters.rejected(error.reason)
            self._log.warning("rejected a message of %s: %s", peer, error)

    # -- what is going on here

    def status(self) -> list[dict[str, Any]]:
        """One plain dict per actor: what it does, for whom it waits and has waited (seconds), what it has handled."""
        waits = self._switchboard.waits()
        return [
            {
                "actor": name,
                "role": hosted.actor.role,
                "doing": self._computing(name, hosted) or hosted.doing,
                "waiting_for": waits.get(name, ""),
                "waited": dict(self._meters.waits.get(name, {})),
                "handled": hosted.handled,
                "inbox": hosted.waiting,
            }
            for name, hosted in self.actors.items()
        ]

    def _computing(self, name: str, hosted: Hosted) -> str:
        current = hosted.actor.device.current
        return current.label if current is not None and current.actor == name else ""

    def phase_seconds(self, actor: str, phase: str) -> Histogram:
        """The histogram of one phase of one actor."""
        return self._meters.phase(actor, phase)
