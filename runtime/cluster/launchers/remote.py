"""Another machine, as `up` knows it: the state of its agent, and its processes. A plain object
without sockets.

INVITED -> JOINED -> READY -> GONE          STEPS is the whole table of messages that an agent
                                            may send
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
from runtime.cluster.machines.invitation import Invitation
from runtime.errors import Absent, LaunchError
from runtime.messages.message import Message


class Stage(Enum):
    """The state of an agent."""

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
    """A process on another machine. `log` is the copy of its log on this host. `how` describes in
    words how it ended."""

    name: str
    log: Path
    incarnation: int
    tell: Callable[[Message], None]
    ended: asyncio.Future[int]
    how: str = ""

    async def wait(self) -> int:
        return await asyncio.shield(self.ended)

    def signal(self, number: signal.Signals) -> None:
        if not self.ended.done():
            self.tell(Signal(process=self.name, number=int(number)))

    def describe(self, status: int, out_of_memory: bool | None) -> str:
        """The text comes from the process's machine, which knows whether memory ran out there."""
        return self.how

    def end(self, status: int, how: str) -> None:
        """Note how the process ended."""
        if not self.ended.done():
            self.how = how
            self.ended.set_result(status)


class RemoteMachine:
    """`tell` sends a message to the machine's agent, and `keep` takes pieces of files. `leaves` is
    called when the machine is told to go, with the number of seconds that it stays.

    `invitation` admits its agent, once it is invited. `joined`, `ready` and `gone` are done when
    the agent reaches these stages. The first two fail with the error that keeps the machine from
    reaching them.
    """

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
        self.invitation: Invitation | None = None
        self.heard = 0
        self.joined: asyncio.Future[Joined] = loop.create_future()
        self.ready: asyncio.Future[None] = loop.create_future()
        self.gone: asyncio.Future[None] = loop.create_future()
        self._why = ""  # the reason for which the agent is gone
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
        """The process id of its agent, or None if the agent has not joined."""
        joined = (
            self.joined.done() and not self.joined.cancelled() and self.joined.exception() is None
        )
        return self.joined.result().pid if joined else None

    @property
    def bearing(self) -> bool:
        """Whether a process was ordered and has not been reported as started."""
        return bool(self._born)

    async def launch(self, process: str, incarnation: int) -> RemoteProcess:
        """Start a process there. Raises LaunchError."""
        if self.stage is not Stage.READY:
            why = f"{self.stage.value}{f': {self._why}' if self._why else ''}"
            raise Absent(self.name, f" is {why}: process '{process}' could not be started")
        born: asyncio.Future[RemoteProcess] = asyncio.get_running_loop().create_future()
        self._born[process, incarnation] = born
        self._tell(Launch(process=process, incarnation=incarnation))
        return await born

    def take(self, message: Message) -> None:
        """Take a message of its agent. A message that is not legal now ends the machine's part in
        the run."""
        following = STEPS.get((self.stage, type(message)))
        if following is None:
            self.lost(f"its agent sent {type(message).__name__} while it was {self.stage.value}")
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
        """Note that no more messages will come from the machine."""
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
                future.exception()  # marked as retrieved: a future without a waiter is no fault
        for child in self._children.values():
            child.end(LOST, f"is lost with its machine '{self.name}': {why}")
        self._born.clear()
        self._children.clear()
        if not self.gone.done():
            self.gone.set_result(None)
