"""The runtime's own state of an actor, apart from the state that the actor keeps for its work."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar, overload

from runtime.actors.metrics import Histogram, Metrics
from runtime.compute.compute import Compute
from runtime.compute.work_sums import WorkSums
from runtime.errors import NameTaken
from runtime.memory.device_arena import DeviceMemory
from runtime.messages.message import Array, Envelope, Message

T = TypeVar("T")
R = TypeVar("R")


class Spec(Protocol):
    """The description of an actor: its name, its role and its options. An ActorSpec is one."""

    @property
    def name(self) -> str: ...
    @property
    def role(self) -> str: ...
    @property
    def options(self) -> Any: ...
    @property
    def process(self) -> str: ...
    @property
    def emulated(self) -> Mapping[str, Any] | None: ...


class Children(Protocol):
    """Starts and ends actors on behalf of the actors of one process, while the run goes on."""

    async def spawn(self, parent: str, spec: Spec, links: Sequence[str]) -> None:
        """Start an actor for `parent`; see Actor.spawn."""

    async def end(self, parent: str, name: str) -> None:
        """End an actor that `parent` has started; see Actor.end."""


class Host(Protocol):
    """The services that an actor needs of the process it lives in. A node offers them."""

    children: Children
    incarnation: int
    compute: Compute
    directory: Path
    metrics: Metrics
    work: WorkSums
    on_event: Callable[[str, str, dict[str, Any]], None]

    async def send(self, sender: str, to: str, message: Message, *, step: int = -1) -> None:
        """Send a message for `sender`; see Actor.tell."""

    async def answer(self, sender: str, envelope: Envelope, message: Message) -> None:
        """Answer the ask in an envelope for `sender`; see Actor.reply."""

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
        """Send a message for `sender` and wait for its answer; see Actor.ask."""
        ...

    def memory(self, size: int) -> Array:
        """Return memory for arrays; see Actor.memory."""
        ...

    @property
    def memory_range(self) -> tuple[int, int] | None:
        """Return the range that large blocks of `memory` lie in; see Actor.memory_range."""
        ...

    @property
    def memory_file(self) -> str:
        """Return the path of the file behind `memory_range`; see Actor.memory_file."""
        ...

    def device_memory(self, memory: DeviceMemory) -> Callable[[int], tuple[Any, int] | None] | None:
        """Share memory of a device; see Actor.device_memory."""
        ...

    def hands_over(self, to: str) -> bool:
        """Return whether an actor gets arrays on a device by reference; see Actor.hands_over."""
        ...

    async def to_host(self, array: Array) -> Array:
        """Return an array on the host; see Actor.to_host."""
        ...

    def finished(self, name: str) -> None:
        """Record that an actor's own work is done; the lead actor ends the run."""

    def waited_for_data(self, actor: str, seconds: float) -> None:
        """Count a wait for data; see Actor.waited_for_data."""

    def phase_seconds(self, actor: str, phase: str) -> Histogram:
        """Return the histogram of a phase of an actor's work."""
        ...


@dataclass(slots=True)
class ActorState:
    """An actor's place, and its state there."""

    host: Host
    name: str
    role: str
    device: Compute
    log: logging.Logger
    steps: int = 0
    inbox_task: asyncio.Task[Any] | None = None  # runs the handlers
    # the peer whose answer a handler awaits without a timeout, and the number of that ask
    blocked_by: tuple[str, int] = ("", 0)
    asked: int = 0  # number of such asks so far

    @property
    def incarnation(self) -> int:
        """The life of the actor's process, counted from 1."""
        return self.host.incarnation

    @property
    def labels(self) -> dict[str, str]:
        """The labels of this actor's metrics."""
        return {"role": self.role, "actor": self.name}


class Unplaced:
    """The state of an actor that has no place yet. Every use is an error that says so."""

    def __get__(self, actor: object, owner: type) -> Any:
        if actor is None:
            return self
        raise AttributeError(
            f"{owner.__name__} cannot send, measure, compute or report in __init__: do so from "
            "on_start on"
        )


class Placed(Generic[T]):
    """An attribute of actors whose value the runtime keeps in ActorState. An actor class can read
    it. Setting it raises an error that names the attribute."""

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


def collision(taker: str, does: str, name: str, otherwise: str = "") -> NameTaken:
    """Return the error for a class or an actor that takes one of the runtime's names. `otherwise`:
    another remedy than another name."""
    return NameTaken(
        f"{taker} {does}, which the runtime uses itself on every actor: call it something else, "
        f"such as my_{name.lstrip('_')}{otherwise}"
    )
