"""What the supervisor asks of whatever starts processes. Each kind of place has its own file in
`launchers/`.

launcher_of(kind)(plan)        once per run
    await open(machine)        once per machine that hosts processes
    await launch(spec, life)   once per life of a process
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

    # pydantic comes with it, and `up` starts its nursery first
    from runtime.config.sections import Machine

OFTEN = "killed by SIGKILL: often the kernel, for memory"
LOST = 256  # instead of an exit status: whatever would have told it is gone


class Early(ABC):
    """What was started before cluster.toml was read, so that imports run side by side: processes
    can be born there."""

    @abstractmethod
    def prepare(self, program: str, search: Path | None = None) -> None:
        """Let it import the program, found where this process would find it or in `search`. Only
        the first counts."""

    @abstractmethod
    def barren(self) -> str:
        """Why no process of another run can be born there; nothing if it can."""


@dataclass(frozen=True)
class LaunchPlan:
    """All that a launcher is told of a run: its directory, which holds plan.json by the time
    something is launched, its program, the machines that host its processes, and what was started
    early, if something was: that outlives the run. `wishes`: what [launcher] of cluster.toml says.
    `keys` of its processes: they are in this host's private folder; whoever starts a process
    elsewhere brings them to `RunPlan.key_file` there, as bytes (`Keys.blob`), over a link that
    nobody else can read."""

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
        """Exit status; minus the signal number if a signal ended it; LOST."""

    @abstractmethod
    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the process and whatever it started; nothing if it is gone."""

    def last_lines(self, count: int = 20) -> list[str]:
        """The end of its log."""
        try:
            return self.log.read_text(errors="replace").splitlines()[-count:]
        except OSError:
            return []

    def describe(self, status: int, out_of_memory: bool | None) -> str:
        """How it ended, in words; `status` is what `wait` gave, `out_of_memory` see
        `describe_exit`."""
        return describe_exit(status, out_of_memory)


class Launcher(ABC):
    """Starts the processes of one run. `patience`: seconds that `open` may take, if more than
    [liveness] grants. `grace`: seconds in which it tells of the end of a process, which explains
    the links that broke with it. `on_leaving` hears of a machine that is told to go, and how many
    seconds it stays at most. `silent`: machines of which nothing has been heard for longer than a
    link may be silent."""

    patience = 0.0
    grace = 1.0

    def __init__(self, plan: LaunchPlan) -> None:
        self.plan = plan
        self.silent: frozenset[str] = frozenset()
        self.on_leaving: Callable[[str, float], None] = lambda machine, seconds: None

    @abstractmethod
    async def open(self, machine: Machine) -> None:
        """Make a machine ready to start processes. LaunchError if it cannot be reached, or used."""

    @abstractmethod
    async def launch(self, spec: ProcessSpec, incarnation: int) -> Launched:
        """Start one life of a process, on `spec.machine`. LaunchError if it cannot be started."""

    def waiting(self) -> str:
        """Why `open` or `launch` takes so long, in words, as far as this host knows."""
        return "its launcher does not answer"

    @abstractmethod
    async def close(self) -> None:
        """All processes have ended: let go of what started them. Also called if nothing was opened
        or launched."""


def describe_exit(status: int, out_of_memory: bool | None = False) -> str:
    """`-9` -> "killed by SIGKILL", `1` -> "exited with status 1". `out_of_memory`: has the kernel
    killed for memory meanwhile? None: that is not known."""
    if status == LOST:
        return "is lost: the process it was forked from was killed"
    if status == -signal.SIGKILL and out_of_memory is not False:
        return "killed by the kernel for memory (out of memory)" if out_of_memory else OFTEN
    if status < 0:
        try:
            return f"killed by {signal.Signals(-status).name}"
        except ValueError:
            return f"killed by signal {-status}"
    return f"exited with status {status}"
