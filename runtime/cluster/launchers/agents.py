"""The common part of all launchers to other machines. One agent per machine dials back, gets
orders, and ends with its link. A launcher of a special kind only defines how an agent is started,
see `AgentLauncher.start`.

A machine with a loopback address, a network namespace or the host "localhost" is this machine. Its
processes are forked here, as `local` does it.
"""

from __future__ import annotations

import asyncio
import io
import logging
import shlex
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from runtime.cluster.launcher import Launched, Launcher, LaunchPlan
from runtime.cluster.launchers.allowed import OF_UP, allowed
from runtime.cluster.launchers.local import LocalLauncher
from runtime.cluster.launchers.remote import RemoteMachine, Stage
from runtime.cluster.machines.agent_link import Reception, limits_of
from runtime.cluster.machines.agent_messages import Close, Orders, Piece, Private
from runtime.cluster.machines.copies import Copies
from runtime.cluster.machines.file_sync import pieces
from runtime.cluster.machines.machine_facts import mismatch
from runtime.defaults import LIVENESS
from runtime.errors import Absent, MessageError
from runtime.machine.addresses import is_loopback
from runtime.messages.message import Message
from runtime.plan.run_plan import FILE, RunPlan
from runtime.plan.topology import ProcessSpec
from runtime.reasons import reason

if TYPE_CHECKING:
    from runtime.config.sections import Machine  # importing it loads pydantic

CLOSE_SECONDS = 5.0  # the longest silence while an agent sends its last files
LET_GO_SECONDS = 2.0  # for an agent's starter to end after the agent has ended
END_SECONDS = 0.3  # for an agent's own report to arrive before its starter's report is used


class Handle(ABC):
    """The starter of an agent, such as an ssh process or a job step."""

    @abstractmethod
    async def wait(self) -> str:
        """Wait until the starter has ended. Returns how it ended, in words."""

    @abstractmethod
    def kill(self) -> None:
        """End the starter, and the agent if it is still starting. Does nothing if the starter has
        ended."""

    def waiting(self) -> str:
        """Describe why no message of the agent has come, as far as it is known."""
        return "no message of its agent has arrived"


class AgentLauncher(Launcher):
    """Opens machines by agents. `attached` is True if the starter that `start` returns keeps the
    agent's standard input open."""

    attached = True
    start_seconds = 30.0  # for an agent to be ready, if [launcher] does not set it
    link_seconds = LIVENESS.link_seconds  # the longest silence of a link in this run
    # the private folder of the run on this host, once a machine is opened
    private = Path()

    def __init__(self, plan: LaunchPlan) -> None:
        super().__init__(plan)
        self._here = LocalLauncher(plan)
        self._wishes = plan.wishes
        self._elsewhere = [machine for machine in plan.machines if elsewhere(machine)]
        self._opening: dict[str, asyncio.Task[None]] = {}
        self._opened = False  # all machines were ready at the same time
        self._watching: list[asyncio.Task[None]] = []
        self._machines: dict[str, RemoteMachine] = {}
        self._handles: dict[str, Handle] = {}
        self._copies: list[Copies] = []
        # machine -> the files that it may leave in the run directory
        self._allowed: dict[str, tuple[str, ...]] = {}
        self._missed: set[tuple[str, str]] = set()  # (machine, path) already reported as missing
        self._reception: Reception | None = None
        self._address = ""  # the address that agents dial
        self._refused = ""
        if self._wishes is not None and self._wishes.start_seconds is not None:
            self.start_seconds = self._wishes.start_seconds
        self.patience = self.start_seconds + 1.0  # so that the error here names the late machine

    @abstractmethod
    async def start(self, machine: Machine, argv: Sequence[str], line: str) -> Handle:
        """Run `argv` on the machine, in its directory and with its environment (`shell_line`
        combines them), with `line` as the first line of its standard input. The line is secret: it
        must not appear in arguments, environments or logs. Raises LaunchError."""

    async def open(self, machine: Machine) -> None:
        """The first call opens all machines at the same time. A machine whose agent has gone is
        opened again."""
        if not elsewhere(machine):
            await self._here.open(machine)
            return
        if self._reception is None:
            run = RunPlan.read(self.plan.directory)
            self.link_seconds = run.limits.link_seconds
            self._allowed = allowed(run.placement)
            self.private = Path(run.socket_directory)
            limits = limits_of(self.link_seconds)
            self._reception = Reception(limits, self._heard, self._lost, self._refuse)
            self._address = self._reception.listen(
                _here(run), self._wishes.port or 0 if self._wishes else 0
            )
            (self.plan.directory / "logs").mkdir(mode=0o700, exist_ok=True)
            for each in self._elsewhere:
                opening = self._in_time(each, run, self._reception)
                self._opening[each.name] = asyncio.create_task(
                    opening, name=f"opening of {each.name}"
                )
        if self.is_lost(machine.name):
            await self._open_again(machine, self._reception)
            return
        if not self._opened:  # a machine that fails ends the start, whichever it is
            done, _ = await asyncio.wait(
                self._opening.values(), return_when=asyncio.FIRST_EXCEPTION
            )
            for task in done:
                task.result()
            self._opened = True
            self.patience = 0.0  # from here on no person is involved

    def is_lost(self, machine: str) -> bool:
        known, opening = self._machines.get(machine), self._opening.get(machine)
        failed = (
            opening is not None
            and opening.done()
            and (opening.cancelled() or opening.exception() is not None)
        )
        return failed or (known is not None and known.stage is Stage.GONE)

    async def _open_again(self, machine: Machine, reception: Reception) -> None:
        await self.part(machine.name)  # of its agent before, something may be left
        run = RunPlan.read(self.plan.directory)
        opening = asyncio.create_task(
            self._in_time(machine, run, reception), name=f"opening of {machine.name}"
        )
        self._opening[machine.name] = opening
        try:
            await asyncio.wait([opening])
        finally:
            if opening.cancel():  # the caller is cancelled: the machine is not wanted any more
                await asyncio.gather(opening, return_exceptions=True)
                await self.part(machine.name)
            self.silent = reception.silent
        opening.result()

    async def launch(self, spec: ProcessSpec, incarnation: int) -> Launched:
        machine = self._machines.get(spec.machine)
        if machine is not None:
            return await machine.launch(spec.name, incarnation)
        return await self._here.launch(spec, incarnation)

    def waiting(self) -> str:
        late = next((machine.name for machine in self._machines.values() if machine.bearing), None)
        if late is not None:
            return f"machine '{late}' has not confirmed it: it may still import the program there"
        return self._here.waiting()

    async def part(self, machine: str) -> None:
        if machine in self._machines:
            await self._part(self._machines[machine])

    async def close(self) -> None:
        for task in self._opening.values():
            task.cancel()
        await asyncio.gather(*self._opening.values(), return_exceptions=True)
        await asyncio.gather(*(self._part(machine) for machine in self._machines.values()))
        for task in self._watching:
            task.cancel()
        await asyncio.gather(*self._watching, return_exceptions=True)
        for copies in self._copies:
            copies.close()
        if self._reception is not None:
            await self._reception.close()
        await self._here.close()

    # -- one machine

    async def _in_time(self, machine: Machine, run: RunPlan, reception: Reception) -> None:
        try:
            async with asyncio.timeout(self.start_seconds):
                await self._open(machine, run, reception)
        except TimeoutError:
            handle = self._handles.get(machine.name)
            why = handle.waiting() if handle else "it was not started"
            why = f"{why}; {self._refused}" if self._refused else why
            text = f" was not ready within {self.start_seconds:g} s: {why} (launcher.start_seconds)"
            raise Absent(machine.name, text) from None

    async def _open(self, machine: Machine, run: RunPlan, reception: Reception) -> None:
        name = machine.name
        tell = partial(reception.tell, name)
        copies = Copies(self.plan.directory, self._allowed.get(name, ()), OF_UP)
        self._copies.append(copies)
        keep = partial(self._keep, name, copies)
        leaves = partial(self.on_leaving, name)
        remote = RemoteMachine(name, self.plan.directory / "logs", tell, keep, leaves)
        self._machines[name] = remote
        invitation = remote.invitation = reception.invite(name, attached=self.attached)
        argv = [machine.python or "python3", "-m", "runtime", "join", self._address, name]
        handle = self._handles[name] = await self.start(machine, argv, invitation.line)
        self._watching.append(
            asyncio.create_task(self._watch(remote, handle), name=f"end of {name}")
        )
        problem = await asyncio.to_thread(mismatch, await remote.joined)  # it reads all sources
        if problem:
            raise Absent(name, f": {problem}")
        text = (self.plan.directory / FILE).read_bytes()
        for piece in pieces(FILE, io.BytesIO(text), len(text)):
            tell(piece)
        mine = [spec.name for spec in run.placement.processes if spec.machine == name]
        for one in mine:
            keys = np.frombuffer(self.plan.keys[one].blob(), np.uint8)
            tell(Private(name=run.key_file(one).name, data=keys))
        tell(Orders(program=self.plan.program))
        await remote.ready

    async def _watch(self, remote: RemoteMachine, handle: Handle) -> None:
        """Treat an agent as lost when its starter has ended."""
        how = await handle.wait()
        await asyncio.wait([remote.gone], timeout=END_SECONDS)
        self._forget(remote, how)

    def _forget(self, remote: RemoteMachine, why: str) -> None:
        """Take nothing more from an agent, whose machine may have another one by now."""
        if self._reception is not None and remote.invitation is not None:
            self._reception.forget(remote.name, remote.invitation)
        remote.lost(why)

    async def _part(self, remote: RemoteMachine) -> None:
        """Let an agent end. Afterwards it is gone, even if it did not answer."""
        reception = self._reception
        handle = self._handles.get(remote.name)
        if reception is not None and remote.stage in (Stage.JOINED, Stage.READY):
            reception.tell(remote.name, Close())
            heard = -1
            while not remote.gone.done() and heard != remote.heard:
                heard = remote.heard
                await asyncio.wait([remote.gone], timeout=CLOSE_SECONDS)
        if handle is not None:
            ended = asyncio.ensure_future(handle.wait())
            # the starter can only be seen to end if the agent has ended and its host answers
            if remote.stage is Stage.GONE and remote.name not in self.silent:
                await asyncio.wait([ended], timeout=LET_GO_SECONDS)
            handle.kill()
            ended.cancel()
            await asyncio.gather(ended, return_exceptions=True)
        self._forget(remote, "its agent was let go")

    # -- the link

    def _heard(self, machine: str, message: Message) -> None:
        self._machines[machine].take(message)

    def _lost(self, machine: str, why: str) -> None:
        if self._reception is not None:
            self.silent = self._reception.silent
        self._machines[machine].lost(why)

    def _refuse(self, who: str, why: str) -> None:
        self._refused = f"{who} was refused: {why}"

    def _keep(self, machine: str, copies: Copies, piece: Piece) -> None:
        try:
            copies.take(piece)
        except (MessageError, OSError) as error:
            if (machine, piece.path) in self._missed:
                return
            self._missed.add((machine, piece.path))
            why = reason(error) if isinstance(error, OSError) else error
            logging.getLogger("convoy").warning(
                ("machine '%s': %s is not copied in whole: %s"), machine, piece.path, why
            )


def _here(run: RunPlan) -> str:
    """Return the address at which other hosts reach the supervisor on this host."""
    return run.supervisor.reached_at("control", near=False).partition("://")[2].rpartition(":")[0]


def elsewhere(machine: Machine) -> bool:
    """Whether the machine is another host than this one."""
    return (
        machine.namespace is None
        and not is_loopback(machine.address)
        and machine.host != "localhost"
    )


def shell_line(machine: Machine, argv: Sequence[str]) -> str:
    """Return the line for a shell on the machine: its directory, its environment, the command."""
    there = "" if machine.directory is None else f"cd {shlex.quote(machine.directory)} && "
    settings = [f"{name}={value}" for name, value in machine.environment.items()]
    return f"{there}exec {shlex.join(['env', *settings, *argv] if settings else argv)}"
