"""A machine elsewhere, as `up` knows it: what its agent has said, and its processes. A plain
object: no sockets here.

INVITED -> JOINED -> READY -> GONE          STEPS is the whole table of what an agent may say when
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from functools import singledispatchmethod
from pathlib import Path
from typing import Any

from runtime.cluster.launcher import LOST, Launched
from runtime.cluster.machines.agent_messages import (
    Closed,
    Exited,
    Got,
    Joined,
    Launch,
    Leaving,
    Piece,
    Prepared,
    Problem,
    Signal,
    Started,
)
from runtime.errors import Absent, LaunchError
from runtime.messages.message import Message


class Stage(Enum):
    """How far an agent is."""

    INVITED = "invited"
    JOINED = "joined"
    READY = "ready"
    GONE = "gone"


STEPS: dict[tuple[Stage, type[Message]], Stage] = {
    (Stage.INVITED, Joined): Stage.JOINED,
    (Stage.JOINED, Prepared): Stage.READY,
    (Stage.READY, Started): Stage.READY,
    (Stage.READY, Exited): Stage.READY,
    (Stage.READY, Piece): Stage.READY,
    (Stage.READY, Leaving): Stage.READY,
    (Stage.JOINED, Closed): Stage.GONE,
    (Stage.READY, Closed): Stage.GONE,
    (Stage.JOINED, Problem): Stage.GONE,
    (Stage.READY, Problem): Stage.GONE,
}


@dataclass
class RemoteProcess(Launched):
    """A process there; `log` is the copy here. `how`: how it ended, in words."""

    name: str
    log: Path
    incarnation: int
    tell: Callable[[Message], None]
    ended: asyncio.Future[int]
    how: str = ""

    async def wait(self) -> int:
        """See Launched.wait."""
        return await asyncio.shield(self.ended)

    def signal(self, number: signal.Signals) -> None:
        """See Launched.signal."""
        if not self.ended.done():
            self.tell(Signal(process=self.name, number=int(number)))

    def describe(self, status: int, out_of_memory: bool | None) -> str:
        """See Launched.describe: its machine knows whether memory was short there."""
        return self.how

    def end(self, status: int, how: str) -> None:
        """Its end is known."""
        if not self.ended.done():
            self.how = how
            self.ended.set_result(status)


class RemoteMachine:
    """`tell` says something to its agent, `keep` takes pieces of files, `leaves` hears that it is
    told to go, and how many seconds it stays. `joined`, `ready` and `gone` are done at these
    stages; the first two fail with what keeps the machine from getting there."""

    def __init__(
        self,
        name: str,
        logs: Path,
        tell: Callable[[Message], None],
        keep: Callable[[Piece], None],
        leaves: Callable[[float], None] = lambda seconds: None,
    ) -> None:
        loop = asyncio.get_running_loop()
        self.name = name
        self.stage = Stage.INVITED
        self.heard = 0
        self.joined: asyncio.Future[Joined] = loop.create_future()
        self.ready: asyncio.Future[None] = loop.create_future()
        self.gone: asyncio.Future[None] = loop.create_future()
        self._why = ""  # it is gone
        self._logs = logs
        self._tell = tell
        self._keep = keep
        self._leaves = leaves
        self._born: dict[tuple[str, int], asyncio.Future[RemoteProcess]] = {}
        self._children: dict[tuple[str, int], RemoteProcess] = {}

    def __repr__(self) -> str:
        return f"<machine {self.name} {self.stage.value}: {len(self._children)} processes>"

    @property
    def pid(self) -> int | None:
        """Of its agent, if that has joined."""
        joined = (
            self.joined.done() and not self.joined.cancelled() and self.joined.exception() is None
        )
        return self.joined.result().pid if joined else None

    @property
    def bearing(self) -> bool:
        """Is a process to be started, of which nothing was heard yet?"""
        return bool(self._born)

    async def launch(self, process: str, incarnation: int) -> RemoteProcess:
        """Have a process started. LaunchError."""
        if self.stage is not Stage.READY:
            why = f"{self.stage.value}{f': {self._why}' if self._why else ''}"
            raise LaunchError(
                f"process '{process}' could not be started: machine '{self.name}' is {why}"
            )
        born: asyncio.Future[RemoteProcess] = asyncio.get_running_loop().create_future()
        self._born[process, incarnation] = born
        self._tell(Launch(process=process, incarnation=incarnation))
        return await born

    def take(self, message: Message) -> None:
        """What its agent says; what may not come now is the end of it."""
        following = STEPS.get((self.stage, type(message)))
        if following is None:
            self.lost(f"its agent said {type(message).__name__} while it was {self.stage.value}")
            return
        self.heard += 1
        self.stage = following
        self._take(message)

    @singledispatchmethod
    def _take(self, message: Message) -> None:
        raise NotImplementedError

    @_take.register
    def _(self, message: Joined) -> None:
        if not self.joined.done():
            self.joined.set_result(message)

    @_take.register
    def _(self, message: Prepared) -> None:
        if not self.ready.done():
            self.ready.set_result(None)

    @_take.register
    def _(self, message: Started) -> None:
        key = message.process, message.incarnation
        born = self._born.pop(key, None)
        if born is None or born.done():
            return
        if message.error:
            born.set_exception(LaunchError(f"machine '{self.name}': {message.error}"))
            return
        ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        log = self._logs / f"{message.process}.log"
        child = self._children[key] = RemoteProcess(
            message.process, log, message.incarnation, self._tell, ended
        )
        born.set_result(child)

    @_take.register
    def _(self, message: Exited) -> None:
        child = self._children.pop((message.process, message.incarnation), None)
        if child is not None:
            child.end(message.status, message.how)

    @_take.register
    def _(self, message: Piece) -> None:
        self._keep(message)
        self._tell(Got())

    @_take.register
    def _(self, message: Leaving) -> None:
        self._leaves(message.seconds)

    @_take.register
    def _(self, message: Closed) -> None:
        self._end("its agent has ended")

    @_take.register
    def _(self, message: Problem) -> None:
        self._end(message.error)

    def lost(self, why: str) -> None:
        """Nothing more will be heard of it."""
        if self.stage is not Stage.GONE:
            self.stage = Stage.GONE
            self._end(why)

    def _end(self, why: str) -> None:
        self._why = why
        error = Absent(self.name, f": {why}")
        waited: list[asyncio.Future[Any]] = [self.joined, self.ready, *self._born.values()]
        for future in waited:
            if not future.done():
                future.set_exception(error)
                future.exception()  # whoever does not wait for it misses nothing
        for child in self._children.values():
            child.end(LOST, f"is lost with its machine '{self.name}': {why}")
        self._born.clear()
        self._children.clear()
        if not self.gone.done():
            self.gone.set_result(None)
