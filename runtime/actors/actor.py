"""The actor: the base class of all actors. It sends by `tell`, `ask` and `reply`, and handles the
messages of its inbox in methods on_<message>. Its whole life is on one screen.

    on_start()            Prepare: build nets, open data. No other actor is reachable yet.
    on_<message>(m, e)    One method per message class that the actor understands. The messages are
                          handled one at a time, in order of arrival.
    run()                 The actor's own work, done while its inbox is served. The run ends when
                          the lead actor's run() returns.
    on_stop()             Release the resources that on_start took.

An actor owns its state: no other actor touches it, so there are no locks. An exception in
on_<message> goes to the asker of the message. If the message was not an ask, the exception ends the
run, and the error names the actor. Actors take time only from the event loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from runtime.actors.actor_metrics import Measured
from runtime.actors.actor_state import ActorState, Host, Placed
from runtime.actors.conversation import Conversation
from runtime.actors.handlers import handlers_of
from runtime.actors.reserved_names import refuse_attributes, refuse_class, reserved_names
from runtime.compute.compute import Compute
from runtime.messages.message import (
    Array,
    Envelope,
    Message,
    Save,
    WindDown,
)

T = TypeVar("T")
R = TypeVar("R", bound=Message)
# bytes: an update of 100 KB (LeNet's conv2) takes 0.1 ms, as long as the way to the thread and back
BRIEF = 256 << 10


class Actor(Measured):
    """Base of all actors. Subclasses take their options in `__init__`, and send only after
    `on_start`. A class that declares `Options`, a frozen dataclass, is called with an instance of
    it. Any other class is called with keywords."""

    Options: ClassVar[type[Any] | None] = None
    handlers: ClassVar[dict[type[Message], str]] = {}
    # which message is legal when; without a conversation, every message is legal at any time
    conversations: ClassVar[tuple[Conversation, ...]] = ()
    # patterns of the files that it writes in the run directory; None: not declared
    writes: ClassVar[tuple[str, ...] | None] = None
    name = Placed[str]()
    role = Placed[str]()
    log = Placed[logging.Logger]()
    device = Placed[Compute]()  # the device that does this actor's array work
    steps = Placed[int]()  # see `stepped`
    # names of the runtime that the class redefines on purpose
    _runtime_overrides: ClassVar[frozenset[str]] = frozenset()

    def __init_subclass__(cls, *, overrides: Collection[str] = (), **kwargs: Any) -> None:
        """Check the new class and collect its handlers. `overrides` are names of the runtime that
        the class redefines on purpose. Raises TypeError if the class redefines another of the
        runtime's names, or if a handler is not named after its message."""
        super().__init_subclass__(**kwargs)
        refuse_class(cls, Actor, RESERVED, overrides)
        cls._runtime_overrides = cls._runtime_overrides.union(overrides)
        cls.handlers = handlers_of(cls)

    async def on_start(self) -> None:
        """Prepare. Called once, before any message."""

    async def on_stop(self) -> None:
        """Release resources. Called once, after the last message, also when the run failed."""

    async def run(self) -> None:
        """Do the actor's own work. The default is for actors that only answer messages."""

    async def on_wind_down(self, message: WindDown, envelope: Envelope) -> None:
        """End the run well. Only the lead actor is asked. The default ends the run at once."""
        self.finish()

    async def on_save(self, message: Save, envelope: Envelope) -> None:
        """Write a checkpoint. Only the lead actor is asked. The default has nothing to save."""

    async def tell(self, to: str, message: Message, *, step: int = -1) -> None:
        """Send a message. Does not wait for an answer, only for byte credits of the link."""
        state = self._runtime
        await state.host.send(state.name, to, message, step=step)

    async def ask(
        self,
        to: str,
        message: Message,
        answer: type[R],
        *,
        step: int = -1,
        timeout: float | None = None,
    ) -> R:
        """Send a message and wait for the answer, whose class must be `answer`. Raises Refused if
        the peer's handler raised an error, ActorStopped if the peer has stopped or its process has
        died, and AskTimeout after `timeout` seconds."""
        state = self._runtime
        send = state.host.ask
        if timeout is not None or asyncio.current_task() is not state.inbox_task:
            return await send(state.name, to, message, answer, step=step, timeout=timeout)
        state.asked += 1
        state.blocked_by = to, state.asked
        try:
            return await send(state.name, to, message, answer, step=step, timeout=None)
        finally:
            state.blocked_by = "", 0

    async def reply(self, envelope: Envelope, message: Message) -> None:
        """Answer an ask, now or later. Keep the envelope until then. Sends nothing if the message
        was not an ask."""
        if envelope.reply_to:
            state = self._runtime
            await state.host.send(
                state.name, envelope.reply_to, message, step=envelope.step, answers=envelope.id
            )

    def memory(self, size: int) -> Array:
        """Return a new uint8 array of `size` bytes. Arrays made from it reach actors on the same
        host without a copy, so they must not be written to after they were sent. The memory is free
        once the last view of it, in any process, is gone. May be called from the compute thread."""
        return self._runtime.host.memory(size)

    async def compute(
        self, label: str, work: Callable[..., T], *args: Any, size: int | None = None
    ) -> T:
        """Run array work in the process's compute thread, or on the actor's emulated device, and
        return its result. `size`: the bytes of arrays in host memory that the work reads or writes,
        if it passes over them once or twice and does nothing else. Work of at most BRIEF bytes runs
        on the event loop if the thread is idle, because handing it over would take longer than
        doing it."""
        state = self._runtime
        if size is not None and size <= BRIEF:
            return await state.device.run_brief(state.name, label, work, *args)
        return await state.device.run(state.name, label, work, *args)

    async def race(self, label: str, work: Callable[..., T], *args: Any) -> T:
        """Run array work at once, at the same time as other array work of the process. Nothing
        prevents two pieces of work from using the same array."""
        state = self._runtime
        return await state.host.compute.race(state.name, label, work, *args)

    def emit(self, event: str, **fields: Any) -> None:
        """Report an event to the run's journal and live table. Never waits. Plain values only."""
        state = self._runtime
        state.host.on_event(state.name, event, fields)

    def finish(self) -> None:
        """End the run, if this is the lead actor."""
        self._runtime.host.finished(self._runtime.name)

    @property
    def run_directory(self) -> Path:
        """The folder that holds this run's files."""
        return self._runtime.host.directory

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {getattr(self, 'name', '(not placed)')}>"


RESERVED = reserved_names(Actor)
Actor.handlers = {WindDown: "on_wind_down", Save: "on_save"}


def attach(
    actor: Actor, host: Host, name: str, role: str, device: Compute | None = None
) -> ActorState:
    """Place an actor in a host and return its state. `device` replaces the host's device. Raises
    TypeError if the actor has set an attribute whose name the runtime uses."""
    refuse_attributes(actor, RESERVED, actor._runtime_overrides)
    log = logging.getLogger(f"convoy.{name}")
    actor._runtime = ActorState(host, name, role, device or host.compute, log)
    return actor._runtime


async def start(actor: Actor) -> None:
    """Let an actor prepare. Raises TypeError like `attach`."""
    await actor.on_start()
    refuse_attributes(actor, RESERVED, actor._runtime_overrides)
