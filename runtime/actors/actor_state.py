"""What the runtime keeps of an actor, apart from what the actor keeps of its own work."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar, overload

from runtime.actors.metrics import Histogram, Metrics
from runtime.compute.compute import Compute
from runtime.compute.work_sums import WorkSums
from runtime.messages.message import Array, Message

T = TypeVar("T")
R = TypeVar("R", bound=Message)


class Host(Protocol):
    """What an actor needs of the process it lives in; a node is one."""

    compute: Compute
    directory: Path
    metrics: Metrics
    work: WorkSums
    on_event: Callable[[str, str, dict[str, Any]], None]

    async def send(
        self, sender: str, to: str, message: Message, *, step: int = -1, answers: int = 0
    ) -> None:
        """See Actor.tell and Actor.reply."""

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
        """See Actor.ask."""
        ...

    def memory(self, size: int) -> Array:
        """See Actor.memory."""
        ...

    def finished(self, name: str) -> None:
        """See Actor.finish."""

    def phase_seconds(self, actor: str, phase: str) -> Histogram:
        """See Measured.phase."""
        ...


@dataclass(slots=True)
class ActorState:
    """An actor's place, and what it does there."""

    host: Host
    name: str
    role: str
    device: Compute
    log: logging.Logger
    steps: int = 0
    inbox_task: asyncio.Task[Any] | None = None  # runs the handlers
    # the peer whose answer a handler waits for without a limit; which ask it is
    blocked_by: tuple[str, int] = ("", 0)
    asked: int = 0  # such asks so far

    @property
    def labels(self) -> dict[str, str]:
        """Whose a metric is."""
        return {"role": self.role, "actor": self.name}


class Placed(Generic[T]):
    """An attribute of actors that the runtime has in the ActorState: a class can read it, and is
    refused by name when it sets it."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, actor: None, owner: type) -> Placed[T]: ...
    @overload
    def __get__(self, actor: object, owner: type) -> T: ...
    def __get__(self, actor: Any, owner: type) -> T | Placed[T]:
        if actor is None:
            return self
        try:
            state = actor._runtime
        except AttributeError:
            text = f"{owner.__name__}.{self._name} is known from on_start on, not in __init__"
            raise AttributeError(text) from None
        found: T = getattr(state, self._name)
        return found

    def __set__(self, actor: object, value: object) -> None:
        raise collision(type(actor).__name__, f"sets self.{self._name}", self._name)


def collision(kind: str, does: str, name: str) -> TypeError:
    """The complaint about a class that takes a name of the runtime's."""
    return TypeError(
        f"{kind} {does}, which the runtime uses itself on every actor: call it something else, "
        f"such as my_{name.lstrip('_')}"
    )
