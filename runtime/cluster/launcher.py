"""The interface between the supervisor and a launcher, which starts processes. Each kind of
launcher has a file in `launchers/`.

launcher_of(kind)(plan)        once per run
    await open(machine)        once per machine that hosts processes
    await launch(spec, life)   once per life of a process
    await part(machine)        when a machine leaves and the run goes on; `open` may follow
    await close()              when all have ended
"""

from __future__ import annotations

import signal
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from runtime.plan.topology import ProcessSpec
from runtime.transport.keys import Keys

if TYPE_CHECKING:
    from runtime.config.sections import Launcher as Wishes

    # importing it loads pydantic, and `up` starts its nursery before that
    from runtime.config.sections import Machine

FOR_MEMORY = "killed by the kernel for memory (out of memory)"
OFTEN = "killed by SIGKILL: often the kernel, for memory"
LOST = 256  # instead of an exit status: the process that would have reported it has died


class Early(ABC):
    """A process that was started before cluster.toml was read, so that imports run at the same
    time. Role processes can be forked from it."""

    @abstractmethod
    def prepare(self, program: str, search: Path | None = None) -> None:
        """Let it import the program. The program is found where this process would find it, or in
        `search`. Only the first call has an effect."""

    @abstractmethod
    def barren(self) -> str:
        """Return why no process of another run can be forked from it, or "" if that is possible."""


@dataclass(frozen=True)
class LaunchPlan:
    """The data of a run for its launcher: the run directory, the program, the machines that host
    its processes, and the process that was started early, if there is one.

    The directory contains plan.json before the first launch. The early process outlives the run.
    `wishes` is the section [launcher] of cluster.toml. `keys` are the keys of the processes, which
    are files in this host's private folder. A launcher that starts a process on another host writes
    them to `RunPlan.key_file` there, as bytes (`Keys.blob`), over a link that no other user can
    read.
    """

    directory: Path
    program: str
    machines: tuple[Machine, ...]
    early: Early | None = None
    keys: Mapping[str, Keys] = field(default_factory=dict)
    wishes: Wishes | None = None


class Launched(ABC):
    """A started process: its name, and its log as far as this host can read it."""

    name: str
    log: Path

    @abstractmethod
    async def wait(self) -> int:
        """Wait until the process has ended. Returns its exit status, minus the signal number if a
        signal ended it, or LOST."""

    @abstractmethod
    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the process and to its children. Does nothing if the process has
        ended."""

    def last_lines(self, count: int = 20) -> list[str]:
        """Return the last lines of its log."""
        try:
            return self.log.read_text("utf-8", "replace").splitlines()[-count:]
        except OSError:
            return []

    def describe(self, status: int, out_of_memory: bool | None) -> str:
        """Describe how the process ended. `status` is the result of `wait`, and `out_of_memory` is
        explained at `describe_exit`."""
        return describe_exit(status, out_of_memory)


class Launcher(ABC):
    """Starts the processes of one run.

    `patience` is the number of seconds that `open` may take, if that is more than [liveness]
    allows. `grace` is the time in seconds within which it reports the end of a process, which
    explains the links that broke with it. `on_leaving` is called with a machine that is told to go,
    and the number of seconds that it stays at most. `reopens`: it can open a machine that was lost
    again without a person. `silent` are the machines without a sign of
    life for longer than a link may be silent.
    """

    patience = 0.0
    reopens = False
    grace = 1.0

    def __init__(self, plan: LaunchPlan) -> None:
        self.plan = plan
        self.silent: frozenset[str] = frozenset()
        self.on_leaving: Callable[[str, float], None] = lambda machine, seconds: None

    @abstractmethod
    async def open(self, machine: Machine) -> None:
        """Make a machine ready to start processes, for the first time or again. Raises LaunchError
        if it cannot be reached or used."""

    @abstractmethod
    async def launch(self, spec: ProcessSpec, incarnation: int) -> Launched:
        """Start one life of a process on `spec.machine`. Raises LaunchError if it cannot be
        started."""

    def waiting(self) -> str:
        """Describe why `open` or `launch` takes so long, as far as this host knows."""
        return "its launcher does not answer"

    def is_lost(self, machine: str) -> bool:
        """Whether a machine that was opened can start no process any more. `open` makes it ready
        again. Machines without agents are never lost."""
        return False

    async def part(self, machine: str) -> None:
        """Let a machine go whose processes have ended. `open` makes it ready again. Launchers
        without agents have nothing to do."""
        return

    @abstractmethod
    async def close(self) -> None:
        """Release all resources. All processes have ended by then. Also called if nothing was
        opened or launched."""


def describe_exit(status: int, out_of_memory: bool | None = False) -> str:
    """Describe an exit status: `-9` gives "killed by SIGKILL", `1` gives "exited with status 1".
    `out_of_memory` is True if the kernel has killed a process for memory meanwhile, and None if
    that is not known."""
    if status == LOST:
        how = FOR_MEMORY if out_of_memory else "killed"
        return f"is lost: the process it was forked from was {how}"
    if status == -signal.SIGKILL and out_of_memory is not False:
        return FOR_MEMORY if out_of_memory else OFTEN
    if status < 0:
        try:
            return f"killed by {signal.Signals(-status).name}"
        except ValueError:
            return f"killed by signal {-status}"
    return f"exited with status {status}"
