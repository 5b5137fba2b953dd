"""A training run started by `up` as a user starts it; tests kill its processes and look for
leftovers.
"""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

from tests.helpers.support import environment, events, run_directory, runtime_command

NAMED_WITHIN = 3.0  # the limits that the documentation promises, in seconds
GONE_WITHIN = 5.0


class Running:
    """A training run, started and read until a line of its output for which `until` returns
    true.
    """

    def __init__(
        self, cluster: Path, until: Callable[[str], bool], env: dict[str, str] | None = None
    ) -> None:
        self.cluster = cluster
        # under nohup the tests ignore SIGHUP, and a child inherits that
        inherited = signal.signal(signal.SIGHUP, signal.SIG_DFL)
        try:
            self.process = subprocess.Popen(
                runtime_command("up", self.cluster.name),
                cwd=cluster.parent,
                env=env or environment(),
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        finally:
            signal.signal(signal.SIGHUP, inherited)
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if until(line):
                break
        self.pids = {
            entry["process"]: entry["pid"]
            for entry in events(run_directory(self.cluster), "process")
        }

    def named(self) -> str:
        """Wait for the first line on stderr and return it."""
        assert self.process.stderr is not None
        return self.process.stderr.readline()

    def finish(self, timeout: float) -> tuple[int, str]:
        """Wait for the end of `up`; return its exit code and its stderr."""
        _, said = self.process.communicate(timeout=timeout)
        return self.process.returncode, said

    def left(self) -> list[str]:
        """The role processes of this run that are still alive."""
        return [name for name, pid in self.pids.items() if _alive(pid)]

    def sockets(self) -> list[Path]:
        """The socket directories of this run."""
        return list(Path(tempfile.gettempdir()).glob(f"convoy-sockets-{self.process.pid}-*"))

    def end(self) -> None:
        """Kill the processes of the run that are still alive."""
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
