"""The supervisor: starts every process of a run, leads them through their life, ends them all, and
names the cause.

It is an actor in the process of `up`. `supervision` and `standstill` decide when a process counts
as dead, and `causes` chooses which of several reports is shown. This shell acts on their decisions.
In every case, no process is left behind.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

from runtime.actors.actor import Actor
from runtime.actors.node import Node
from runtime.cluster.launcher import FOR_MEMORY, LOST, Launched, Launcher
from runtime.cluster.lifecycle import (
    FIRST,
    Begin,
    EventReport,
    Failure,
    Finished,
    Gone,
    Halt,
    Heartbeat,
    Hello,
    Left,
    LifeStage,
    LinkLost,
    Ready,
    Restarting,
    agent_of,
)
from runtime.cluster.membership import Membership, hears_at
from runtime.cluster.spawning import EndChild, Spawn
from runtime.cluster.supervising.causes import Causes, LastWish, cut, death, nothing
from runtime.cluster.supervising.growing import Growing
from runtime.cluster.supervising.rejoining import Rejoining
from runtime.cluster.supervising.revival import Revival
from runtime.cluster.supervising.sameness import Sameness
from runtime.cluster.supervising.standstill import Standstill
from runtime.cluster.supervising.supervision import Liveness, Supervision
from runtime.cluster.warnings import WARNING, FirstOfEach
from runtime.cluster.watcher import Watcher
from runtime.errors import (
    Absent,
    ActorStopped,
    ConvoyError,
    LaunchError,
    MessageError,
    ProgramFailed,
    RoleDied,
    by,
    with_silent,
)
from runtime.machine.memory import MachineMemory
from runtime.machine.stacks import INTO_LOG, LAST_WORDS
from runtime.messages.message import Envelope, Message, Save, WindDown
from runtime.plan.topology import SUPERVISOR, Placement, ProcessSpec
from runtime.transport import Transport, host_identity

TICK_SECONDS = 0.1
HALT_SECONDS = 3.0  # for a clean stop; then SIGTERM, and SIGKILL after another second
HALT_EARLY_SECONDS = 1.0  # before all processes have begun: there is nothing to save
TERMINATE_SECONDS = 1.0
STACK_SECONDS = 0.2  # for processes to write their stacks into their logs


class Supervisor(Actor):
    """Runs one placement to its end. `began` is set when every actor has begun. `outcome` is done
    when the run is over: its result is None, or the error that ended the run."""

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
        self._road = road
        self.placement = placement
        self._launcher = launcher
        self._liveness = liveness
        self._watcher = watcher
        self._launched: dict[str, Launched] = {}
        self.roll = Membership(placement)
        self.sameness = Sameness()
        self._watchers: set[asyncio.Task[None]] = set()
        # process -> set when it has ended, as it was told to while the run goes on
        self._leaving: dict[str, asyncio.Event] = {}
        self.growing: Growing | None = None  # if actors may start others
        self.began = asyncio.Event()
        self._directed = False  # whether all processes have the addresses of their peers
        # actor -> its status in the last heartbeat of its process
        self.statuses: dict[str, dict[str, Any]] = {}
        self.outcome: asyncio.Future[ConvoyError | None] = (
            asyncio.get_running_loop().create_future()
        )
        self._supervision = Supervision((p.name for p in placement.processes), liveness, self.now())
        self._standstill = Standstill(placement.topology.lead, liveness.standstill_seconds)
        self._causes = Causes()
        self._revival = Revival(placement)
        self._memory = MachineMemory()
        self._warnings = FirstOfEach()
        self._beginning: set[asyncio.Task[None]] = set()  # later lives, while peers link them
        self._rejoining = Rejoining(lambda machine: self.take_back([machine]))
        # process -> why it counts as dead, also if it later ends for another reason
        self._condemned: dict[str, str] = {}
        # awaited with the outcome, while the living processes still answer
        self.before_stopping: LastWish = nothing

    # -- the run

    async def supervise(self) -> ConvoyError | None:
        """Start all processes, watch them until the outcome is known, and end them all. Returns the
        error that ended the run, or None."""
        starting = asyncio.create_task(self._launch_all(), name="start of the processes")
        try:
            while not self.outcome.done():
                await self._judge()
                await asyncio.wait([self.outcome], timeout=TICK_SECONDS)
            await self.before_stopping(self.outcome.result())
        finally:
            starting.cancel()
            await self._rejoining.close()
            for task in self._beginning:
                task.cancel()
            await asyncio.gather(*self._beginning, return_exceptions=True)
            await asyncio.gather(starting, return_exceptions=True)
            if self.growing is not None:
                await self.growing.close()
            await self._stop_all()
            await self._launcher.close()
        return with_silent(self._launcher.silent, self.outcome.result())

    async def _launch_all(self) -> None:
        try:
            used = {spec.machine for spec in self.placement.processes}
            for machine in self._launcher.plan.machines:
                if machine.name in used:
                    async with self._in_time(f"machine '{machine.name}' was not ready"):
                        await self._launcher.open(machine)
            for spec in self.placement.processes:
                await self._launch(spec, FIRST)
        except ConvoyError as error:
            self._end(error)
        except Exception as error:  # noqa: BLE001  # a mistake in the launcher: passed on with the outcome
            self.outcome.set_exception(error)

    async def _launch(self, spec: ProcessSpec, incarnation: int) -> None:
        async with self._in_time(f"process '{spec.name}' was not started"):
            launched = await self._launcher.launch(spec, incarnation)
        self._launched[spec.name] = launched
        if self.outcome.done():
            launched.signal(signal.SIGKILL)
        self._supervision.launched(spec.name, self.now())
        watcher = asyncio.create_task(
            self._watch_exit(launched, incarnation), name=f"exit of {spec.name}"
        )
        self._watchers.add(watcher)
        watcher.add_done_callback(self._watchers.discard)

    @asynccontextmanager
    async def _in_time(self, what: str) -> AsyncIterator[None]:
        seconds = max(self._liveness.start_seconds, self._launcher.patience)
        try:
            async with asyncio.timeout(seconds):
                yield
        except TimeoutError:
            raise LaunchError(f"{what} within {seconds:g} s: {self._launcher.waiting()}") from None

    async def wind_down(self, reason: str) -> None:
        """Ask the lead actor to bring the run to a good end. Before the lead runs, there is nothing
        to save, and the run ends at once."""
        if self.began.is_set() and not self.outcome.done():
            await self.tell(self.placement.topology.lead, WindDown(reason=reason))
        else:
            self._end(None)

    async def save(self) -> None:
        """Ask the lead actor to write a checkpoint and go on."""
        if self.began.is_set() and not self.outcome.done():
            await self.tell(self.placement.topology.lead, Save())

    def end_now(self) -> None:
        """End the run at once, without waiting."""
        self._end(None)
        for launched in self._launched.values():
            launched.signal(signal.SIGKILL)

    def signal(self, process: str, number: signal.Signals) -> None:
        """Send a signal to a process of the run, on any machine. Does nothing if the process was
        not started or has ended."""
        if process in self._launched:
            self._launched[process].signal(number)

    def known(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the known facts about every process and every actor, for people. No process is
        asked."""
        stages = {
            name: {"stage": watched.stage.value}
            for name, watched in self._supervision.processes.items()
        }
        return {name: stage | self.roll.facts(name) for name, stage in stages.items()}, dict(
            self.statuses
        )

    # -- messages of the processes

    async def on_hello(self, message: Hello, envelope: Envelope) -> None:
        """Note that a process has started. Once all have, send to each the addresses of its peers.
        A process that was restarted gets them at once."""
        if self._is_halting(message.process):
            return
        self._supervision.note(message.process, "hello", self.now(), message.incarnation)
        self.roll.greetings[message.process] = message
        self.sameness.runs(
            self.roll.spec(message.process).machine, message.host_name, message.versions
        )
        if message.host != host_identity.identity():
            self._supervision.is_far(message.process)
        facts = {"process": message.process, "pid": message.pid, "host": message.host_name}
        metrics = {"metrics_port": message.metrics_port, "versions": dict(message.versions)}
        self._watcher.event(self.name, "process", {**facts, **metrics})
        if self._directed:
            await self._direct(message.process)
        elif self._supervision.all_reached(LifeStage.GREETED) and self._same(
            self.sameness.wrong_program()
        ):
            self._directed = True
            for text in self.sameness.warnings():
                self._watcher.event(self.name, WARNING, {"text": text})
            for spec in self.placement.processes:
                await self._direct(spec.name)

    def _same(self, difference: str) -> bool:
        """Return whether all machines run or read the same. A `difference` ends the run."""
        if difference:
            self._end(LaunchError(difference))
        return not difference

    async def _direct(self, process: str) -> None:
        for directory in self.roll.directory(process):
            await self.tell(agent_of(process), directory)

    async def on_ready(self, message: Ready, envelope: Envelope) -> None:
        """Note that a process is prepared. Once all are, let all begin. A restarted process begins
        while the others run."""
        if self._is_halting(message.process):
            return
        self._supervision.note(message.process, "ready", self.now(), envelope.incarnation)
        self.sameness.reads(self.roll.spec(message.process).machine, message.reads)
        if self.began.is_set():
            if self.growing is None or message.process not in self.growing.growth.starting:
                beginning = self._begin_again(message.process)
                task = asyncio.create_task(beginning, name=f"{message.process} begins")
                self._beginning.add(task)
                task.add_done_callback(self._beginning.discard)
            else:
                self.growing.moved()
            return
        if self._supervision.some_at(LifeStage.STARTING, LifeStage.GREETED):
            return
        if not self._same(self.sameness.wrong_data()):
            return
        await self.begin(self._supervision.at(LifeStage.READY))
        self._watcher.event(self.name, "began", {"processes": len(self.placement.processes)})
        self.began.set()

    async def _begin_again(self, process: str) -> None:
        """Let a process begin its next life once its peers have linked it, since they refuse what
        it sends before."""
        life = self._supervision.life(process)
        if not self._same(self.sameness.wrong_data()):
            return
        await asyncio.gather(*(self._linked(peer, process) for peer in self.roll.peers(process)))
        same = life == self._supervision.life(process)
        if same and self._supervision.is_at(process, LifeStage.READY):
            await self.begin([process])

    async def _linked(self, peer: str, process: str) -> None:
        """Wait until a peer has linked the next life of a process. A peer that does not answer is
        judged by its heartbeats."""
        patience = self._liveness.silence_seconds + self._liveness.link_seconds
        with suppress(ConvoyError):
            for directory in self.roll.directory(peer, process):
                await self.ask(agent_of(peer), directory, bool, timeout=patience)

    async def begin(self, ready: Sequence[str]) -> None:
        """Let processes that are ready begin."""
        for process in ready:
            self._supervision.note(process, "begin", self.now())
        for process in ready:
            await self.tell(agent_of(process), Begin())
        if self.growing is not None:
            self.growing.moved()

    # -- processes that come and go while the run goes on, see `growing`

    async def on_spawn(self, message: Spawn, envelope: Envelope) -> None:
        """Start an actor that another one wants."""
        self._growing(message).take(message, envelope)

    async def on_end_child(self, message: EndChild, envelope: Envelope) -> None:
        """End an actor that another one has started."""
        self._growing(message).take(message, envelope)

    def _growing(self, message: Message) -> Growing:
        if self.growing is None:
            raise MessageError("illegal", f"{message!r}: no actor of this run may start others")
        return self.growing

    async def add(self, spec: ProcessSpec, placement: Placement, restarts: int) -> None:
        """Start a process that `placement` has more than before. Raises LaunchError if it cannot be
        started."""
        self.placement = placement
        self.roll.grow(placement)
        life = self.roll.life(spec.name) + 1
        self._supervision.add(spec.name, life, self.now())
        self._revival.add(spec.name, restarts)
        await self._launch(spec, life)

    async def end_process(self, process: str) -> None:
        """Stop the actors of a process, and wait until it has ended. A process that does not stop
        gets signals."""
        gone = self._leaving[process] = asyncio.Event()
        self._supervision.note(process, "halt", self.now())
        launched = self._launched[process]
        with suppress(TimeoutError):
            async with asyncio.timeout(HALT_SECONDS):
                with suppress(ActorStopped):  # it has died just now
                    await self.tell(agent_of(process), Halt(reason="its parent has ended it"))
                await gone.wait()
        if not gone.is_set():
            text = f"did not stop within {HALT_SECONDS:g} s of its end: it is killed"
            fields = {"text": f"process {process} {text}", "process": process}
            self.report(WARNING, fields)
            launched.signal(signal.SIGKILL)
            await gone.wait()

    def remove(self, spec: ProcessSpec, placement: Placement) -> None:
        """Forget a process that has ended in order, or could not be started."""
        self._leaving.pop(spec.name, None)
        self._launched.pop(spec.name, None)
        self._home.lost(spec.name, in_order=True)
        self._supervision.remove(spec.name)
        self._standstill.forget(spec)
        self.placement = placement
        self.roll.remove(spec.name, placement)
        for actor in spec.actors:
            self.statuses.pop(actor, None)

    def is_at(self, process: str, *stages: LifeStage) -> bool:
        """Whether a process of the run is at one of these stages."""
        return self._supervision.is_at(process, *stages)

    def report(self, event: str, fields: dict[str, Any]) -> None:
        """Report an event of the supervisor."""
        self._watcher.event(self.name, event, fields)

    def fail(self, error: Exception) -> None:
        """End the run with an error that is a mistake of the runtime."""
        if not self.outcome.done():
            self.outcome.set_exception(error)

    def _is_halting(self, process: str) -> bool:
        """Whether the process is stopping. Its messages about its start were then sent before it
        learnt that the run is over, and it may have ended since."""
        return self._supervision.is_at(
            process, LifeStage.HALTING, *((LifeStage.GONE,) if self.outcome.done() else ())
        )

    async def on_heartbeat(self, message: Heartbeat, envelope: Envelope) -> None:
        """Note that a process lives, and check that the run advances."""
        if message.process not in self.roll.specs:
            return
        self._supervision.beat(message, self.now())
        for actor, status in message.actors.items():
            self.statuses[actor] = {**status, "process": message.process}
        self._watcher.beat(message.process, message)
        why = self._standstill.beat(message, self.now())
        starting = self._supervision.some_at(LifeStage.STARTING, LifeStage.GREETED, LifeStage.READY)
        if why is not None and self.began.is_set() and not starting:
            for launched in self._launched.values():
                launched.signal(INTO_LOG)
            await asyncio.wait([self.outcome], timeout=STACK_SECONDS)
            logs = self._launched[message.process].log.parent
            self._end(RoleDied(f"{why}\n  the logs in {logs} have the stacks of all processes"))

    async def on_event_report(self, message: EventReport, envelope: Envelope) -> None:
        """Pass on an event for the journal that an actor reports."""
        if not self._warnings.told(message.event, message.fields):
            self._watcher.event(message.actor, message.event, dict(message.fields))

    async def on_finished(self, message: Finished, envelope: Envelope) -> None:
        """End the run, since the lead actor is done, unless a failure still waits for its
        explanation."""
        if not self._causes:
            self._end(None)

    async def on_failure(self, message: Failure, envelope: Envelope) -> None:
        """End the run, since an actor failed. The cause may be the death of another process, unless
        the program itself gave up. An optional process that cannot begin again only stays away."""
        if message.cause == "program":
            self._end(by(message.actor, ProgramFailed(f"{message.actor}: {message.error}")))
            return
        running = self._supervision.is_at(message.process, LifeStage.RUNNING)
        if not running and self._may_stay_away(message.process):
            self._condemned.setdefault(message.process, f"could not begin: {message.error}")
            return
        place = f"{message.actor} (process {message.process} on {self.roll.host(message.process)})"
        log = self._launched[message.process].log
        died = RoleDied(f"{place} failed: {message.error}\n  its log: {log}")
        error = LaunchError(message.error) if message.cause == "launch" else died
        self._causes.failed(message.process, by(message.actor, error), self.now())

    async def on_left(self, message: Left, envelope: Envelope) -> None:
        """Go on without a process that was told to go, if that is possible. If it is the last that
        could go, the run ends. The exit of any other process is a death."""
        process = message.process
        if self._is_halting(process):
            return
        if self._may_stay_away(process):
            self._supervision.note(process, "exit", self.now())
            await self._stays_away(process, "was told to go by SIGTERM")
        elif self._revival.is_last(process):
            why = "was told to go by SIGTERM, and no process is left that could go on in its place"
            self._end(self._death(process, why))

    async def on_link_lost(self, message: LinkLost, envelope: Envelope) -> None:
        """Note that the connection between two processes broke. If neither of them ends, this ends
        the run."""
        former = 0 < message.life < self._supervision.life(message.peer)
        leaves = self._is_leaving(message.peer) or self._is_leaving(message.process)
        if not self.outcome.done() and not former and not leaves:
            self._watcher.event(
                self.name, "link lost", {"process": message.process, "peer": message.peer}
            )
            self._supervision.link_lost(message.process, message.peer, self.now())

    def link_lost(self, process: str) -> None:
        """Note that the connection to a process broke, so that messages to it would be lost. Its
        exit or its silence may give the reason."""
        if process in self._supervision.at(LifeStage.RUNNING, LifeStage.READY, LifeStage.GREETED):
            self._watcher.event(self.name, "link lost", {"process": process})
            self._supervision.link_lost(SUPERVISOR, process, self.now())

    # -- deciding and acting

    async def _judge(self) -> None:
        """End the run if a process counts as dead or a link is broken. Such a process shows its
        stacks if it still can, is named, and is killed."""
        silent = [
            found for found in self._supervision.check(self.now()) if found[0] in self._launched
        ]
        # a process that the kernel ends slowly, for memory, falls silent first
        killed = silent and self._memory.killed()
        memory = f"; meanwhile a process was {FOR_MEMORY}" if killed else ""
        self._condemned |= {name: f"{why}{memory}" for name, why in silent}
        broken = self._supervision.broken(self.now())
        for process in filter(self._may_stay_away, broken or ()):
            self._condemned.setdefault(process, "cannot be reached by its peers")
            broken = None
        for process in self._condemned:
            self._launched[process].signal(LAST_WORDS)
        if self._condemned:
            await asyncio.wait([self.outcome], timeout=STACK_SECONDS)
        for process, why in self._condemned.items():
            if not self._restarts(process) and not self._may_stay_away(process):
                self._end(self._death(process, why))
            self._launched[process].signal(signal.SIGKILL)
        cause = self._causes.told(self.now()) or (
            self._cut(*broken) if broken is not None else None
        )
        if cause is not None:
            self._end(cause)

    def _cut(self, process: str, peer: str) -> RoleDied:
        ends = {name: self.roll.host(name) for name in (process, peer)}
        silent = [name for name in ends if self._supervision.is_silent(name, self.now())]
        text = cut(
            ends,
            silent,
            self._liveness.link_seconds,
            both=self._supervision.both_report(process, peer),
            one_host=self.roll.on_one_host(ends),
        )
        log = self._launched[peer if process == SUPERVISOR else process].log
        return by(f"{process} {peer}", RoleDied(f"{text}\n  the log: {log}"))

    async def _watch_exit(self, launched: Launched, incarnation: int) -> None:
        status = await launched.wait()
        if self._supervision.is_at(launched.name, LifeStage.GONE):
            return  # the run goes on without it
        if incarnation != self._supervision.life(launched.name):
            return  # another life of the process goes on
        halting = self._is_halting(launched.name)
        restarts = self._restarts(launched.name)
        self._supervision.note(launched.name, "exit", self.now())
        if launched.name in self._leaving:
            self._leaving[launched.name].set()
        if not halting:
            why = self._condemned.get(launched.name) or launched.describe(
                status, self._memory.killed()
            )
            if restarts:
                await self._restart(launched.name, why)
                return
            if self._may_stay_away(launched.name):
                await self._stays_away(launched.name, why)
                return
            death = self._death(launched.name, why)
            if 0 < status < LOST:
                self._causes.exited(launched.name, death, self.now())
            else:
                self._end(death)

    def _is_leaving(self, process: str) -> bool:
        """Whether a process ends or has ended as it was told to, while the run goes on."""
        return process in self._leaving or process not in {SUPERVISOR, *self.roll.specs}

    def _restarts(self, process: str) -> bool:
        """Whether the process would be started again if it died now."""
        runs = self._supervision.is_at(process, LifeStage.RUNNING)
        return runs and self._revival.allows(process) and not self.outcome.done()

    def _may_stay_away(self, *processes: str) -> bool:
        """Whether the run would go on without these processes if they died now."""
        return (
            self.began.is_set()
            and not self.outcome.done()
            and self._revival.may_stay_away(*processes)
        )

    # -- machines that leave and come back while the run goes on

    def can_change(self, leaving: Sequence[str], returning: Sequence[str]) -> bool:
        """Whether the run can go on without the processes of the `leaving` machines, and start
        those of the `returning` machines again, without a restart of the others."""
        gone, back = self._of(leaving), self._of(returning)
        return (
            bool(gone) == bool(leaving)
            and self._may_stay_away(*gone)
            and all(self._supervision.is_at(name, LifeStage.GONE) for name in back)
            and {self.roll.spec(name).machine for name in back} == set(returning)
        )

    def _of(self, machines: Sequence[str]) -> list[str]:
        specs = self.placement.processes
        return [spec.name for spec in specs if spec.machine in machines]

    async def release(self, machines: Sequence[str]) -> None:
        """Go on without the processes of these machines, end them, and let the machines go."""
        ends = []
        for process in self._of(machines):
            if not self._supervision.is_at(process, LifeStage.GONE):
                self._supervision.note(process, "exit", self.now())
                machine = self.roll.spec(process).machine
                await self._stays_away(process, f"leaves with machine '{machine}'")
                self._launched[process].signal(signal.SIGTERM)
                ends.append(asyncio.create_task(self._ended(self._launched[process])))
        await asyncio.gather(*ends)
        for name in machines:
            self._rejoining.let_go(name)
            await self._launcher.part(name)

    async def _ended(self, launched: Launched) -> None:
        """Wait until a process that was told to end has ended. It is killed if it does not."""
        try:
            await asyncio.wait_for(launched.wait(), TERMINATE_SECONDS)
        except TimeoutError:
            launched.signal(signal.SIGKILL)
            await launched.wait()

    async def bring_back(self, machines: Sequence[str]) -> None:
        """Do as `take_back` at once, for a person."""
        for name in machines:
            self._rejoining.let_go(name)
        await self.take_back(machines)

    async def take_back(self, machines: Sequence[str]) -> None:
        """Start the processes of these machines again. Raises LaunchError if that is impossible:
        the run then goes on without them."""
        for machine in self._launcher.plan.machines:
            if machine.name in machines:
                await self._launcher.open(machine)
        for process in self._of(machines):
            if not self._supervision.is_at(process, LifeStage.GONE):
                continue
            await self._ended(self._launched[process])
            self._revival.comes_back(process)
            await self._start_again(process)

    async def _start_again(self, process: str) -> None:
        """Start a process that has ended in its next life, and let its peers know. Raises
        ConvoyError if it cannot be started. The run then goes on without it, or ends."""
        try:
            await self._next_life(process)
        except ConvoyError as error:
            if not self._may_stay_away(process):
                self._end(error)
                return
            self._supervision.note(process, "exit", self.now())
            await self._stays_away(process, f"could not be started again: {error}")
            if isinstance(error, Absent) and self._launcher.reopens:
                self._rejoining.lost(error.machine)
            raise

    async def _next_life(self, process: str) -> None:
        self._supervision.restarts(process, self.now())
        self.roll.ended(process)
        self._home.lost(process, returns=True)
        for peer in self.roll.peers(process):
            await self.tell(agent_of(peer), Restarting(process=process))
        await self._launch(self.roll.spec(process), self._supervision.life(process))

    async def _restart(self, process: str, why: str) -> None:
        """Start a process again that has died while it ran, and let its peers know."""
        text = f"process {process} on {self.roll.host(process)} {why}; it is started again"
        self._watcher.event(self.name, WARNING, {"text": text, "process": process})
        self._revival.take(process)
        self._condemned.pop(process, None)
        with suppress(ConvoyError):  # it was reported
            await self._start_again(process)

    async def _stays_away(self, process: str, why: str) -> None:
        """Let the run go on without a process that has died."""
        text = f"process {process} on {self.roll.host(process)} {why}; the run goes on without it"
        self._watcher.event(self.name, WARNING, {"text": text, "process": process})
        self._revival.stays_away(process)
        self._condemned.pop(process, None)
        self.roll.ended(process)
        self._home.lost(process)
        for peer in self.roll.peers(process):
            await self.tell(agent_of(peer), Gone(process=process))

    def _death(self, process: str, why: str) -> RoleDied:
        return death(
            process,
            self.roll.spec(process).actors,
            self.roll.host(process),
            self._launched[process],
            why,
        )

    def _end(self, error: ConvoyError | None) -> None:
        if not self.outcome.done():
            self.outcome.set_result(error)
            if error is not None:
                self._watcher.failed(error)

    def admit(self, envelope: Envelope) -> None:
        """Link a process that greets, and its actors, in each of its lives. Also let a process that
        fails before its greeting report the failure."""
        message = envelope.message
        if not isinstance(message, Hello | Failure):
            return
        spec = self.roll.specs.get(message.process)
        if spec is None or self.roll.life(spec.name) >= envelope.incarnation:
            return
        if isinstance(message, Hello) and message.incarnation == envelope.incarnation:
            actors = [agent_of(spec.name), *spec.actors]
            at = hears_at(message, arrays=self._home.arena is not None)
            try:
                self._home.connect(spec.name, message.incarnation, at, actors, self._road)
            except LaunchError as error:  # no file descriptor is left for the connection
                self._end(error)
        elif isinstance(message, Failure):
            self._home.know(envelope.sender, spec.name, envelope.incarnation, self._road)

    async def _stop_all(self) -> None:
        deaf = [
            launched
            for name, launched in self._launched.items()
            if not self._supervision.hears(name, self.now())
        ]
        for process in self._supervision.at(
            *(stage for stage in LifeStage if stage is not LifeStage.GONE)
        ):
            self._supervision.note(process, "halt", self.now())
        for launched in deaf:
            launched.signal(signal.SIGTERM)
        patience = HALT_SECONDS if self.began.is_set() else HALT_EARLY_SECONDS
        with suppress(TimeoutError, ConvoyError):  # processes that do not stop get signals
            async with asyncio.timeout(patience):
                for process in self.roll.greetings:
                    await self.tell(agent_of(process), Halt(reason="the run is over"))
                await self._all_gone(patience)
        for number, patience in (
            (signal.SIGTERM, TERMINATE_SECONDS),
            (signal.SIGKILL, TERMINATE_SECONDS),
        ):
            for launched in self._launched.values():
                launched.signal(number)
            await self._all_gone(patience)

    async def _all_gone(self, patience: float) -> None:
        if self._watchers:
            await asyncio.wait(self._watchers, timeout=patience)
