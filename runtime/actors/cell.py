"""An actor in its process: its inbox, the two tasks of its life, and what it is doing now."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial

from runtime.actors.actor import Actor
from runtime.actors.asked import asked, is_open
from runtime.actors.guarded import ends, guarded, shown, stopped
from runtime.actors.refusals import Refusals
from runtime.actors.service import Service
from runtime.errors import MessageError, Unsendable
from runtime.messages.message import Envelope, Message, Refusal
from runtime.tracing.tracer import Tracer
from runtime.transport import Release
from runtime.user_code import told


class Cell:
    """Runs one actor. Calls `failed(name, error)` when the actor fails, `finished(name)` when its
    own work is done, and `reject(peer, error)` for each illegal message."""

    def __init__(
        self,
        actor: Actor,
        failed: Callable[[str, BaseException], None],
        finished: Callable[[str], None],
        reject: Callable[[str, MessageError], None],
    ) -> None:
        self.actor = actor
        self.inbox: deque[tuple[Envelope, Release, float]] = deque()  # the float: time of arrival
        # read twice per message: when it arrives, and when it was handled
        self._clock = asyncio.get_running_loop().time
        self.service: dict[type[Message], Service] = {}
        self.tracer: Tracer | None = None  # while this process is traced
        self._more: asyncio.Future[None] | None = None  # awaited while the inbox is empty
        self.handled = 0
        self.doing = "idle"
        self._failed = failed
        self._finished = finished
        self._reject = reject
        self.tasks: list[asyncio.Task[None]] = []
        self._refusals = Refusals(actor)

    def __repr__(self) -> str:
        return (
            f"<{self.actor!r} {self.doing}, {len(self.inbox)} in its inbox, {self.handled} handled>"
        )

    def take(self, envelope: Envelope, release: Release) -> None:
        """Put a message into the inbox."""
        clock = self._clock
        more = self._more
        self._more = None
        self.inbox.append((envelope, release, clock()))
        if more is not None and not more.done():
            more.set_result(None)

    def begin(self) -> None:
        """Open the inbox and start the actor's own work."""
        name = self.actor.name
        failed = partial(self._failed, name)
        self.tasks = [
            asyncio.create_task(guarded(self._serve, failed), name=f"{name} inbox"),
            asyncio.create_task(guarded(self._work, failed), name=f"{name} run"),
        ]

    def cancel(self) -> None:
        """Cancel the actor's tasks. `ended` waits for their end."""
        self._refusals.end()
        for task in self.tasks:
            task.cancel()

    async def ended(self) -> None:
        """Wait for the tasks to end, return the credits of unread messages, and call on_stop."""
        await asyncio.gather(*self.tasks, return_exceptions=True)
        while self.inbox:
            self.inbox.popleft()[1]()
        await stopped(self.actor)

    async def _serve(self) -> None:
        actor = self.actor
        clock = self._clock
        inbox = self.inbox
        service = self.service
        loop = asyncio.get_running_loop()
        dropped = self._refusals.dropped
        actor._runtime.inbox_task = asyncio.current_task()
        since = clock()
        while True:
            if not inbox:
                self._more = loop.create_future()
                await self._more
                # A message that found the actor idle is served from its arrival on; a message that
                # waited is served from the end of the one before.
                since = inbox[0][2]
            envelope, release, came = inbox.popleft()
            if envelope.reply_to:
                envelope = asked(envelope, dropped)
            kind = type(envelope.message)
            if (sums := service.get(kind)) is None:
                sums = service[kind] = Service(kind.__name__, getattr(actor, actor.handlers[kind]))
            self.doing = sums.name
            began = None if self.tracer is None else self.tracer.handling(envelope)
            try:
                answer = await sums.handle(envelope.message, envelope)
                if answer is not None:
                    await actor.reply(envelope, answer)
                    answer = None  # frees its arrays
            except (Exception, asyncio.CancelledError) as error:
                if ends(error):
                    raise
                if isinstance(error, MessageError) and not isinstance(error, Unsendable):
                    # not legal here: rejected and counted; it changed nothing
                    self._reject(envelope.sender, error)
                    if is_open(envelope):
                        await actor.reply(envelope, Refusal(error=str(error)))
                    continue
                if not is_open(envelope):
                    raise
                actor.log.exception("%s could not answer %r", actor.name, envelope)
                await actor.reply(envelope, Refusal(error=told(shown(error))))
            finally:
                if began is not None and self.tracer is not None:
                    self.tracer.handled(envelope, began)
                del envelope  # its arrays are freed before its credits return
                release()
                self.handled += 1
                self.doing = "idle"
                del release
                sums.handled += 1
                sums.waited += since - came
                before = since  # these sums take 0.08 us a message (measured once, 2026-11-25)
                since = clock()
                sums.seconds += since - before

    async def _work(self) -> None:
        await self.actor.run()
        if type(self.actor).run is not Actor.run:
            self._finished(self.actor.name)
