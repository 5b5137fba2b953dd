"""The actor: five words (tell, ask, inbox, reply_to, on_<message>) and its whole life on one
screen.

    on_start()            prepare: build nets, open data. No other actor is reachable yet.
    on_<message>(m, e)    one per message class the actor understands; called one at a time, in
                          order of arrival.
    run()                 the actor's own work, beside its inbox; the run ends when the lead actor's
                          run() returns.
    on_stop()             release what on_start took.

An actor owns its state: nobody else touches it, so there are no locks. An exception in on_<message>
goes to the asker if there is one, otherwise it ends the run and names the actor. Time comes only
from the event loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeVar

from runtime.actors.actor_metrics import Gauges, Measured
from runtime.actors.conversation import Conversation
from runtime.compute.compute import Compute
from runtime.messages.message import (
    Array,
    Envelope,
    Message,
    Save,
    WindDown,
    message_annotation,
    snake_case,
)

T = TypeVar("T")
R = TypeVar("R", bound=Message)
# bytes: an update of LeNet's conv2, 100 KB, takes 0.1 ms, and the way to the thread and back as
# long
BRIEF = 256 << 10


class Host(Gauges, Protocol):
    """What an actor needs of the process it lives in; a node is one."""

    compute: Compute
    directory: Path
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


class Actor(Measured):
    """Base of all actors. Subclasses take options in `__init__` and talk only after `on_start`.

    A class that declares `Options`, a frozen dataclass, is called with one of them; any other with
    keywords.
    """

    Options: ClassVar[type[Any] | None] = None
    handlers: ClassVar[dict[type[Message], str]] = {}
    # which message may come when; without one: at any time
    conversations: ClassVar[tuple[Conversation, ...]] = ()
    # patterns of its files in the run directory; None: not said
    writes: ClassVar[tuple[str, ...] | None] = None
    log: logging.Logger
    device: Compute  # where this actor's array work is done
    inbox_task: asyncio.Task[Any] | None = None  # runs the handlers
    # the peer whose answer a handler waits for without a limit; which ask it is
    blocked_by: tuple[str, int] = ("", 0)
    _node: Host
    _blocked = 0

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        found = {
            kind: name
            for base in reversed(cls.__mro__)
            for kind, name in vars(base).get("handlers", {}).items()
        }
        for name, function in vars(cls).items():
            if not name.startswith("on_") or name in ("on_start", "on_stop"):
                continue
            kind = message_annotation(function)
            if kind is None or name != f"on_{snake_case(kind.__name__)}":
                raise TypeError(
                    f"{cls.__name__}.{name}: annotate its first parameter with "
                    "the message of that name"
                )
            found[kind] = name
        cls.handlers = found

    def attach(self, host: Host, name: str, role: str, device: Compute | None = None) -> None:
        """Called by the host that takes the actor in. `device`: its own, instead of its
        process's."""
        self._node = host
        self.name = name
        self.role = role
        self.device = device or host.compute
        self.log = logging.getLogger(f"convoy.{name}")

    async def on_start(self) -> None:
        """Prepare. Called once, before any message."""

    async def on_stop(self) -> None:
        """Release. Called once, after the last message; also when the run failed."""

    async def run(self) -> None:
        """The actor's own work; an actor that only answers has none."""

    async def on_wind_down(self, message: WindDown, envelope: Envelope) -> None:
        """Asked to end well (only the lead is asked). The default ends the run at once."""
        self.finish()

    async def on_save(self, message: Save, envelope: Envelope) -> None:
        """Asked to write a checkpoint (only the lead is asked). The default has nothing to save."""

    async def tell(self, to: str, message: Message, *, step: int = -1) -> None:
        """Send and do not wait for an answer. Waits only while the link has no byte credits
        left."""
        await self._node.send(self.name, to, message, step=step)

    async def ask(
        self,
        to: str,
        message: Message,
        answer: type[R],
        *,
        step: int = -1,
        timeout: float | None = None,
    ) -> R:
        """Send and wait for the answer, which must be an `answer`.

        Raises Refused if the peer's handler raised, ActorStopped if it is gone, AskTimeout after
        `timeout` seconds.
        """
        if timeout is not None or asyncio.current_task() is not self.inbox_task:
            return await self._node.ask(self.name, to, message, answer, step=step, timeout=timeout)
        self._blocked += 1
        self.blocked_by = to, self._blocked
        try:
            return await self._node.ask(self.name, to, message, answer, step=step, timeout=None)
        finally:
            self.blocked_by = "", 0

    async def reply(self, envelope: Envelope, message: Message) -> None:
        """Answer an ask, now or later: keep the envelope as long as needed. After a tell nothing is
        sent."""
        if envelope.reply_to:
            await self._node.send(
                self.name, envelope.reply_to, message, step=envelope.step, answers=envelope.id
            )

    def memory(self, size: int) -> Array:
        """`size` bytes as a new uint8 array. Arrays made of it reach actors of this host without a
        copy: they must not be written to again once they were sent, and the memory is free when the
        last view of it, anywhere, is gone. May be called from the compute thread.
        """
        return self._node.memory(size)

    async def compute(
        self, label: str, work: Callable[..., T], *args: Any, size: int | None = None
    ) -> T:
        """Run array work in the process's compute thread (or on the actor's emulated device);
        return its result.

        `size`: bytes of arrays in host memory, if the work goes once or twice over so many and does
        nothing else. Over BRIEF and less it goes on the event loop, if the thread is idle: that is
        sooner done than handed over.
        """
        if size is not None and size <= BRIEF:
            return await self.device.run_brief(self.name, label, work, *args)
        return await self.device.run(self.name, label, work, *args)

    async def race(self, label: str, work: Callable[..., T], *args: Any) -> T:
        """Run array work at once, beside whatever else the process computes. Nothing keeps two
        pieces off one array."""
        return await self._node.compute.race(self.name, label, work, *args)

    @property
    def busy_seconds(self) -> float:
        """Seconds that the device of this actor has worked so far: its process's compute thread, or
        its own."""
        return self.device.busy

    def emit(self, event: str, **fields: Any) -> None:
        """Report an event to the run's journal and live table. Never waits; plain values only."""
        self._node.on_event(self.name, event, fields)

    def finish(self) -> None:
        """End the run, if this is the lead actor."""
        self._node.finished(self.name)

    @property
    def run_directory(self) -> Path:
        """Where this run's files are kept."""
        return self._node.directory

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {getattr(self, 'name', '(not placed)')}>"


Actor.handlers = {WindDown: "on_wind_down", Save: "on_save"}
