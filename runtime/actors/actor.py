"""The actor: the base class of all actors. It sends by `tell`, `ask` and `reply`, and handles the
messages of its inbox in methods on_<message>. Its whole life is on one screen.

    on_start()            Prepare: build nets, open data. No other actor is reachable yet.
    on_<message>(m, e)    One method per message class that the actor understands. The messages are
                          handled one at a time, in order of arrival. A handler of an ask returns
                          the answer, or calls reply() now or later.
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
from collections.abc import Collection
from typing import Any, ClassVar, TypeVar

from runtime.actors.actor_children import Parent
from runtime.actors.actor_metrics import Measured
from runtime.actors.actor_requests import REQUESTS, Requested
from runtime.actors.actor_state import Placed
from runtime.actors.actor_work import Working
from runtime.actors.conversation import Conversation
from runtime.actors.handlers import handlers_of
from runtime.actors.misuse import answering, check_answer, check_envelope, check_message
from runtime.actors.reserved_names import Handlers, Overrides, refuse_class, reserved_names
from runtime.compute.compute import Compute
from runtime.messages.message import Envelope, Message
from runtime.messages.plain_values import packed

R = TypeVar("R")


class Actor(Measured, Parent, Requested, Working):
    """Base of all actors. Subclasses take their options in `__init__`, and send only after
    `on_start`. A class that declares `Options`, a frozen dataclass, is called with an instance of
    it. Any other class is called with keywords."""

    Options: ClassVar[type[Any] | None] = None
    handlers: ClassVar[Handlers] = Handlers()
    # which message is legal when; without a conversation, every message is legal at any time
    conversations: ClassVar[tuple[Conversation, ...]] = ()
    # patterns of the files that it writes in the run directory; None: not declared
    writes: ClassVar[tuple[str, ...] | None] = None
    # whether its handlers take arrays on the device of its process; all others get host arrays
    reads_device: bool = False
    name = Placed[str]()
    role = Placed[str]()
    log = Placed[logging.Logger]()
    device = Placed[Compute]()  # the device that does this actor's array work
    steps = Placed[int]()  # see `stepped`
    incarnation = Placed[int]()  # the life of its process, counted from 1
    # names of the runtime that the class redefines on purpose
    _runtime_overrides: ClassVar[Overrides] = Overrides()

    def __init_subclass__(cls, *, overrides: Collection[str] = (), **kwargs: Any) -> None:
        """Check the new class and collect its handlers. `overrides` are names of the runtime that
        the class redefines on purpose. Raises TypeError if the class redefines another of the
        runtime's names, or if a handler is not named after its message."""
        super().__init_subclass__(**kwargs)
        copied = vars(cls).get("_runtime_overrides")
        declared = {*overrides, *(copied if isinstance(copied, Overrides) else ())}
        refuse_class(cls, Actor, RESERVED, declared)
        cls._runtime_overrides = Overrides(cls._runtime_overrides | declared)
        cls.handlers = Handlers(handlers_of(cls))

    async def on_start(self) -> None:
        """Prepare. Called once, before any message."""

    async def on_stop(self) -> None:
        """Release resources. Called once, after the last message, also when the run failed."""

    async def run(self) -> None:
        """Do the actor's own work. The default is for actors that only answer messages."""

    async def tell(self, to: str, message: Message, *, step: int = -1) -> None:
        """Send a message. Does not wait for an answer, only for byte credits of the link."""
        check_message("tell(to, message)", message)
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
        """Send a message and wait for the answer, whose class must be `answer`: a message, or the
        type of a plain value such as `int`. Raises Refused if the peer's handler raised an error,
        ActorStopped if the peer has stopped or its process has died, and AskTimeout after `timeout`
        seconds."""
        check_message("ask(to, message, answer)", message)
        check_answer(answer)
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

    async def reply(self, envelope: Envelope, answer: object) -> None:
        """Answer an ask with a message or a plain value (`plain_values`), now or later. Keep the
        envelope until then. Sends nothing if the message was not an ask, or if its asker has
        died. Raises Unsendable for any other object, and for a second answer."""
        check_envelope(envelope)
        if not envelope.reply_to:
            return
        state = self._runtime
        said = answer if isinstance(answer, Message) else packed(answer)
        owed = answering(state.name, envelope)
        try:
            await state.host.answer(state.name, envelope, said)
        except BaseException:  # nothing was sent, so another answer may follow
            owed.given = False
            raise

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {getattr(self, 'name', '(not placed)')}>"


RESERVED = reserved_names(Actor)
Actor.handlers = Handlers(REQUESTS)
