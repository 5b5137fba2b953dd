"""A program for the tests of scripts: an adder that sums the numbers in its messages, and roles
that fail in their own ways.
"""

from __future__ import annotations

import asyncio

from runtime import (
    Actor,
    ActorSpec,
    Envelope,
    Message,
    ProgramFailed,
    Save,
    Topology,
    WindDown,
    message,
)


@message
class Add(Message):
    """A number to add; the run ends when the sum reaches `until`."""

    number: int


@message
class Total(Message):
    """The sum so far."""

    total: int


@message
class Never(Message):
    """A question that never gets an answer."""


@message
class Break(Message):
    """Makes the adder raise ProgramFailed."""


class Adder(Actor):
    def __init__(self, *, total: int = 0, until: int = 10) -> None:
        self._total = total
        self._until = until
        self._enough = asyncio.Event()

    async def run(self) -> None:
        await self._enough.wait()
        self.emit("sum", total=self._total)

    async def on_add(self, message: Add, envelope: Envelope) -> None:
        self._total += message.number
        self.emit("added", number=message.number)
        await self.reply(envelope, Total(total=self._total))
        if self._total >= self._until:
            self._enough.set()

    async def on_never(self, message: Never, envelope: Envelope) -> None:
        """Keep the asker waiting."""
        self._kept = envelope

    async def on_break(self, message: Break, envelope: Envelope) -> None:
        raise ProgramFailed("there is nothing to add any more")

    async def on_wind_down(self, message: WindDown, envelope: Envelope) -> None:
        self.emit("winding down", reason=message.reason)
        self._enough.set()

    async def on_save(self, message: Save, envelope: Envelope) -> None:
        self.emit("saved", total=self._total)


class Broken(Actor):
    async def run(self) -> None:
        raise ValueError("no such number: 7")


ROLES = {"adder": Adder, "broken": Broken}


def adders(role: str = "adder", until: int = 10) -> Topology:
    """The lead, of the given role, and one more adder."""
    options = {"until": until} if role == "adder" else {}
    actors = (
        ActorSpec("one", role, options),
        ActorSpec("two", "adder", {"total": 100, "until": 10**9}),
    )
    return Topology(__name__, actors, (("one", "two"),), "one")
