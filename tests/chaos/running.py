"""A run as a user starts it, in the middle of what it does: what dies there, and what is left."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

from tests.helpers.support import environment, events, run_directory, runtime_command

NAMED_WITHIN = 3.0  # seconds: the promises
GONE_WITHIN = 5.0


class Running:
    """A training run, as far as a line of what it says that `until` likes."""

    def __init__(
        self, cluster: Path, until: Callable[[str], bool], env: dict[str, str] | None = None
    ) -> None:
        self.cluster = cluster
        self.process = subprocess.Popen(
            runtime_command("up", self.cluster.name),
            cwd=cluster.parent,
            env=env or environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if until(line):
                break
        self.pids = {
            entry["process"]: entry["pid"]
            for entry in events(run_directory(self.cluster), "process")
        }

    def named(self) -> str:
        """The first line on stderr, as soon as it is there."""
        assert self.process.stderr is not None
        return self.process.stderr.readline()

    def finish(self, timeout: float) -> tuple[int, str]:
        """Wait for the end of `up`; its exit code and what it said on stderr."""
        _, said = self.process.communicate(timeout=timeout)
        return self.process.returncode, said

    def left(self) -> list[str]:
        """Role processes of this run that still live."""
        return [name for name, pid in self.pids.items() if _alive(pid)]

    def sockets(self) -> list[Path]:
        """Socket directories of this run."""
        return list(Path(tempfile.gettempdir()).glob(f"convoy-sockets-{self.process.pid}-*"))

    def end(self) -> None:
        """Leave nothing of it."""
        for pid in self.pids.values():
            if _alive(pid):
                os.kill(pid, signal.SIGKILL)
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()


def _alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"
