"""The next lives of processes: while the run goes on, a process that died is started again or stays
away, and machines leave and come back with their processes.
"""

from __future__ import annotations

import asyncio
import signal
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress

from runtime.actors.actor import Actor
from runtime.actors.node import Node
from runtime.cluster.launcher import Launcher
from runtime.cluster.lifecycle import Gone, LifeStage, Restarting, agent_of
from runtime.cluster.supervising.processes import Processes
from runtime.cluster.supervising.rejoining import Rejoining
from runtime.cluster.supervising.supervised_run import SupervisedRun
from runtime.cluster.warnings import WARNING
from runtime.errors import ConvoyError, LaunchError

LOOK_SECONDS = 0.05  # between two looks at a process that begins


class Lives:
    """Ends one life of a process and begins the next. `supervisor` tells the peers, and `node`
    forgets the connection to the life that has ended."""

    def __init__(
        self,
        run: SupervisedRun,
        processes: Processes,
        launcher: Launcher,
        supervisor: Actor,
        node: Node,
    ) -> None:
        self._run = run
        self._processes = processes
        self._launcher = launcher
        self._supervisor = supervisor
        self._node = node
        self._rejoining = Rejoining(self._ready, self._start_on)
        # machine -> held while its processes leave, or are started again
        self._changing: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    def __repr__(self) -> str:
        return f"<lives: {self._run.revival!r}, {self._rejoining!r}>"

    async def restart(self, process: str, why: str) -> None:
        """Start a process again that has died while it ran, and let its peers know. `why` describes
        the death."""
        run = self._run
        text = f"process {process} on {run.roll.host(process)} {why}; it is started again"
        run.event(WARNING, {"text": text, "process": process})
        run.revival.take(process)
        run.condemned.pop(process, None)
        async with self._changing[run.roll.spec(process).machine]:
            if not run.revival.is_away(process):  # its machine may have left meanwhile
                with suppress(ConvoyError):  # it was reported
                    await self._start_again(process)

    def is_lost(self, process: str) -> bool:
        """Whether the machine of a process is lost, so that no process can be started there."""
        return self._launcher.is_lost(self._run.roll.spec(process).machine)

    async def stays_away(self, process: str, why: str) -> None:
        """Let the run go on without a process that has died. `why` describes the death. A lost
        machine is tried again, if its launcher can do that without a person."""
        run = self._run
        text = f"process {process} on {run.roll.host(process)} {why}; the run goes on without it"
        if self.is_lost(process) and self._launcher.reopens:
            machine = run.roll.spec(process).machine
            text += f" until machine '{machine}' is back"
            self._rejoining.lost(machine)
        run.event(WARNING, {"text": text, "process": process})
        run.revival.stays_away(process)
        run.condemned.pop(process, None)
        run.roll.ended(process)
        self._node.lost(process)
        for peer in run.roll.peers(process):
            await self._supervisor.tell(agent_of(peer), Gone(process=process))

    async def _start_again(self, process: str) -> None:
        """Start a process that has ended in its next life, and let its peers know. Raises
        ConvoyError if it cannot be started. The run then goes on without it, or ends."""
        run = self._run
        try:
            await self._next_life(process)
        except ConvoyError as error:
            if not run.may_stay_away(process):
                run.end(error)
                return
            run.supervision.note(process, "exit", run.now())
            await self.stays_away(process, f"could not be started again: {error}")
            raise

    async def _next_life(self, process: str) -> None:
        run = self._run
        run.supervision.restarts(process, run.now())
        run.roll.ended(process)
        self._node.lost(process, returns=True)
        for peer in run.roll.peers(process):
            await self._supervisor.tell(agent_of(peer), Restarting(process=process))
        await self._processes.start(run.roll.spec(process), run.supervision.life(process))

    # -- machines

    def can_change(self, leaving: Sequence[str], returning: Sequence[str]) -> bool:
        """Whether the run can go on without the processes of the `leaving` machines, and start
        those of the `returning` machines again, without a restart of the others."""
        run = self._run
        changing = [*self._of(leaving), *self._of(returning)]
        return (
            {run.roll.spec(name).machine for name in changing} == {*leaving, *returning}
            and all(map(run.revival.is_optional, changing))
            and run.may_stay_away(*filter(self._takes_part, self._of(leaving)))
        )

    def is_there(self, machine: str) -> bool:
        """Whether the machine has processes, and all of them take part in the run."""
        processes = self._of([machine])
        return bool(processes) and all(map(self._takes_part, processes))

    def has_left(self, machine: str) -> bool:
        """Whether the machine has processes, and none of them takes part in the run."""
        processes = self._of([machine])
        return bool(processes) and not any(map(self._takes_part, processes))

    def _takes_part(self, process: str) -> bool:
        return not self._run.revival.is_away(process)

    def _of(self, machines: Sequence[str]) -> list[str]:
        specs = self._run.placement.processes
        return [spec.name for spec in specs if spec.machine in machines]

    async def release(self, machines: Sequence[str]) -> None:
        """Go on without the processes of these machines, end them, and let the machines go. Raises
        LaunchError if no other process is left, since others have left at the same time."""
        await asyncio.gather(*map(self._release, machines))

    async def _release(self, machine: str) -> None:
        run = self._run
        await self._rejoining.let_go(machine)
        async with self._changing[machine]:
            ends = []
            for process in filter(self._takes_part, self._of([machine])):
                if not run.may_stay_away(process):
                    raise LaunchError(f"machine '{machine}' has the last process that is left")
                run.supervision.note(process, "exit", run.now())
                await self.stays_away(process, f"leaves with machine '{machine}'")
                self._processes.signal(process, signal.SIGTERM)
                ends.append(asyncio.create_task(self._processes.ended(process)))
            await asyncio.gather(*ends)
            await self._launcher.part(machine)

    async def bring_back(self, machines: Sequence[str]) -> None:
        """Start the processes of these machines again, for a person, and wait until they have
        begun. Raises LaunchError if that is impossible: the run then goes on without them."""
        for name in machines:
            await self._rejoining.at_once(name)
        for process in self._of(machines):
            await self._begun(process)

    async def _begun(self, process: str) -> None:
        run = self._run
        while not run.supervision.is_at(process, LifeStage.RUNNING):
            if run.revival.is_away(process) or run.outcome.done():
                text = "could not begin again; the output of `up` shows why"
                raise LaunchError(f"process {process} on {run.roll.host(process)} {text}")
            await asyncio.wait([run.outcome], timeout=LOOK_SECONDS)

    async def _ready(self, machine: str) -> None:
        """Have a machine that can start processes."""
        async with self._changing[machine]:
            for each in self._launcher.plan.machines:
                if each.name == machine:
                    await self._launcher.open(each)

    async def _start_on(self, machine: str) -> None:
        """Start the processes of a machine that are away."""
        async with self._changing[machine]:
            for process in filter(self._run.revival.is_away, self._of([machine])):
                await self._processes.ended(process)
                self._run.revival.comes_back(process)
                await self._start_again(process)

    async def close(self) -> None:
        """Try no lost machine any longer, since the run is over."""
        await self._rejoining.close()
