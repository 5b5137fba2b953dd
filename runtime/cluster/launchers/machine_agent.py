"""The agent of a machine, `python -m runtime join`: it dials `up`, gets orders, and starts
processes as `local` does.

    JOINING -> READY -> CLOSING          STEPS is the whole table of messages that `up` may send

The agent ends with its lifelines: the link to `up`, and its standard input if the process that
started it keeps that open. Then all processes of the run on this machine are killed, and the
temporary folder is removed.
"""

from __future__ import annotations

import asyncio
import dataclasses
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable
from enum import Enum
from functools import singledispatchmethod
from pathlib import Path

from runtime.cluster.launcher import Launched, LaunchPlan
from runtime.cluster.launchers.local import LocalLauncher, Nursery
from runtime.cluster.machines.agent_link import AgentLink
from runtime.cluster.machines.agent_messages import (
    Beat,
    Close,
    Closed,
    Exited,
    Got,
    Launch,
    Leaving,
    Orders,
    Piece,
    Prepared,
    Private,
    Problem,
    Signal,
    Started,
)
from runtime.cluster.machines.copies import Copies
from runtime.cluster.machines.file_sync import FileSync
from runtime.cluster.machines.invitation import Invitation
from runtime.cluster.machines.machine_facts import facts_here
from runtime.errors import ConvoyError, LaunchError, RoleDied
from runtime.heard_signals import heard
from runtime.machine.addresses import NOT_IPV6, is_ipv6
from runtime.machine.loop import event_loop_factory
from runtime.machine.memory import MachineMemory
from runtime.machine.parent import go_on_without_parent
from runtime.machine.private import PrivateFolder
from runtime.machine.private_files import write_new
from runtime.memory.mapping import available
from runtime.messages.message import Message
from runtime.plan.run_plan import FILE, RunPlan
from runtime.plan.topology import ProcessSpec
from runtime.reasons import reason

DIAL_SECONDS = 10.0
LOOK_SECONDS = 0.1  # between two looks at the files of the run
# after SIGTERM, for the run to continue elsewhere: clouds and schedulers allow 30 s before SIGKILL
GRACE_SECONDS = 25.0
GONE_SECONDS = 2.0  # for killed processes to end
WINDOW = 8  # pieces sent and not yet confirmed


class Step(Enum):
    """The state of the agent."""

    JOINING = "joining"
    READY = "ready"
    CLOSING = "closing"


STEPS: dict[tuple[Step, type[Message]], Step] = {
    (Step.JOINING, Piece): Step.JOINING,
    (Step.JOINING, Private): Step.JOINING,
    (Step.JOINING, Orders): Step.READY,
    (Step.JOINING, Close): Step.CLOSING,
    (Step.READY, Launch): Step.READY,
    (Step.READY, Signal): Step.READY,
    (Step.READY, Got): Step.READY,
    (Step.READY, Close): Step.CLOSING,
    (Step.CLOSING, Signal): Step.CLOSING,
    (Step.CLOSING, Got): Step.CLOSING,
    **{(step, Beat): step for step in Step},
}


def reached(address: str) -> str:
    """Return this machine's own address on the route to HOST:PORT, where `up` listens. Raises
    LaunchError with the reason if `up` does not answer."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 1 << 16:
        raise LaunchError(f"{address}: expected the HOST:PORT that `up` shows")
    if is_ipv6(host):
        raise LaunchError(f"{address}: {NOT_IPV6}: expected the HOST:PORT that `up` shows")
    try:
        with socket.create_connection((host, int(port)), DIAL_SECONDS) as dialled:
            return str(dialled.getsockname()[0])
    except TimeoutError:
        text = (
            f"no answer within {DIAL_SECONDS:g} s: check the route and the firewalls between them"
        )
    except ConnectionRefusedError:
        text = "refused: no process listens there (any more), or a firewall refuses it"
    except OSError as error:
        text = reason(error)
    raise LaunchError(f"`up` cannot be reached at {address} from {socket.gethostname()}: {text}")


class MachineAgent:
    """One agent. `over` is done when the agent must end: its result is None, or the error that
    ended it."""

    def __init__(self, machine: str, nursery: Nursery) -> None:
        self._machine = machine
        self._nursery = nursery
        self._specs: dict[str, ProcessSpec] = {}
        self._step = Step.JOINING
        self._private: PrivateFolder | None = None
        self._launcher: LocalLauncher | None = None
        self._plan: Copies | None = None
        self._mirror: FileSync | None = None
        self._orders: asyncio.Queue[Message] = asyncio.Queue()
        self._children: dict[str, Launched] = {}
        self._lives: set[asyncio.Task[None]] = set()
        self._window = asyncio.Semaphore(WINDOW)
        self._looking = asyncio.Lock()
        self._memory = MachineMemory()
        self._leaving = False
        self.over: asyncio.Future[ConvoyError | None] = asyncio.get_running_loop().create_future()
        self.tell: Callable[[Message], None] = lambda message: None

    @property
    def _folder(self) -> Path:
        return Path() if self._private is None else self._private.path

    # -- messages from `up`

    def take(self, message: Message) -> None:
        """Take a message of `up`. A message that is not legal now ends the agent."""
        following = STEPS.get((self._step, type(message)))
        if following is None:
            self.end(
                LaunchError(
                    f"`up` sent {type(message).__name__} while this agent was {self._step.value}"
                )
            )
            return
        if isinstance(message, Beat):
            return
        self._step = following
        if isinstance(message, Got):
            self._window.release()
        elif isinstance(message, Signal):
            if (child := self._children.get(message.process)) is not None:
                child.signal(signal.Signals(message.number))
        else:
            self._orders.put_nowait(message)

    def end(self, error: ConvoyError | None) -> None:
        """End the agent. Only the first error counts."""
        if not self.over.done():
            self.over.set_result(error)

    def stop(self, number: signal.Signals) -> None:
        """End the agent because of a signal. The first SIGTERM is reported before that, so that the
        run can continue elsewhere. The agent then ends when `up` releases it, or after
        GRACE_SECONDS."""
        if self.over.done():
            return
        if number is signal.SIGTERM and self._step is Step.READY and not self._leaving:
            self._leaving = True
            self.tell(Leaving(seconds=GRACE_SECONDS))
            asyncio.get_running_loop().call_later(GRACE_SECONDS, self.stop, number)
            return
        self.tell(Problem(error=f"its agent was ended by {number.name}"))
        self.end(RoleDied(f"ended by {number.name}"))

    async def serve(self) -> None:
        """Follow the orders of `up`, one after the other."""
        try:
            while not self.over.done():
                await self._do(await self._orders.get())
        except (ConvoyError, OSError) as error:
            where = f"{getattr(error, 'filename', None) or self._folder}"
            told = (
                error
                if isinstance(error, ConvoyError)
                else LaunchError(f"{where}: {reason(error)}")
            )
            self.tell(Problem(error=str(told)))
            self.end(told)

    @singledispatchmethod
    async def _do(self, message: Message) -> None:
        raise NotImplementedError

    @_do.register
    async def _(self, message: Piece) -> None:
        if self._plan is None:
            try:
                self._private = PrivateFolder.make()
                (self._folder / "run").mkdir(mode=0o700)
            except OSError as error:
                raise LaunchError(
                    f"{error.filename}: no folder for the run can be made: {reason(error)}"
                ) from None
            self._plan = Copies(self._folder / "run", [FILE])
        self._plan.take(message)

    @_do.register
    async def _(self, message: Private) -> None:
        if Path(message.name).name != message.name or self._plan is None:
            raise LaunchError(
                f"{message.name!r:.80} is not the name of a file, or comes before the plan"
            )
        write_new(self._folder / message.name, message.data.tobytes())

    @_do.register
    async def _(self, message: Orders) -> None:
        directory = self._folder / "run"
        plan = RunPlan.read(directory)
        self._specs = {spec.name: spec for spec in plan.placement.processes}
        here(plan, self._folder).write(directory)
        self._nursery.prepare(message.program)
        self._launcher = LocalLauncher(LaunchPlan(directory, message.program, (), self._nursery))
        self._launcher.begin()
        self._mirror = FileSync(directory, own=(FILE,))
        self._lives.add(asyncio.create_task(self._look_on(), name="mirror"))
        self.tell(Prepared())

    @_do.register
    async def _(self, message: Launch) -> None:
        assert self._launcher is not None
        said = Started(process=message.process, incarnation=message.incarnation, error="")
        try:
            launched = await self._launcher.launch(
                self._specs[message.process], message.incarnation
            )
        except LaunchError as error:
            self.tell(dataclasses.replace(said, error=str(error)))
            return
        self._children[message.process] = launched
        self.tell(said)
        self._lives.add(
            asyncio.create_task(
                self._outlive(launched, message.incarnation), name=f"exit of {launched.name}"
            )
        )

    @_do.register
    async def _(self, message: Close) -> None:
        if self._mirror is not None:
            await self._look(last=True)
        # wait until all pieces are confirmed: `up` takes none after this agent has ended
        for _ in range(WINDOW):
            await self._window.acquire()
        self.tell(Closed())
        self.end(None)

    # -- messages to `up`

    async def _outlive(self, launched: Launched, incarnation: int) -> None:
        status = await launched.wait()
        how = launched.describe(status, self._memory.killed())
        await self._look()
        self.tell(Exited(process=launched.name, incarnation=incarnation, status=status, how=how))

    async def _look_on(self) -> None:
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            await self._look()

    async def _look(self, *, last: bool = False) -> None:
        assert self._mirror is not None
        async with self._looking:
            for piece in self._mirror.look(last=last):
                await self._window.acquire()
                self.tell(piece)

    # -- its end

    async def leave(self) -> None:
        """Remove every trace of the run on this machine, and send nothing more."""
        for task in self._lives:
            task.cancel()
        await asyncio.gather(*self._lives, return_exceptions=True)
        for child in self._children.values():
            child.signal(signal.SIGKILL)
        lives = [asyncio.ensure_future(child.wait()) for child in self._children.values()]
        if lives:
            await asyncio.wait(lives, timeout=GONE_SECONDS)
        for life in lives:
            life.cancel()
        await asyncio.gather(*lives, return_exceptions=True)
        if self._launcher is not None:
            await self._launcher.close()
        if self._private is not None:
            self._private.remove()


def here(plan: RunPlan, folder: Path) -> RunPlan:
    """Return the plan adapted to this machine: its folder and its search path."""
    return dataclasses.replace(
        plan,
        socket_directory=str(folder),
        import_path=tuple(entry for entry in sys.path if entry),
        shared_memory=plan.shared_memory and available(),
    )


def join(address: str, machine: str, line: str, nursery: Nursery) -> None:
    """Run the agent of a machine to its end. `line` is the invitation. Raises the error that ended
    the agent, if it did not come to a good end."""
    invitation = Invitation.read(line)
    go_on_without_parent()
    with asyncio.Runner(loop_factory=event_loop_factory()) as runner:
        error = runner.run(_live(address, machine, invitation, nursery))
    if error is not None:
        raise error


async def _live(
    address: str, machine: str, invitation: Invitation, nursery: Nursery
) -> ConvoyError | None:
    mine = await asyncio.to_thread(reached, address)
    loop = asyncio.get_running_loop()
    agent = MachineAgent(machine, nursery)
    for number in heard(signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, agent.stop, number)
    if invitation.attached:
        threading.Thread(target=_attached, args=(loop, agent), daemon=True, name="lifeline").start()

    def lost(why: str) -> None:
        agent.end(RoleDied(f"machine '{machine}': {why}"))

    line = AgentLink(machine, address, invitation, agent.take, lost)
    agent.tell = line.tell
    line.tell(facts_here(machine, mine))
    serving = asyncio.create_task(agent.serve(), name="orders")
    try:
        return await agent.over
    finally:
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)
        await agent.leave()
        await line.close()


def _attached(loop: asyncio.AbstractEventLoop, agent: MachineAgent) -> None:
    """Wait in a thread for the end of standard input."""
    while os.read(0, 4096):
        pass
    ended = RoleDied("the process that started this agent has died: standard input has closed")
    try:
        loop.call_soon_threadsafe(agent.end, ended)
    except RuntimeError:  # the event loop has ended meanwhile
        return
