"""The growth of a run that lives in processes: starts and ends the actors that other actors want
started and ended. `plan/growth.py` decides; `spawning.py` has the messages.

An actor that dies before it has begun ends the run, like any other. Only an actor whose process
cannot be started at all is refused.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any, Protocol, TypeVar

from runtime.cluster.lifecycle import LifeStage, agent_of
from runtime.cluster.membership import Membership
from runtime.cluster.spawning import EndChild, Grown, Link, Spawn, Unlink
from runtime.errors import ActorStopped, ConfigError, ConvoyError, LaunchError, Refused
from runtime.messages.message import Envelope, Message
from runtime.plan.growth import ENDED, SPAWNED, Growth
from runtime.plan.topology import ActorSpec, Placement, ProcessSpec

R = TypeVar("R")
# called when a process was added to the plan or has left it; raises LaunchError
OnChange = Callable[[ProcessSpec], None]


class Ground(Protocol):
    """The supervisor, as far as processes come and go while its run goes on."""

    began: asyncio.Event
    outcome: asyncio.Future[ConvoyError | None]
    roll: Membership

    async def add(self, spec: ProcessSpec, placement: Placement, restarts: int) -> None:
        """Start a process that `placement` has more than before. Raises LaunchError."""

    async def begin(self, ready: Sequence[str]) -> None:
        """Let processes that are ready begin."""

    async def end_process(self, process: str) -> None:
        """Stop the actors of a process, and wait until it has ended."""

    def remove(self, spec: ProcessSpec, placement: Placement) -> None:
        """Forget a process that has ended, or could not be started."""

    def is_at(self, process: str, *stages: LifeStage) -> bool:
        """Whether a process of the run is at one of these stages."""
        ...

    def report(self, event: str, fields: dict[str, Any]) -> None:
        """Report an event of the supervisor."""

    def fail(self, error: Exception) -> None:
        """End the run with an error that is a mistake of the runtime."""

    async def ask(self, to: str, message: Message, answer: type[R]) -> R:
        """Ask an actor; see Actor.ask."""
        ...

    async def reply(self, envelope: Envelope, answer: object) -> None:
        """Answer an ask; see Actor.reply."""


class Growing:
    """Acts on `growth` for a supervisor. `prepare` is called with each new process before it is
    started, and `discard` with each process that has ended."""

    def __init__(
        self, supervisor: Ground, growth: Growth, prepare: OnChange, discard: OnChange
    ) -> None:
        self._supervisor = supervisor
        self.growth = growth
        self._prepare = prepare
        self._discard = discard
        self._tasks: set[asyncio.Task[None]] = set()
        self._moved = asyncio.Event()  # replaced at each step of a process

    def __repr__(self) -> str:
        return f"<growing: {self.growth!r}>"

    def take(self, message: Spawn | EndChild, envelope: Envelope) -> None:
        """Act on a wish of an actor, and answer it when that is done."""
        task = asyncio.create_task(self._answer(message, envelope), name=repr(message))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def moved(self) -> None:
        """Note that a process has made a step in its life."""
        self._moved.set()
        self._moved = asyncio.Event()

    async def close(self) -> None:
        """Give up what is under way, since the run is over."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _answer(self, message: Spawn | EndChild, envelope: Envelope) -> None:
        problem = ""
        try:
            await self._done(message, envelope.sender)
        except (ConfigError, LaunchError, Refused) as error:
            problem = str(error)
        except Exception as error:  # noqa: BLE001  # a mistake here: passed on with the outcome
            self._supervisor.fail(error)
            return
        process = self.growth.placement.process_of().get(envelope.sender, "")
        if self._supervisor.roll.life(process) == envelope.incarnation:  # it has not died meanwhile
            with suppress(ActorStopped):
                await self._supervisor.reply(envelope, Grown(problem=problem))

    def _done(self, message: Spawn | EndChild, sender: str) -> Coroutine[Any, Any, None]:
        supervisor = self._supervisor
        if not supervisor.began.is_set():
            raise Refused("the run has not begun: start actors in `run` or in a handler")
        if supervisor.outcome.done():
            raise Refused("the run is ending")
        if isinstance(message, Spawn):
            return self._start(message, sender)
        return self._end(message.name, sender)

    async def _start(self, message: Spawn, parent: str) -> None:
        supervisor = self._supervisor
        child = ActorSpec(**json.loads(message.spec.tobytes()))
        spec = self.growth.start(parent, child, message.links)
        try:
            self._prepare(spec)
            await supervisor.add(spec, self.growth.placement, message.restarts)
        except (ConfigError, LaunchError, Refused):
            self._forget(spec)
            raise
        roll = supervisor.roll
        await self._until(
            lambda: (
                supervisor.is_at(spec.name, LifeStage.READY)
                and not any(self._returns(peer) for peer in roll.neighbours(spec.name))
            )
        )
        entry = roll.directory_of(spec.name)
        wish = Link(peers=entry, roles={child.name: child.role})
        for peer in roll.peers(spec.name):
            with suppress(ActorStopped):  # it has died; its next life gets the address
                await supervisor.ask(agent_of(peer), wish, bool)
        self.growth.began(child.name)
        await supervisor.begin([spec.name])
        self.moved()
        fields = {"name": child.name, "role": child.role, "by": parent, "machine": spec.machine}
        supervisor.report(SPAWNED, fields)

    def _returns(self, process: str) -> bool:
        """Whether a process that has begun before is being started again."""
        early = (LifeStage.STARTING, LifeStage.GREETED, LifeStage.READY)
        return self._supervisor.is_at(process, *early) and process not in self.growth.starting

    async def _until(self, reached: Callable[[], bool]) -> None:
        while not reached():
            await self._moved.wait()

    async def _end(self, name: str, parent: str) -> None:
        for each in self.growth.end(parent, name):
            await self._leave(self._supervisor.roll.spec(each))
            self._supervisor.report(ENDED, {"name": each, "by": parent})

    async def _leave(self, spec: ProcessSpec) -> None:
        supervisor = self._supervisor
        # a death before this may be followed by a restart, which comes first
        await self._until(lambda: supervisor.is_at(spec.name, LifeStage.RUNNING))
        await supervisor.end_process(spec.name)
        for peer in supervisor.roll.peers(spec.name):
            with suppress(ActorStopped):
                await supervisor.ask(agent_of(peer), Unlink(process=spec.name), bool)
        self._forget(spec)

    def _forget(self, spec: ProcessSpec) -> None:
        self.growth.ended(spec.name)
        self._supervisor.remove(spec, self.growth.placement)
        self._discard(spec)
