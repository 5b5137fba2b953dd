"""A program for the tests of commands that look at a run: actors that compute, wait, are stuck, and
log.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import threading

from runtime import Actor, ActorSpec, Envelope, Message, Topology, WindDown, message


@message
class Unanswered(Message):
    """A question that never gets an answer."""


@message
class Asked(Message):
    """A question that is answered as soon as Unanswered has come."""


@message
class Block(Message):
    """Makes the actor block its event loop for ever."""


@message
class Hold(Message):
    """Makes the actor keep the interpreter's lock until the test writes into this named pipe."""

    pipe: str


@message
class Hello(Message):
    """A greeting that is answered at once."""


@message
class Line(Message):
    """A text to log."""

    text: str


class Lead(Actor):
    """Ends the run on a WindDown."""

    def __init__(self) -> None:
        self._over = asyncio.Event()

    async def run(self) -> None:
        await self._over.wait()

    async def on_wind_down(self, message: WindDown, envelope: Envelope) -> None:
        self._over.set()


class Busy(Actor):
    """Computes all the time, and greets the deaf actor after each piece of work."""

    async def run(self) -> None:
        while True:
            await self.compute("grind", pause.wait, 0.02)
            await self.ask("deaf", Hello(), Hello, step=self.steps)
            self.stepped()


class Asker(Actor):
    """Waits for an answer that never comes."""

    async def run(self) -> None:
        await self.ask("deaf", Unanswered(), Hello)


class Deaf(Actor):
    """Answers greetings but not Unanswered, and logs."""

    def __init__(self) -> None:
        self._asked = False
        self._curious: list[Envelope] = []

    async def on_hello(self, message: Hello, envelope: Envelope) -> None:
        await self.reply(envelope, Hello())

    async def on_unanswered(self, message: Unanswered, envelope: Envelope) -> None:
        """Keep the asker waiting."""
        self._kept = envelope
        self._asked = True
        for curious in self._curious:
            await self.reply(curious, Hello())

    async def on_asked(self, message: Asked, envelope: Envelope) -> None:
        if self._asked:
            await self.reply(envelope, Hello())
        else:
            self._curious.append(envelope)

    async def on_line(self, message: Line, envelope: Envelope) -> None:
        self.log.info("%s", message.text)
        await self.reply(envelope, Hello())


class Stuck(Actor):
    """Blocks its event loop or its interpreter on request."""

    async def on_block(self, message: Block, envelope: Envelope) -> None:
        stuck_here()

    async def on_hold(self, message: Hold, envelope: Envelope) -> None:
        hold_here(message.pipe)


pause = threading.Event()  # never set


def stuck_here() -> None:
    threading.Event().wait()


def hold_here(pipe: str) -> None:
    end = os.open(pipe, os.O_RDWR)
    # as a library does that never releases the lock
    ctypes.PyDLL(None).read(end, ctypes.create_string_buffer(1), 1)
    os.close(end)


ROLES = {"lead": Lead, "busy": Busy, "asker": Asker, "deaf": Deaf, "stuck": Stuck}


def watched() -> Topology:
    """The busy actor and the asker talk to the deaf one; the lead is linked to the stuck one and
    waits for the end.
    """
    actors = tuple(ActorSpec(role, role) for role in ROLES)
    return Topology(
        __name__, actors, (("busy", "deaf"), ("asker", "deaf"), ("lead", "stuck")), "lead"
    )
