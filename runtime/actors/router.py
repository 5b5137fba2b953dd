"""The way from one actor to another: the process of each actor, the open asks, and the inbox that a
message goes into."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Collection, Coroutine, Iterable, Mapping
from typing import Any, TypeVar

from runtime.actors.cell import Cell
from runtime.actors.host_copies import HostCopies
from runtime.actors.message_metrics import MessageMetrics
from runtime.actors.rejections import Rejections
from runtime.actors.routes import (
    Ask,
    Asks,
    Home,
    Homes,
    Returning,
    not_understood,
    typed_answer,
    unlinked,
)
from runtime.errors import ActorStopped, AskTimeout, MessageError, Unsendable
from runtime.messages.message import Envelope, Message
from runtime.tracing.tracer import Tracer
from runtime.transport import Release

R = TypeVar("R")


class Router:
    """Sends messages for the actors of one process (`cells`), and delivers arriving messages."""

    def __init__(
        self, process: str, incarnation: int, cells: Mapping[str, Cell], metrics: MessageMetrics
    ) -> None:
        self.stopped: set[str] = set()  # actors that lived here
        self.stopping = False  # the whole process is stopping
        # actor -> the message classes that it understands, if that is known
        self.vocabulary: dict[str, Collection[type[Message]]] = {}
        self._process = process
        self._incarnation = incarnation
        self._cells = cells
        self._metrics = metrics
        self._homes = Homes()
        self._returning = Returning()
        self.host_copies = HostCopies(cells, self._process_of)
        self._ids = itertools.count(1)
        self.asks = Asks()
        self.tracer: Tracer | None = None  # while this process is traced
        self.rejections = Rejections(logging.getLogger(f"convoy.{process}"))

    def __repr__(self) -> str:
        return f"<router: {len(self._homes)} actors known, {len(self.asks)} asks open>"

    def know(self, actors: Iterable[str], home: Home) -> None:
        """Record that these actors live at `home`."""
        actors = tuple(actors)
        for actor in actors:
            self._homes[actor] = home
        self._returning.end(actors)

    def _process_of(self, actor: str) -> str:
        home = self._homes.get(actor)
        return "" if home is None else home.process

    # -- sending

    def send(
        self, sender: str, to: str, message: Message, *, step: int = -1, answers: int = 0
    ) -> Coroutine[Any, Any, None]:
        """Send a message, or the answer to ask number `answers`. Raises ActorStopped if no actor
        called `to` is linked."""
        if to in self._returning or self.host_copies.needed(to, message):
            return self._send_later(sender, to, message, step, answers)
        return self._send(
            Envelope(message, next(self._ids), sender, self._incarnation, to, "", answers, step)
        )

    def answer(
        self, sender: str, envelope: Envelope, message: Message
    ) -> Coroutine[Any, Any, None]:
        """Answer an ask. The answer to an asker that has died is dropped, since the asks of its
        next life have the same numbers."""
        asker = self._homes.get(envelope.reply_to)
        if asker is None or asker.incarnation != envelope.incarnation:
            return asyncio.sleep(0)
        to = envelope.reply_to
        return self.send(sender, to, message, step=envelope.step, answers=envelope.id)

    async def _send_later(
        self, sender: str, to: str, message: Message, step: int, answers: int
    ) -> None:
        """Send a message once its receiver is back and can read its arrays. Its number is then
        taken: a number that is taken before would come late."""
        await self._returning.wait(to)
        message = await self.host_copies.of(to, message)
        await self.send(sender, to, message, step=step, answers=answers)

    async def ask(
        self,
        sender: str,
        to: str,
        message: Message,
        answer: type[R],
        *,
        step: int,
        timeout: float | None,
    ) -> R:
        """Send a message and wait for its answer, like `Actor.ask`."""
        if sender in self.stopped:
            raise ActorStopped(f"{sender} has stopped: it cannot ask {to}")
        await self._returning.wait(to)
        if self.host_copies.needed(to, message):
            message = await self.host_copies.of(to, message)
        loop = asyncio.get_running_loop()
        envelope = Envelope(
            message, next(self._ids), sender, self._incarnation, to, sender, 0, step
        )
        since = loop.time()
        ask = self.asks[envelope.id] = Ask(sender, to, loop.create_future(), type(message), since)
        try:
            if timeout is None:
                await self._send(envelope)
                found = await ask.answer
            else:
                async with asyncio.timeout(timeout):
                    await self._send(envelope)
                    found = await ask.answer
        except TimeoutError:
            raise AskTimeout(f"{sender} asked {to} {message!r}: no answer in {timeout} s") from None
        finally:
            self.asks.end(envelope.id)
            self._metrics.waited(sender, to, loop.time() - since)
            if self.tracer is not None:
                self.tracer.waited(envelope, since)
        return typed_answer(found, answer, envelope)

    async def _send(self, envelope: Envelope) -> None:
        message = envelope.message
        sender = envelope.sender
        to = envelope.receiver
        understood = self.vocabulary.get(to)
        if understood is not None and type(message) not in understood and not envelope.answers:
            text = not_understood(f"{sender} cannot send {message!r} to {to}", to, understood)
            raise Unsendable("not_understood", text)
        place = self._homes.get(to)
        if place is None:
            raise ActorStopped(unlinked(sender, to, self._homes, self.vocabulary))
        began = None if self.tracer is None else self.tracer.sending(envelope)
        try:
            await place.road.send(place.process, envelope)
        except ActorStopped as error:
            if envelope.answers and to not in self._homes:
                return
            raise ActorStopped(f"{sender} cannot send to {to}: {error}") from None
        if began is not None and self.tracer is not None:
            self.tracer.sent(envelope, began)
        self._metrics.sent(sender, message.kind)

    # -- receiving

    def deliver(self, envelope: Envelope, size: int, release: Release) -> None:
        """Take a message from a transport. An answer goes to its asker, any other message into the
        receiver's inbox."""
        receiver = envelope.receiver
        answers = envelope.answers
        if receiver in self.stopped:  # it came too late; the sender did nothing wrong
            release()
            return
        cell = self._cells.get(receiver)
        if cell is None:
            text = f"no actor '{receiver}' lives in {self._process}"
            problem: MessageError | None = MessageError("unknown_receiver", text)
        elif not answers and type(envelope.message) not in cell.actor.handlers:
            text = not_understood(repr(envelope), receiver, cell.actor.handlers)
            problem = MessageError("not_understood", text)
        else:
            problem = self._take(envelope)
        if cell is None or problem is not None:
            release()
            is_late = self._homes.is_late(envelope)
            if is_late or (answers and self.asks.given_up(answers)):  # no mistake of its sender
                self._metrics.rejected("unknown_sender" if is_late else "unasked")
                return
            self.reject(envelope.sender, problem)
            return
        self._metrics.received(envelope, size)
        if answers:
            release()
        else:
            cell.take(envelope, release)

    def _take(self, envelope: Envelope) -> MessageError | None:
        """Check and record a message, and pass an answer to its asker. If it is not legal, change
        nothing and return the reason: its sender or incarnation is not linked; it came twice or
        after a later message; it answers no open ask."""
        message, number, sender, incarnation, receiver, _, answers, _ = envelope
        place = self._homes.of_sender(sender)
        if place is None or place.incarnation != incarnation:
            text = f"{envelope!r}: no such sender or incarnation is linked here"
            return MessageError("unknown_sender", text)
        if not answers:
            key = sender, message.lane
            if number > place.latest.get(key, 0):
                place.latest[key] = number
                return None
            text = f"{envelope!r} came twice, or after a message that was sent later"
            return MessageError("late", text)
        ask = self.asks.get(answers)
        if ask is None or not ask.waits(sender, receiver):
            return MessageError("unasked", f"{envelope!r} answers no open ask")
        if self.tracer is not None:
            self.tracer.answered(envelope)
        ask.answer.set_result(message)
        return None

    def reject(self, peer: str, error: MessageError | None) -> None:
        """Count and log a message that was not accepted. It changed nothing."""
        if error is not None and not self.stopping:
            self._metrics.rejected(error.reason)
            self.rejections.note(peer, error)

    # -- ends

    def lost(self, process: str, *, returns: bool = False, in_order: bool = False) -> set[str]:
        """Forget a process that has died, and return its actors. Open asks to them, and senders
        that wait for its credits, get ActorStopped. If it `returns`, new messages to them wait for
        its next life; else messages that have waited get ActorStopped, too. If it has ended
        `in_order`, the messages that it has sent before count."""
        gone = {*self._homes.forget(process, in_order=in_order), *self._returning.of(process)}
        if returns:
            self._returning.expect(gone, process)
        else:
            self._returning.end(gone)
        self.asks.lost(gone, process)
        return gone

    def stop(self, askers: Iterable[str]) -> None:
        """Fail the open asks of actors that stop."""
        self.stopped.update(askers)
        if self.stopping:
            self._returning.end()
            self.host_copies.close()
        self.asks.stop(self.stopped)
