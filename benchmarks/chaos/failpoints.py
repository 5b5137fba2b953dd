"""The built-in program with failpoints: a process of it can be made to kill itself at a certain
point of its work.

before    before it sends a message
between   half of a message's bytes are with the system, the other half never comes
after     a message is with the system; nothing more is read from its receiver
apply     array work (a step of the model, a sum) is done, or a message is handled, and no other
          actor knows it yet
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
    """Make a process die when it reaches this point for the `count`th time from now on."""
    half = folder / f"{ARMED}.half"
    half.write_text(f"{pid} {point} {count}")
    half.replace(folder / ARMED)


class Points:
    """The failpoints of one process. Counts how often the armed one has been reached."""

    def __init__(self) -> None:
        self._folder = Path(os.environ.get(VARIABLE, os.devnull))
        self._count = 0

    def at(self, point: str) -> None:
        """Die here if this point is armed and due."""
        if self.is_due(point):
            self.die()

    def is_due(self, point: str) -> bool:
        """Whether this point is armed and has now been reached often enough."""
        try:
            pid, wanted, count = (self._folder / ARMED).read_text().split()
        except OSError:
            return False
        if int(pid) != os.getpid() or wanted != point:
            return False
        self._count += 1
        return self._count >= int(count)

    def die(self) -> None:
        """Rename the file, which proves that this point was reached, and kill this process."""
        (self._folder / ARMED).rename(self._folder / HIT)
        os.kill(os.getpid(), signal.SIGKILL)


POINT = Points()


_Step = Callable[..., Coroutine[Any, Any, None]]
_Handler = Callable[..., Coroutine[Any, Any, object]]


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
    def made(self: Service, name: str, handle: _Handler) -> None:
        async def handled(message: Message, envelope: Envelope) -> object:
            answer = await handle(message, envelope)
            POINT.at("apply")
            return answer

        serve(self, name, handled)

    return made


if VARIABLE in os.environ:  # else this process only arms the points of others
    Router._send = _sent(Router._send)  # type: ignore[method-assign]
    Stream.send = _streamed(Stream.send)  # type: ignore[method-assign]
    Compute._count = _worked(Compute._count)  # type: ignore[method-assign]
    Service.__init__ = _handled(Service.__init__)  # type: ignore[method-assign]


def plan(config: ClusterConfig, options: Any) -> Topology:
    """The plan of the built-in program, with processes that import this module."""
    return replace(roles.plan(config, options), program=__name__)


def __getattr__(name: str) -> Any:
    return getattr(roles, name)
