"""What the supervisor asks of whatever starts processes. Each kind of place has its own file in `launchers/`."""

from __future__ import annotations

import signal
from abc import ABC, abstractmethod
from pathlib import Path

from runtime.plan.topology import ProcessSpec

LOST = 256  # instead of an exit status: whatever would have told it is gone


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

    @abstractmethod
    def last_lines(self, count: int = 20) -> list[str]:
        """The end of its log."""


class Launcher(ABC):
    """Starts the processes of one run."""

    @abstractmethod
    async def launch(self, spec: ProcessSpec) -> Launched:
        """Start a process. LaunchError if it cannot be started."""

    @abstractmethod
    async def close(self) -> None:
        """All processes have ended: let go of what started them."""


def describe_exit(status: int) -> str:
    """`-9` -> "killed by SIGKILL", `1` -> "exited with status 1"."""
    if status == LOST:
        return "is lost: the process it was forked from was killed"
    if status < 0:
        try:
            return f"killed by {signal.Signals(-status).name}"
        except ValueError:
            return f"killed by signal {-status}"
    return f"exited with status {status}"
