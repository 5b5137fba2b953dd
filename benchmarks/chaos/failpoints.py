"""The built-in program, in whose processes one can be told to kill itself at a certain point of its
work.

before    it is about to send a message
between   half of a message's bytes are with the system, the other half never comes
after     a message is with the system, nothing of its receiver is read any more
apply     array work is done, a step of the model or a sum for example, or a message is handled, and nobody has
          been told
"""

from __future__ import annotations

import os
import signal
import struct
from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import roles
from runtime.actors.router import Router
from runtime.actors.service import Service
from runtime.compute.compute import Compute, Item
from runtime.messages.message import Envelope, Message
from runtime.transport.stream import Stream

if TYPE_CHECKING:
    from runtime.config.sections import ClusterConfig
    from runtime.plan.topology import Topology

POINTS = ("before", "between", "after", "apply")
ARMED = "failpoint"
HIT = "failpoint.hit"
VARIABLE = "CONVOY_FAILPOINTS"  # the folder of these files


def arm(folder: Path, pid: int, point: str, count: int) -> None:
    """Let a process die when it comes to this point for the `count`th time from now on."""
    half = folder / f"{ARMED}.half"
    half.write_text(f"{pid} {point} {count}")
    half.replace(folder / ARMED)


class Points:
    """Of one process: how often it has come to the point that it is to die at."""

    def __init__(self) -> None:
        self._folder = Path(os.environ.get(VARIABLE, os.devnull))
        self._count = 0

    def at(self, point: str) -> None:
        """Die here, if it is told so."""
        if self.is_due(point):
            self.die()

    def is_due(self, point: str) -> bool:
        """Is this the point, for the last time?"""
        try:
            pid, wanted, count = (self._folder / ARMED).read_text().split()
        except OSError:
            return False
        if int(pid) != os.getpid() or wanted != point:
            return False
        self._count += 1
        return self._count >= int(count)

    def die(self) -> None:
        """The file's new name is the proof that it was here."""
        (self._folder / ARMED).rename(self._folder / HIT)
        os.kill(os.getpid(), signal.SIGKILL)


POINT = Points()


_Step = Callable[..., Coroutine[Any, Any, None]]


def _sent(send: _Step) -> _Step:
    async def sent(self: Router, envelope: Envelope) -> None:
        POINT.at("before")
        await send(self, envelope)
        POINT.at("after")

    return sent


def _streamed(send: Callable[[Stream, list[Any]], None]) -> Callable[[Stream, list[Any]], None]:
    def streamed(self: Stream, frames: list[Any]) -> None:
        if not self._backlog.pieces and POINT.is_due("between"):
            sizes = [len(frame) for frame in frames]
            whole = b"".join((struct.pack(f"<I{len(sizes)}Q", len(sizes), *sizes), *frames))
            self._socket.send(whole[: len(whole) // 2])
            POINT.die()
        send(self, frames)

    return streamed


def _worked(
    count: Callable[[Compute, Item, float], None],
) -> Callable[[Compute, Item, float], None]:
    def worked(self: Compute, item: Item, taken: float) -> None:
        POINT.at("apply")
        count(self, item, taken)

    return worked


def _handled(serve: Callable[..., None]) -> Callable[..., None]:
    def made(self: Service, name: str, handle: _Step) -> None:
        async def handled(message: Message, envelope: Envelope) -> None:
            await handle(message, envelope)
            POINT.at("apply")

        serve(self, name, handled)

    return made


Router._send = _sent(Router._send)  # type: ignore[method-assign]
Stream.send = _streamed(Stream.send)  # type: ignore[method-assign]
Compute._count = _worked(Compute._count)  # type: ignore[method-assign]
Service.__init__ = _handled(Service.__init__)  # type: ignore[method-assign]


def plan(config: ClusterConfig, options: Any) -> Topology:
    """That of the built-in program, whose processes import this one."""
    return replace(roles.plan(config, options), program=__name__)


def __getattr__(name: str) -> Any:
    return getattr(roles, name)
