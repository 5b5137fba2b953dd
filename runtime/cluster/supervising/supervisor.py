"""The supervisor: starts every process of a run, leads them through their life, ends them all, and
names the cause.

It is an actor in the process of `up`. It takes the messages of all processes and hands each to the
part that acts on it: `beginning`, `deaths`, `lives` or `growing`. The parts share the state in
`supervised_run`. In every case, no process is left behind.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from runtime.actors.actor import Actor
from runtime.actors.node import Node
from runtime.cluster.launcher import Launched, Launcher
from runtime.cluster.lifecycle import (
    EventReport,
    Failure,
    Finished,
    Halt,
    Heartbeat,
    Hello,
    Left,
    LifeStage,
    LinkLost,
    Ready,
    agent_of,
)
from runtime.cluster.spawning import EndChild, Spawn
from runtime.cluster.supervising.beginning import Beginning
from runtime.cluster.supervising.causes import LastWish, nothing
from runtime.cluster.supervising.deaths import Deaths
from runtime.cluster.supervising.growing import Growing
from runtime.cluster.supervising.lives import Lives
from runtime.cluster.supervising.processes import Processes
from runtime.cluster.supervising.supervised_run import SupervisedRun
from runtime.cluster.supervising.supervision import Liveness
from runtime.cluster.warnings import WARNING, FirstOfEach
from runtime.cluster.watcher import Watcher
from runtime.errors import ActorStopped, ConvoyError, MessageError, with_silent
from runtime.messages.message import Envelope, Message, Save, WindDown
from runtime.plan.topology import Placement, ProcessSpec
from runtime.transport import Transport

TICK_SECONDS = 0.1
HALT_SECONDS = 3.0  # for a clean stop; then SIGTERM, and SIGKILL after another second
HALT_EARLY_SECONDS = 1.0  # before all processes have begun: there is nothing to save


class Supervisor(Actor):
    """Runs one placement to its end. `began` is set when every actor has begun. `outcome` is done
    when the run is over: its result is None, or the error that ended the run. `beginning` links
    the processes that greet. `lives` changes the machines while the run goes on."""

    def __init__(
        self,
        node: Node,
        road: Transport,
        placement: Placement,
        launcher: Launcher,
        liveness: Liveness,
        watcher: Watcher,
    ) -> None:
        self._home = node
        self._launcher = launcher
        self._watcher = watcher
        self.supervised_run = run = SupervisedRun(placement, liveness, watcher, self.now)
        self.began, self.outcome, self.roll = run.began, run.outcome, run.roll
        self._processes = Processes(run, launcher, self._exited)
        self.beginning = Beginning(run, self, node, road)
        self.lives = Lives(run, self._processes, launcher, self, node)
        self._deaths = Deaths(run, self._processes, self.lives)
        # actor -> its status in the last heartbeat of its process
        self.statuses: dict[str, dict[str, Any]] = {}
        self._warnings = FirstOfEach()
        # awaited with the outcome, while the living processes still answer
        self.before_stopping: LastWish = nothing

    @property
    def placement(self) -> Placement:
        """The placement of the run, with the processes that have been added to it."""
        return self.supervised_run.placement

    # -- the run

    async def supervise(self) -> ConvoyError | None:
        """Start all processes, watch them until the outcome is known, and end them all. Returns the
        error that ended the run, or None."""
        starting = asyncio.create_task(self._processes.start_all(), name="start of the processes")
        try:
            while not self.outcome.done():
                await self._deaths.judge()
                await asyncio.wait([self.outcome], timeout=TICK_SECONDS)
            await self.before_stopping(self.outcome.result())
        finally:
            starting.cancel()
            await self.lives.close()
            await self.beginning.close()
            await asyncio.gather(starting, return_exceptions=True)
            if self.supervised_run.growing is not None:
                await self.supervised_run.growing.close()
            await self._stop_all()
            await self._launcher.close()
        return with_silent(self._launcher.silent, self.outcome.result())

    async def _stop_all(self) -> None:
        supervision, now = self.supervised_run.supervision, self.now()
        deaf = [name for name in self._processes if not supervision.hears(name, now)]
        for process in supervision.at(
            *(stage for stage in LifeStage if stage is not LifeStage.GONE)
        ):
            supervision.note(process, "halt", now)
        for process in deaf:
            self._processes.signal(process, signal.SIGTERM)
        patience = HALT_SECONDS if self.began.is_set() else HALT_EARLY_SECONDS
        with suppress(TimeoutError, ConvoyError):  # processes that do not stop get signals
            async with asyncio.timeout(patience):
                for process in self.roll.greetings:
                    await self.tell(agent_of(process), Halt(reason="the run is over"))
                await self._processes.all_ended(patience)
        await self._processes.kill_all()

    async def wind_down(self, reason: str) -> None:
        """Ask the lead actor to bring the run to a good end. Before the lead runs, there is nothing
        to save, and the run ends at once."""
        if self.began.is_set() and not self.outcome.done():
            await self.tell(self.placement.topology.lead, WindDown(reason=reason))
        else:
            self.supervised_run.end(None)

    async def save(self) -> None:
        """Ask the lead actor to write a checkpoint and go on."""
        if self.began.is_set() and not self.outcome.done():
            await self.tell(self.placement.topology.lead, Save())

    def end_now(self) -> None:
        """End the run at once, without waiting."""
        self.supervised_run.end(None)
        self._processes.signal_all(signal.SIGKILL)

    def signal(self, process: str, number: signal.Signals) -> None:
        """Send a signal to a process of the run, on any machine. Does nothing if the process was
        not started or has ended."""
        self._processes.signal(process, number)

    def known(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the known facts about every process and every actor, for people. No process is
        asked."""
        stages = {
            name: {"stage": watched.stage.value}
            for name, watched in self.supervised_run.supervision.processes.items()
        }
        return {name: stage | self.roll.facts(name) for name, stage in stages.items()}, dict(
            self.statuses
        )

    def link_lost(self, process: str) -> None:
        """Note that the connection to a process broke, so that messages to it would be lost. Its
        exit or its silence may give the reason."""
        self._deaths.own_link_lost(process)

    async def _exited(self, launched: Launched, incarnation: int, status: int) -> None:
        await self._deaths.exited(launched, incarnation, status)

    # -- messages of the processes

    async def on_hello(self, message: Hello, envelope: Envelope) -> None:
        """Note that a process has started."""
        await self.beginning.greeted(message)

    async def on_ready(self, message: Ready, envelope: Envelope) -> None:
        """Note that a process is prepared."""
        await self.beginning.ready(message, envelope.incarnation)

    async def on_heartbeat(self, message: Heartbeat, envelope: Envelope) -> None:
        """Note that a process lives, and check that the run advances."""
        if message.process not in self.roll.specs:
            return
        self.supervised_run.supervision.beat(message, self.now())
        for actor, status in message.actors.items():
            self.statuses[actor] = {**status, "process": message.process}
        self._watcher.beat(message.process, message)
        await self._deaths.stood_still(message)

    async def on_event_report(self, message: EventReport, envelope: Envelope) -> None:
        """Pass on an event for the journal that an actor reports."""
        if not self._warnings.told(message.event, message.fields):
            self._watcher.event(message.actor, message.event, dict(message.fields))

    async def on_finished(self, message: Finished, envelope: Envelope) -> None:
        """End the run, since the lead actor is done, unless a failure still waits for its
        explanation."""
        if not self._deaths.unexplained:
            self.supervised_run.end(None)

    async def on_failure(self, message: Failure, envelope: Envelope) -> None:
        """Act on the failure of an actor."""
        self._deaths.failed(message)

    async def on_left(self, message: Left, envelope: Envelope) -> None:
        """Act on the end of a process that was told to go."""
        await self._deaths.left(message.process)

    async def on_link_lost(self, message: LinkLost, envelope: Envelope) -> None:
        """Note that the connection between two processes broke."""
        self._deaths.link_lost(message)

    async def on_spawn(self, message: Spawn, envelope: Envelope) -> None:
        """Start an actor that another one wants."""
        self._growing(message).take(message, envelope)

    async def on_end_child(self, message: EndChild, envelope: Envelope) -> None:
        """End an actor that another one has started."""
        self._growing(message).take(message, envelope)

    def _growing(self, message: Message) -> Growing:
        growing = self.supervised_run.growing
        if growing is None:
            raise MessageError("illegal", f"{message!r}: no actor of this run may start others")
        return growing

    # -- the ground of `growing`: processes that come and go while the run goes on

    async def add(self, spec: ProcessSpec, placement: Placement, restarts: int) -> None:
        """Start a process that `placement` has more than before. Raises LaunchError if it cannot be
        started."""
        run = self.supervised_run
        run.placement = placement
        run.roll.grow(placement)
        life = run.roll.life(spec.name) + 1
        run.supervision.add(spec.name, life, self.now())
        run.revival.add(spec.name, restarts)
        await self._processes.start(spec, life)

    async def begin(self, ready: Sequence[str]) -> None:
        """Let processes that are ready begin."""
        await self.beginning.begin(ready)

    async def end_process(self, process: str) -> None:
        """Stop the actors of a process, and wait until it has ended. A process that does not stop
        gets signals."""
        run = self.supervised_run
        gone = run.leaving[process] = asyncio.Event()
        run.supervision.note(process, "halt", self.now())
        launched = self._processes[process]
        with suppress(TimeoutError):
            async with asyncio.timeout(HALT_SECONDS):
                with suppress(ActorStopped):  # it has died just now
                    await self.tell(agent_of(process), Halt(reason="its parent has ended it"))
                await gone.wait()
        if not gone.is_set():
            text = f"did not stop within {HALT_SECONDS:g} s of its end: it is killed"
            self.report(WARNING, {"text": f"process {process} {text}", "process": process})
            launched.signal(signal.SIGKILL)
            await gone.wait()

    def remove(self, spec: ProcessSpec, placement: Placement) -> None:
        """Forget a process that has ended in order, or could not be started."""
        run = self.supervised_run
        run.leaving.pop(spec.name, None)
        self._processes.forget(spec.name)
        self._home.lost(spec.name, in_order=True)
        run.supervision.remove(spec.name)
        self._deaths.forget(spec)
        run.placement = placement
        run.roll.remove(spec.name, placement)
        for actor in spec.actors:
            self.statuses.pop(actor, None)

    def is_at(self, process: str, *stages: LifeStage) -> bool:
        """Whether a process of the run is at one of these stages."""
        return self.supervised_run.supervision.is_at(process, *stages)

    def report(self, event: str, fields: dict[str, Any]) -> None:
        """Report an event of the supervisor."""
        self.supervised_run.event(event, fields)

    def fail(self, error: Exception) -> None:
        """End the run with an error that is a mistake of the runtime."""
        self.supervised_run.fail(error)
