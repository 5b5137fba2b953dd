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
# bytes: an update of LeNet's conv2, 100 KB, takes 0.1 ms, and the way to the thread and back as
# long
BRIEF = 256 << 10


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
    name = Placed[str]()
    role = Placed[str]()
    log = Placed[logging.Logger]()
    device = Placed[Compute]()  # where this actor's array work is done
    steps = Placed[int]()  # see `stepped`
    # names of the runtime's that the class defines on purpose
    _runtime_overrides: ClassVar[frozenset[str]] = frozenset()

    def __init_subclass__(cls, *, overrides: Collection[str] = (), **kwargs: Any) -> None:
        """`overrides`: names that the runtime uses itself and that the class defines on purpose.
        TypeError if it defines others, or a handler that is not called after its message."""
        super().__init_subclass__(**kwargs)
        refuse_class(cls, Actor, RESERVED, overrides)
        cls._runtime_overrides = cls._runtime_overrides.union(overrides)
        cls.handlers = handlers_of(cls)

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
        """Send and wait for the answer, which must be an `answer`.

        Raises Refused if the peer's handler raised, ActorStopped if it is gone, AskTimeout after
        `timeout` seconds.
        """
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
        """Answer an ask, now or later: keep the envelope as long as needed. After a tell nothing is
        sent."""
        if envelope.reply_to:
            state = self._runtime
            await state.host.send(
                state.name, envelope.reply_to, message, step=envelope.step, answers=envelope.id
            )

    def memory(self, size: int) -> Array:
        """`size` bytes as a new uint8 array. Arrays made of it reach actors of this host without a
        copy: they must not be written to again once they were sent, and the memory is free when the
        last view of it, anywhere, is gone. May be called from the compute thread.
        """
        return self._runtime.host.memory(size)

    async def compute(
        self, label: str, work: Callable[..., T], *args: Any, size: int | None = None
    ) -> T:
        """Run array work in the process's compute thread (or on the actor's emulated device);
        return its result.

        `size`: bytes of arrays in host memory, if the work goes once or twice over so many and does
        nothing else. Over BRIEF and less it goes on the event loop, if the thread is idle: that is
        sooner done than handed over.
        """
        state = self._runtime
        if size is not None and size <= BRIEF:
            return await state.device.run_brief(state.name, label, work, *args)
        return await state.device.run(state.name, label, work, *args)

    async def race(self, label: str, work: Callable[..., T], *args: Any) -> T:
        """Run array work at once, beside whatever else the process computes. Nothing keeps two
        pieces off one array."""
        state = self._runtime
        return await state.host.compute.race(state.name, label, work, *args)

    def emit(self, event: str, **fields: Any) -> None:
        """Report an event to the run's journal and live table. Never waits; plain values only."""
        state = self._runtime
        state.host.on_event(state.name, event, fields)

    def finish(self) -> None:
        """End the run, if this is the lead actor."""
        self._runtime.host.finished(self._runtime.name)

    @property
    def run_directory(self) -> Path:
        """Where this run's files are kept."""
        return self._runtime.host.directory

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {getattr(self, 'name', '(not placed)')}>"


RESERVED = reserved_names(Actor)
Actor.handlers = {WindDown: "on_wind_down", Save: "on_save"}


def attach(
    actor: Actor, host: Host, name: str, role: str, device: Compute | None = None
) -> ActorState:
    """Give an actor its place in a host. `device`: its own, instead of the host's. TypeError if it
    has set an attribute of a name that is the runtime's."""
    refuse_attributes(actor, RESERVED, actor._runtime_overrides)
    log = logging.getLogger(f"convoy.{name}")
    actor._runtime = ActorState(host, name, role, device or host.compute, log)
    return actor._runtime


async def start(actor: Actor) -> None:
    """Let an actor prepare. TypeError as `attach`."""
    await actor.on_start()
    refuse_attributes(actor, RESERVED, actor._runtime_overrides)
