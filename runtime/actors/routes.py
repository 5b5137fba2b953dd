"""The records of the router: where actors live, and the open asks."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Set
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar, cast

from runtime.errors import ActorStopped, MessageError, Refused
from runtime.messages.message import Envelope, Lane, Message, Refusal
from runtime.messages.plain_values import Value, unpacked
from runtime.suggest import near_hint
from runtime.transport import Transport

R = TypeVar("R")
MOST_GIVEN_UP = 1024  # asks whose askers no longer wait
MOST_FORMER = 256  # actors that have ended, of which late messages are known


@dataclass(frozen=True, slots=True)
class Home:
    """The place where actors live: their process, its incarnation (which life of it), and the
    transport that leads there.

    `latest` holds the id of the last accepted message for each (sender, lane). A sender's ids only
    grow. A message whose id is not larger was accepted before, or a later message overtook it.
    """

    process: str
    incarnation: int
    road: Transport
    latest: dict[tuple[str, Lane], int] = field(default_factory=dict)


class Homes(dict[str, Home]):
    """The home of each actor that this process has a link to."""

    def __init__(self) -> None:
        super().__init__()
        self._former: dict[str, Home] = {}
        self._lost: dict[str, int] = {}  # actor -> its last life, which ended

    def of_sender(self, actor: str) -> Home | None:
        """Return the home from which messages of an actor come. The last messages of an actor that
        has ended in order may come after its end."""
        return self.get(actor) or self._former.get(actor)

    def forget(self, process: str, *, in_order: bool = False) -> Set[str]:
        """Disconnect a process that has ended, and return its actors. `in_order`: messages that it
        has sent before count."""
        gone = {actor: home for actor, home in self.items() if home.process == process}
        for actor in gone:
            del self[actor]
        for road in {home.road for home in gone.values()}:
            road.disconnect(process, f"process {process} is gone")
        self._lost |= {actor: home.incarnation for actor, home in gone.items()}
        for actor in list(self._lost)[:-MOST_FORMER]:
            del self._lost[actor]
        if in_order:
            self._former |= gone
            for actor in list(self._former)[:-MOST_FORMER]:
                del self._former[actor]
        return gone.keys()

    def is_late(self, envelope: Envelope) -> bool:
        """Whether a message comes from a life of its sender that has ended: it was under way when
        its process died, was told to leave, or ended."""
        return self._lost.get(envelope.sender, 0) == envelope.incarnation


class Returning:
    """The actors whose process has died and is started again. Messages to them wait."""

    def __init__(self) -> None:
        self._actors: dict[str, asyncio.Future[None]] = {}
        self._processes: dict[str, str] = {}  # actor -> its process

    def __contains__(self, actor: str) -> bool:
        return actor in self._actors

    def of(self, process: str) -> set[str]:
        """The actors of this process that are expected."""
        return {actor for actor, home in self._processes.items() if home == process}

    def expect(self, actors: Iterable[str], process: str) -> None:
        """Let messages to these actors of a process wait from now on."""
        loop = asyncio.get_running_loop()
        for actor in actors:
            self._actors.setdefault(actor, loop.create_future())
            self._processes[actor] = process

    def end(self, actors: Iterable[str] | None = None) -> None:
        """Let the messages to these actors go on (by default to all), since the actors are back or
        will not be."""
        for actor in list(self._actors if actors is None else actors):
            self._processes.pop(actor, None)
            back = self._actors.pop(actor, None)
            if back is not None and not back.done():
                back.set_result(None)

    async def wait(self, actor: str) -> None:
        """Wait until the actor is back, if it is expected."""
        while (back := self._actors.get(actor)) is not None:
            await asyncio.shield(back)


class Ask(NamedTuple):
    """An ask of one of this process's actors that is not answered yet."""

    asker: str
    peer: str
    answer: asyncio.Future[Message]
    said: type[Message] = Message
    since: float = 0.0  # loop time

    def waits(self, peer: str, asker: str) -> bool:
        """Whether it waits for an answer of this peer to this asker."""
        return not self.answer.done() and (self.peer, self.asker) == (peer, asker)

    def fail(self, why: str) -> None:
        """Fail the ask with ActorStopped(`why`)."""
        if not self.answer.done():
            self.answer.set_exception(ActorStopped(why))
            # Without this call, asyncio would log the error if the asker is still sending and never
            # awaits the answer.
            self.answer.exception()


class Asks(dict[int, Ask]):
    """The open asks of a process, by their numbers."""

    def __init__(self) -> None:
        super().__init__()
        self._given_up: dict[int, None] = {}  # in order, as keys

    def end(self, number: int) -> None:
        """Close an ask. If its asker has not waited for the answer, the answer may still come."""
        if not (ask := self.pop(number)).answer.done() or ask.answer.cancelled():
            self._given_up[number] = None
            if len(self._given_up) > MOST_GIVEN_UP:
                del self._given_up[next(iter(self._given_up))]

    def given_up(self, number: int) -> bool:
        """Whether the asker has not waited for the answer: after a timeout, or because it was
        cancelled."""
        ask = self.get(number)
        return number in self._given_up if ask is None else ask.answer.cancelled()

    def lost(self, peers: Set[str], process: str) -> None:
        """Fail the asks to these peers, whose process has ended."""
        for ask in list(self.values()):
            if ask.peer in peers:
                ask.fail(f"{ask.peer} will not answer {ask.asker}: its process {process} is gone")

    def stop(self, askers: Set[str]) -> None:
        """Fail the asks of these actors, which stop."""
        for ask in list(self.values()):
            if ask.asker in askers:
                ask.fail(f"{ask.asker} is stopping")


def not_understood(text: str, to: str, known: Iterable[type[Message]]) -> str:
    """The text of an error: `to` understands the `known` messages only."""
    return f"{text}; {to} understands {', '.join(sorted(kind.__name__ for kind in known))}"


def unlinked(sender: str, to: str, linked: Iterable[str], known: Iterable[str]) -> str:
    """Describe a message to an actor that the sender's process has no link to. `known` are the
    actors of the program."""
    known = [*known]
    if to in known:
        return f"{sender} has no link to '{to}': add {(sender, to)} to the links of the topology"
    near = near_hint(to, [*linked, *known])
    return f"{sender} has no link to an actor called '{to}'{near}"


def typed_answer(found: Message, answer: type[R], asked: Envelope) -> R:
    """Return the answer to an ask if it is an `answer`. Raises Refused if the peer refused, and
    MessageError for an answer of another type."""
    to = asked.receiver
    message = asked.message
    if isinstance(found, Refusal):
        refused = Refused(f"{to} refused {message!r} of {asked.sender}: {found.error}")
        refused.mistaken = found.mistaken
        raise refused
    said = unpacked(found) if isinstance(found, Value) and answer is not Value else found
    if isinstance(said, answer):
        return said
    if answer is float and isinstance(said, int):
        return cast("R", float(said))
    told = repr(said)[:80]
    expected = getattr(answer, "__name__", answer)
    raise MessageError("bad_type", f"{to} answered {told} to {message!r}, expected {expected}")
