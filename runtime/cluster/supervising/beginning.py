"""The beginning of each life of a process: its greeting, the addresses of its peers, and the start
of its actors. Once all processes have greeted, each gets the addresses of its peers. Once all are
ready, all begin.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress

from runtime.actors.actor import Actor
from runtime.actors.node import Node
from runtime.cluster.lifecycle import Begin, Failure, Hello, LifeStage, Ready, agent_of
from runtime.cluster.membership import hears_at
from runtime.cluster.supervising.sameness import Sameness
from runtime.cluster.supervising.supervised_run import SupervisedRun
from runtime.cluster.warnings import WARNING
from runtime.errors import ConvoyError, LaunchError
from runtime.messages.message import Envelope
from runtime.transport import Transport, host_identity


class Beginning:
    """Leads the processes of one run from their greeting to their begin. `supervisor` sends the
    messages, and `node` reaches the processes by `road`."""

    def __init__(self, run: SupervisedRun, supervisor: Actor, node: Node, road: Transport) -> None:
        self._run = run
        self._supervisor = supervisor
        self._node = node
        self._road = road
        self.sameness = Sameness()
        self._directed = False  # whether all processes have the addresses of their peers
        self._tasks: set[asyncio.Task[None]] = set()  # later lives, while peers link them

    def __repr__(self) -> str:
        return f"<beginning: {len(self._tasks)} later lives, {self.sameness!r}>"

    def admit(self, envelope: Envelope) -> None:
        """Link a process that greets, and its actors, in each of its lives. Also let a process that
        fails before its greeting report the failure."""
        message = envelope.message
        if not isinstance(message, Hello | Failure):
            return
        roll = self._run.roll
        spec = roll.specs.get(message.process)
        if spec is None or roll.life(spec.name) >= envelope.incarnation:
            return
        if isinstance(message, Hello) and message.incarnation == envelope.incarnation:
            actors = [agent_of(spec.name), *spec.actors]
            at = hears_at(message, arrays=self._node.arena is not None)
            try:
                self._node.connect(spec.name, message.incarnation, at, actors, self._road)
            except LaunchError as error:  # no file descriptor is left for the connection
                self._run.end(error)
        elif isinstance(message, Failure):
            self._node.know(envelope.sender, spec.name, envelope.incarnation, self._road)

    async def greeted(self, message: Hello) -> None:
        """Note that a process has started. Once all have, send to each the addresses of its peers.
        A process that was started again gets them at once."""
        run = self._run
        if run.is_halting(message.process):
            return
        run.supervision.note(message.process, "hello", run.now(), message.incarnation)
        run.roll.greetings[message.process] = message
        self.sameness.runs(
            run.roll.spec(message.process).machine, message.host_name, message.versions
        )
        if message.host != host_identity.identity():
            run.supervision.is_far(message.process)
        facts = {"process": message.process, "pid": message.pid, "host": message.host_name}
        metrics = {"metrics_port": message.metrics_port, "versions": dict(message.versions)}
        run.event("process", {**facts, **metrics})
        if self._directed:
            await self._direct(message.process)
        elif run.supervision.all_reached(LifeStage.GREETED) and self._same(
            self.sameness.wrong_program()
        ):
            self._directed = True
            for text in self.sameness.warnings():
                run.event(WARNING, {"text": text})
            for spec in run.placement.processes:
                await self._direct(spec.name)

    def _same(self, difference: str) -> bool:
        """Return whether all machines run or read the same. A `difference` ends the run."""
        if difference:
            self._run.end(LaunchError(difference))
        return not difference

    async def _direct(self, process: str) -> None:
        for directory in self._run.roll.directory(process):
            await self._supervisor.tell(agent_of(process), directory)

    async def ready(self, message: Ready, incarnation: int) -> None:
        """Note that a process is prepared. Once all are, let all begin. A process that was started
        again begins while the others run."""
        run = self._run
        if run.is_halting(message.process):
            return
        run.supervision.note(message.process, "ready", run.now(), incarnation)
        self.sameness.reads(run.roll.spec(message.process).machine, message.reads)
        if run.began.is_set():
            if run.growing is None or message.process not in run.growing.growth.starting:
                beginning = self._begin_again(message.process)
                task = asyncio.create_task(beginning, name=f"{message.process} begins")
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
            else:
                run.growing.moved()
            return
        if run.supervision.some_at(LifeStage.STARTING, LifeStage.GREETED):
            return
        if not self._same(self.sameness.wrong_data()):
            return
        await self.begin(run.supervision.at(LifeStage.READY))
        run.event("began", {"processes": len(run.placement.processes)})
        run.began.set()

    async def _begin_again(self, process: str) -> None:
        """Let a process begin its next life once its peers have linked it, since they refuse what
        it sends before."""
        run = self._run
        life = run.supervision.life(process)
        if not self._same(self.sameness.wrong_data()):
            return
        await asyncio.gather(*(self._linked(peer, process) for peer in run.roll.peers(process)))
        same = life == run.supervision.life(process)
        if same and run.supervision.is_at(process, LifeStage.READY):
            await self.begin([process])

    async def _linked(self, peer: str, process: str) -> None:
        """Wait until a peer has linked the next life of a process. A peer that does not answer is
        judged by its heartbeats."""
        patience = self._run.liveness.silence_seconds + self._run.liveness.link_seconds
        with suppress(ConvoyError):
            for directory in self._run.roll.directory(peer, process):
                await self._supervisor.ask(agent_of(peer), directory, bool, timeout=patience)

    async def begin(self, ready: Sequence[str]) -> None:
        """Let processes that are ready begin."""
        for process in ready:
            self._run.supervision.note(process, "begin", self._run.now())
        for process in ready:
            await self._supervisor.tell(agent_of(process), Begin())
        if self._run.growing is not None:
            self._run.growing.moved()

    async def close(self) -> None:
        """Give up the later lives that have not begun, since the run is over."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
