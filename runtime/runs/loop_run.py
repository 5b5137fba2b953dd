"""A run whose actors all live on this event loop: for notebooks, whose classes have no file that a
process could load.

No process can be lost or killed here, and nothing watches for a hang. Array work runs in one thread
next to the loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, TypeVar

from runtime import user_code
from runtime.actors.actor import Actor
from runtime.compute.compute import Compute, ThreadCompute
from runtime.errors import ConvoyError, LaunchError, ProgramFailed, RoleDied
from runtime.messages.message import Message, Save, WindDown
from runtime.plan.placement import placed_later
from runtime.plan.program import actor_of, import_program
from runtime.plan.topology import SUPERVISOR, ActorSpec, Placement, ProcessSpec
from runtime.runs.execution import Execution, ExecutionContext, Watchers
from runtime.runs.observation import Observation
from runtime.simulation.cluster import Simulation
from runtime.simulation.loop_tracing import LoopTracing

R = TypeVar("R")
HERE = "here"  # the process's name


class LoopExecution(Execution):
    """An execution on this event loop, in real time. The script sends its messages as the
    supervisor."""

    observes: type[Compute] = ThreadCompute  # where the program's observer works

    def __init__(self, site: ExecutionContext) -> None:
        self.began = asyncio.Event()
        self._site = site
        self._lead = site.placement.topology.lead
        self._outcome: asyncio.Future[ConvoyError | None] = (
            asyncio.get_running_loop().create_future()
        )
        self._script = Actor()
        self._watchers = Watchers(site.watcher)
        self._observation: Observation | None = None
        self._tracing: LoopTracing | None = None
        self._cluster = self._hosted()

    @property
    def placement(self) -> Placement:
        return self._cluster.placement

    def _hosted(self) -> Simulation:
        site = self._site
        return Simulation(
            site.placement,
            limits=site.limits,
            directory=site.directory.path,
            watch=self._watchers.event,
            compute=ThreadCompute,
            place=self._placed_later,
        )

    def _placed_later(
        self, actor: ActorSpec, linked: Sequence[str], placement: Placement
    ) -> ProcessSpec:
        return placed_later(actor, linked, placement, self._site.config)

    async def open(self) -> None:
        await self._cluster.join(SUPERVISOR, self._script)

    async def supervise(self) -> ConvoyError | None:
        life = asyncio.create_task(self._live())
        try:
            return await self._outcome
        finally:
            life.cancel()
            await asyncio.gather(life, return_exceptions=True)

    async def _live(self) -> None:
        try:
            program = self._site.placement.topology.program
            offered = import_program(program)
            self._observe()
            await self._cluster.prepare(lambda spec: actor_of(offered, spec))
            self._trace()
            self._begin()
            await self._cluster.over
        except Exception as error:  # noqa: BLE001  # any error is reported as the end of the run
            self._end(self._told(self._cluster.failed or "an actor", error))
        else:
            self._end(None)

    def _observe(self) -> None:
        """Report all work to the program's observer, if it has one."""
        self._observation = Observation(
            self._site, self._script.gauge, self.observes(), self._watchers.event
        )
        self._watchers.add(self._observation)
        self._cluster.on_work = self._worked

    def _trace(self) -> None:
        site = self._site
        wanted = self._site.config.run.trace
        if wanted:
            nodes = {
                spec.name: self._cluster.nodes[spec.name][0] for spec in site.placement.processes
            }
            self._tracing = LoopTracing(site.placement, nodes, site.directory.path, wanted)

    def _worked(self) -> None:
        if self._tracing is not None:
            self._tracing.look()
        if self._observation is not None and self._observation.due:
            sums = self._cluster.work()
            self._site.directory.used(HERE, sums)
            self._observation.worked(sums)

    def _begin(self) -> None:
        self._cluster.begin()
        self.began.set()
        self._site.watcher.event(SUPERVISOR, "began", {"processes": 0})

    def _told(self, actor: str, error: Exception) -> ConvoyError:
        return told(actor, error)

    async def tell(self, actor: str, message: Message) -> None:
        await self._script.tell(actor, message)

    async def ask(self, actor: str, message: Message, answer: type[R], timeout: float | None) -> R:
        return await self._script.ask(actor, message, answer, timeout=timeout)

    async def wind_down(self, reason: str) -> None:
        if self.began.is_set():
            await self.tell(self._lead, WindDown(reason=reason))
        else:
            self._end(None)

    async def save(self) -> None:
        if self.began.is_set():
            await self.tell(self._lead, Save())

    def end_now(self) -> None:
        self.ended_now |= not self._outcome.done()
        self._end(None)

    def statuses(self) -> dict[str, dict[str, Any]]:
        return self._cluster.statuses()

    async def close(self) -> None:
        if self._observation is not None:
            await self._observation.close()
        cluster = self._cluster
        self._site.directory.used(HERE, cluster.work(), cluster.statuses(), cluster.received())
        await self._cluster.close()
        if self._tracing is not None:
            self._watchers.event(SUPERVISOR, "trace", self._tracing.close().fields)

    def _end(self, error: ConvoyError | None) -> None:
        if self._outcome.done():
            return
        self._outcome.set_result(error)
        if error is not None:
            self._site.watcher.failed(error)


def told(actor: str, error: BaseException) -> ConvoyError:
    """Return an actor's failure as an error for the user, with the original error as its cause."""
    text = user_code.told(error)
    made: ConvoyError = RoleDied(f"{actor} failed: {text}")
    if isinstance(error, ProgramFailed):
        made = ProgramFailed(f"{actor}: {text}")
    elif isinstance(error, LaunchError):
        made = LaunchError(text)
    made.__cause__ = error
    return made
