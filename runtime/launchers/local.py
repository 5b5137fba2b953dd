"""Starts role processes on this machine: own session, own log file, BLAS threads set, stdin as lifeline."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from dataclasses import dataclass
from pathlib import Path

from runtime.errors import LaunchError
from runtime.topology import ProcessSpec

# Every BLAS and OpenMP that numpy may be built with reads one of these at import; a program's kernels read the first.
THREAD_VARIABLES = ("CONVOY_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS", "NUMBA_NUM_THREADS")


@dataclass
class Launched:
    """A started process."""

    name: str
    log: Path
    process: asyncio.subprocess.Process

    async def wait(self) -> int:
        """Exit status; minus the signal number if a signal ended it."""
        return await self.process.wait()

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the process and whatever it started; nothing if it is gone."""
        if self.process.returncode is None:
            try:
                os.killpg(self.process.pid, number)
            except ProcessLookupError:
                return

    def last_lines(self, count: int = 20) -> list[str]:
        """The end of its log."""
        try:
            return self.log.read_text(errors="replace").splitlines()[-count:]
        except OSError:
            return []


class LocalLauncher:
    """Launches processes of one run on this machine."""

    def __init__(self, run_directory: Path) -> None:
        self.run_directory = run_directory
        self.logs = run_directory / "logs"
        self.logs.mkdir(exist_ok=True)

    async def launch(self, spec: ProcessSpec) -> Launched:
        """Start one role process. LaunchError if the system refuses."""
        path = self.logs / f"{spec.name}.log"
        environment = dict(os.environ)
        environment.update(dict.fromkeys(THREAD_VARIABLES, str(spec.threads)))
        environment["PYTHONPATH"] = os.pathsep.join(entry for entry in sys.path if entry)
        command = [
            sys.executable,
            "-m",
            "runtime.process",
            "--run",
            str(self.run_directory),
            "--process",
            spec.name,
        ]
        try:
            with path.open("ab") as log:
                process = await asyncio.create_subprocess_exec(
                    *command,
                    stdin=asyncio.subprocess.PIPE,
                    stdout=log,
                    stderr=log,
                    env=environment,
                    start_new_session=True,
                )
        except OSError as error:
            raise LaunchError(f"process '{spec.name}' could not be started: {error}") from None
        return Launched(spec.name, path, process)


def describe_exit(status: int) -> str:
    """`-9` -> "killed by SIGKILL", `1` -> "exited with status 1"."""
    if status < 0:
        try:
            return f"killed by {signal.Signals(-status).name}"
        except ValueError:
            return f"killed by signal {-status}"
    return f"exited with status {status}"
