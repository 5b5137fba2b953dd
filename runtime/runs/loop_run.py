"""A run whose actors all live on this event loop: in a notebook, where classes have no file that a process could load.

No process can be lost or killed here and nothing watches for a hang; array work runs in one thread beside the loop.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any, TypeVar

from runtime.actors.actor import Actor
from runtime.actors.metrics import Metrics
from runtime.actors.node import Node
from runtime.cluster.supervisor import Watcher
from runtime.compute.compute import ThreadCompute
from runtime.compute.emulated import device_of
from runtime.errors import ConvoyError, LaunchError, ProgramFailed, RoleDied
from runtime.messages.message import Message, Save, WindDown
from runtime.plan.program import MAIN, actor_of, import_program
from runtime.plan.topology import SUPERVISOR, Topology
from runtime.transport import Limits
from runtime.transport.inproc import InprocNetwork, InprocTransport

R = TypeVar("R", bound=Message)
HERE = "here"  # the process's name


class Here:
    """As `Processes`, without any."""

    def __init__(self, topology: Topology, limits: Limits, directory: Path, watcher: Watcher) -> None:
        self._topology, self._watcher = topology, watcher
        self._outcome: asyncio.Future[ConvoyError | None] = asyncio.get_running_loop().create_future()
        self._running = False
        self._script = Actor()  # in whose name the script speaks
        self._node = Node(HERE, 1, ThreadCompute(), Metrics())
        self._node.directory, self._node.lead = directory, topology.lead
        self._node.on_event = watcher.event
        self._node.on_failure = self._failed
        self._node.on_finished = lambda: self._end(None)
        self._road = InprocTransport(HERE, self._node.deliver, self._node.reject, limits, InprocNetwork())

    @property
    def metrics_url(self) -> str:
        """There is no page."""
        return ""

    async def open(self) -> None:
        """Make the actors. LaunchError if the program lacks a role."""
        program = self._topology.program
        module = sys.modules[MAIN] if program == MAIN else import_program(program)
        names = [actor.name for actor in self._topology.actors]
        self._node.connect(HERE, 1, await self._road.open(), [*names, SUPERVISOR], self._road)
        self._node.add(SUPERVISOR, SUPERVISOR, self._script)
        for actor in self._topology.actors:
            self._node.add(actor.name, actor.role, actor_of(module, actor), device_of(actor.role, actor.emulated))

    async def supervise(self) -> ConvoyError | None:
        """Run the actors until the lead has ended or one has failed; the error that ended the run, if any."""
        life = asyncio.create_task(self._live())
        try:
            either: list[asyncio.Future[Any]] = [life, self._outcome]
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            return await self._outcome
        finally:
            life.cancel()
            await asyncio.gather(life, return_exceptions=True)

    async def _live(self) -> None:
        names = list(self._node.actors)
        for name in names:
            try:
                await self._node.prepare([name])
            except Exception as error:  # noqa: BLE001  # told like any failure of an actor
                self._failed(name, error)
                return
        self._running = True
        self._node.begin(names)
        self._watcher.event(SUPERVISOR, "began", {"processes": 0})

    async def tell(self, actor: str, message: Message) -> None:
        """See Actor.tell."""
        await self._script.tell(actor, message)

    async def ask(self, actor: str, message: Message, answer: type[R], timeout: float | None) -> R:
        """See Actor.ask."""
        return await self._script.ask(actor, message, answer, timeout=timeout)

    async def wind_down(self, reason: str) -> None:
        """See Supervisor.wind_down."""
        if self._running:
            await self.tell(self._topology.lead, WindDown(reason=reason))
        else:
            self._end(None)

    async def save(self) -> None:
        """See Supervisor.save."""
        if self._running:
            await self.tell(self._topology.lead, Save())

    def end_now(self) -> None:
        """See Supervisor.end_now."""
        self._end(None)

    def statuses(self) -> dict[str, dict[str, Any]]:
        """What each actor does now, see Node.status."""
        found = {status["actor"]: {**status, "process": HERE} for status in self._node.status()}
        found.pop(SUPERVISOR, None)
        return found

    async def close(self) -> None:
        """Stop the actors."""
        await self._node.stop()
        self._node.compute.close()
        await self._road.close()

    def _failed(self, actor: str, error: BaseException) -> None:
        self._end(told(actor, error))

    def _end(self, error: ConvoyError | None) -> None:
        if self._outcome.done():
            return
        self._outcome.set_result(error)
        if error is not None:
            self._watcher.failed(error)


def told(actor: str, error: BaseException) -> ConvoyError:
    """An actor's failure as an error for people; what was raised is its cause."""
    text = str(error) if isinstance(error, ConvoyError) else f"{type(error).__name__}: {error}"
    made: ConvoyError = RoleDied(f"{actor} failed: {text}")
    if isinstance(error, ProgramFailed):
        made = ProgramFailed(f"{actor}: {text}")
    elif isinstance(error, LaunchError):
        made = LaunchError(text)
    made.__cause__ = error
    return made
