"""Acting on the deaths of processes: a process that counts as dead shows its stacks and is killed.
Then it is started again, the run goes on without it, or the run ends and names the cause.
`supervision` and `standstill` decide which process is dead, and `causes` chooses among several
reports.
"""

from __future__ import annotations

import asyncio
import signal

from runtime.cluster.launcher import FOR_MEMORY, LOST, Launched
from runtime.cluster.lifecycle import Failure, Heartbeat, LifeStage, LinkLost
from runtime.cluster.supervising.causes import Causes, cut, death
from runtime.cluster.supervising.lives import Lives
from runtime.cluster.supervising.processes import Processes
from runtime.cluster.supervising.standstill import Standstill
from runtime.cluster.supervising.supervised_run import SupervisedRun
from runtime.errors import LaunchError, ProgramFailed, RoleDied, by
from runtime.machine.memory import MachineMemory
from runtime.machine.stacks import INTO_LOG, LAST_WORDS
from runtime.plan.topology import SUPERVISOR, ProcessSpec

STACK_SECONDS = 0.2  # for processes to write their stacks into their logs


class Deaths:
    """Judges the processes of one run, and acts on each death."""

    def __init__(self, run: SupervisedRun, processes: Processes, lives: Lives) -> None:
        self._run = run
        self._processes = processes
        self._lives = lives
        self._standstill = Standstill(run.placement.topology.lead, run.liveness.standstill_seconds)
        self._causes = Causes()
        self._memory = MachineMemory()

    def __repr__(self) -> str:
        return f"<deaths: {len(self._run.condemned)} condemned, {self._causes!r}>"

    @property
    def unexplained(self) -> bool:
        """Whether a failure or an exit still waits for the report that explains it."""
        return bool(self._causes)

    async def judge(self) -> None:
        """End the run if a process counts as dead or a link is broken. Such a process shows its
        stacks if it still can, is named, and is killed."""
        run, processes = self._run, self._processes
        silent = [found for found in run.supervision.check(run.now()) if found[0] in processes]
        # a process that the kernel ends slowly, for memory, falls silent first
        killed = silent and self._memory.killed()
        memory = f"; meanwhile a process was {FOR_MEMORY}" if killed else ""
        run.condemned |= {name: f"{why}{memory}" for name, why in silent}
        broken = run.supervision.broken(run.now())
        for process in filter(run.may_stay_away, broken or ()):
            run.condemned.setdefault(process, "cannot be reached by its peers")
            broken = None
        for process in run.condemned:
            processes[process].signal(LAST_WORDS)
        if run.condemned:
            await asyncio.wait([run.outcome], timeout=STACK_SECONDS)
        for process, why in run.condemned.items():
            if not run.restarts(process) and not run.may_stay_away(process):
                run.end(self._death(process, why))
            processes[process].signal(signal.SIGKILL)
        cause = self._causes.told(run.now()) or (self._cut(*broken) if broken is not None else None)
        if cause is not None:
            run.end(cause)

    async def exited(self, launched: Launched, incarnation: int, status: int) -> None:
        """Act on the exit of a process: its death, unless it was told to end."""
        run, process = self._run, launched.name
        if run.supervision.is_at(process, LifeStage.GONE):
            return  # the run goes on without it
        if incarnation != run.supervision.life(process):
            return  # another life of the process goes on
        halting = run.is_halting(process)
        # a process that is lost with its machine has not failed itself: that death does not count
        waits = self._lives.is_lost(process) and run.may_stay_away(process)
        killed = status < 0 and process not in run.condemned
        restarts = run.restarts(process, killed=killed) and not waits
        run.supervision.note(process, "exit", run.now())
        if process in run.leaving:
            run.leaving[process].set()
        if halting:
            return
        why = run.condemned.get(process) or launched.describe(status, self._memory.killed())
        if restarts:
            await self._lives.restart(process, why)
        elif run.may_stay_away(process):
            await self._lives.stays_away(process, why)
        elif 0 < status < LOST:
            self._causes.exited(process, self._death(process, why), run.now())
        else:
            run.end(self._death(process, why))

    async def stood_still(self, heartbeat: Heartbeat) -> None:
        """Take a heartbeat, and end the run if it shows that the run stands still. All processes
        then write their stacks into their logs."""
        run = self._run
        why = self._standstill.beat(heartbeat, run.now())
        starting = run.supervision.some_at(LifeStage.STARTING, LifeStage.GREETED, LifeStage.READY)
        if why is not None and run.began.is_set() and not starting:
            self._processes.signal_all(INTO_LOG)
            await asyncio.wait([run.outcome], timeout=STACK_SECONDS)
            logs = self._processes.log(heartbeat.process).parent
            run.end(RoleDied(f"{why}\n  the logs in {logs} have the stacks of all processes"))

    def failed(self, message: Failure) -> None:
        """Note that an actor failed, which ends the run. The cause may be the death of another
        process, unless the program itself gave up. An optional process that cannot begin again only
        stays away."""
        run = self._run
        if message.cause == "program":
            run.end(by(message.actor, ProgramFailed(f"{message.actor}: {message.error}")))
            return
        running = run.supervision.is_at(message.process, LifeStage.RUNNING)
        if not running and run.may_stay_away(message.process):
            run.condemned.setdefault(message.process, f"could not begin: {message.error}")
            return
        place = f"{message.actor} (process {message.process} on {run.roll.host(message.process)})"
        log = self._processes.log(message.process)
        died = RoleDied(f"{place} failed: {message.error}\n  its log: {log}")
        error = LaunchError(message.error) if message.cause == "launch" else died
        self._causes.failed(message.process, by(message.actor, error), run.now())

    async def left(self, process: str) -> None:
        """Go on without a process that was told to go, if that is possible. If it is the last that
        could go, the run ends. The exit of any other process is a death."""
        run = self._run
        if run.is_halting(process):
            return
        if run.may_stay_away(process):
            run.supervision.note(process, "exit", run.now())
            await self._lives.stays_away(process, "was told to go by SIGTERM")
        elif run.revival.is_last(process):
            why = "was told to go by SIGTERM, and no process is left that could go on in its place"
            run.end(self._death(process, why))

    def link_lost(self, message: LinkLost) -> None:
        """Note that the connection between two processes broke. If neither of them ends, this ends
        the run."""
        run, process, peer = self._run, message.process, message.peer
        former = 0 < message.life < run.supervision.life(peer)
        leaves = run.is_leaving(peer) or run.is_leaving(process)
        if not run.outcome.done() and not former and not leaves:
            run.event("link lost", {"process": process, "peer": peer})
            run.supervision.link_lost(process, peer, run.now())

    def own_link_lost(self, process: str) -> None:
        """Note that the supervisor's connection to a process broke, so that messages to it would be
        lost. Its exit or its silence may give the reason."""
        run = self._run
        if run.supervision.is_at(process, LifeStage.RUNNING, LifeStage.READY, LifeStage.GREETED):
            run.event("link lost", {"process": process})
            run.supervision.link_lost(SUPERVISOR, process, run.now())

    def forget(self, spec: ProcessSpec) -> None:
        """Forget a process that has ended in order."""
        self._standstill.forget(spec)

    def _death(self, process: str, why: str) -> RoleDied:
        spec, host = self._run.roll.spec(process), self._run.roll.host(process)
        return death(process, spec.actors, host, self._processes[process], why)

    def _cut(self, process: str, peer: str) -> RoleDied:
        run = self._run
        ends = {name: run.roll.host(name) for name in (process, peer)}
        silent = [name for name in ends if run.supervision.is_silent(name, run.now())]
        text = cut(
            ends,
            silent,
            run.liveness.link_seconds,
            both=run.supervision.both_report(process, peer),
            one_host=run.roll.on_one_host(ends),
        )
        log = self._processes.log(peer if process == SUPERVISOR else process)
        return by(f"{process} {peer}", RoleDied(f"{text}\n  the log: {log}"))
