"""The way from one actor to another: where each lives, how it is reached, which questions await an answer."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Coroutine, Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

from runtime.actors.message_metrics import Meters
from runtime.errors import ActorStopped, AskTimeout, MessageError, Refused
from runtime.messages.message import Envelope, Lane, Message, Refusal
from runtime.transport import Transport

R = TypeVar("R", bound=Message)


@dataclass(frozen=True, slots=True)
class Place:
    """Where actors live: their process, which life of it, and the road there.

    `latest` holds, per sender there and lane, the id of the last message that was taken. The ids of a sender only grow,
    so what has no larger one was taken before, or was overtaken on its way.
    """

    process: str
    incarnation: int
    road: Transport
    latest: dict[tuple[str, Lane], int] = field(default_factory=dict)


class Ask(NamedTuple):
    """A question of one of this process's actors that is not answered yet."""

    asker: str
    peer: str
    answer: asyncio.Future[Message]


class Switchboard:
    """Sends for the actors of one process and takes the answers to their questions."""

    def __init__(self, incarnation: int, meters: Meters) -> None:
        self._incarnation = incarnation
        self._meters = meters
        self._places: dict[str, Place] = {}
        self._ids = itertools.count(1)
        self._asks: dict[int, Ask] = {}

    def __repr__(self) -> str:
        return f"<switchboard: {len(self._places)} actors known, {len(self._asks)} asks open>"

    def know(self, actors: Iterable[str], place: Place) -> None:
        """These actors live there."""
        self._places.update(dict.fromkeys(actors, place))

    def send(
        self, sender: str, to: str, message: Message, *, step: int = -1, answers: int = 0
    ) -> Coroutine[Any, Any, None]:
        """Send a message; waits for byte credits. ActorStopped if nobody of that name is linked."""
        return self._send(self._envelope(sender, to, message, step, "", answers))

    async def ask(
        self, sender: str, to: str, message: Message, answer: type[R], *, step: int, timeout: float | None
    ) -> R:
        """See Actor.ask."""
        loop = asyncio.get_running_loop()
        envelope = self._envelope(sender, to, message, step, sender, 0)
        since = loop.time()
        ask = self._asks[envelope.id] = Ask(sender, to, loop.create_future())
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
            del self._asks[envelope.id]
            self._meters.waited(sender, to, loop.time() - since)
        if isinstance(found, Refusal):
            raise Refused(f"{to} refused {message!r} of {sender}: {found.error}")
        if not isinstance(found, answer):
            raise MessageError("bad_type", f"{to} answered {found!r} to {message!r}, expected {answer.__name__}")
        return found

    def take(self, envelope: Envelope) -> MessageError | None:
        """Note a message that came; an answer goes to its asker. Or why it may not come, and nothing is noted: its
        sender or incarnation is not linked, it was here before, was overtaken, or answers nothing that is open."""
        place = self._places.get(envelope.sender)
        if place is None or place.incarnation != envelope.incarnation:
            return MessageError("unknown_sender", f"{envelope!r}: no such sender or incarnation is linked here")
        if not envelope.answers:
            key = envelope.sender, envelope.message.lane
            if envelope.id > place.latest.get(key, 0):
                place.latest[key] = envelope.id
                return None
            return MessageError("late", f"{envelope!r} came twice, or something sent later came before it")
        ask = self._asks.get(envelope.answers)
        if ask is None or ask.answer.done() or (ask.peer, ask.asker) != (envelope.sender, envelope.receiver):
            return MessageError("unasked", f"{envelope!r} answers nothing that is open")
        ask.answer.set_result(envelope.message)
        return None

    def stop(self, askers: Iterable[str]) -> None:
        """Nobody will answer these any more."""
        for ask in list(self._asks.values()):
            if ask.asker in askers and not ask.answer.done():
                ask.answer.set_exception(ActorStopped(f"{ask.asker} is stopping"))

    def waits(self) -> dict[str, str]:
        """Asker -> the peer of its oldest open question."""
        return {ask.asker: ask.peer for ask in reversed(self._asks.values())}

    def _envelope(self, sender: str, to: str, message: Message, step: int, reply_to: str, answers: int) -> Envelope:
        return Envelope(message, next(self._ids), sender, self._incarnation, to, reply_to, answers, step)

    async def _send(self, envelope: Envelope) -> None:
        place = self._places.get(envelope.receiver)
        if place is None:
            raise ActorStopped(f"{envelope.sender} has no link to an actor called '{envelope.receiver}'")
        await place.road.send(place.process, envelope)
        self._meters.sent(envelope.sender, envelope.message.kind)
