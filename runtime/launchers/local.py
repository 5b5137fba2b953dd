"""Starts role processes on this machine: own session, own log file, BLAS threads set, stdin as lifeline.

They are forked from a `nursery`, which has imported all they need; one for each number of threads, since BLAS takes
that number from the environment when it is imported.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from runtime.errors import LaunchError
from runtime.topology import ProcessSpec

# Every BLAS and OpenMP that numpy may be built with reads one of these at import; a program's kernels read the first.
THREAD_VARIABLES = ("CONVOY_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS", "NUMBA_NUM_THREADS")
NEWS_BYTES = 65536
LOST = 256  # no exit status: the nursery that would have told it is gone


@dataclass
class Launched:
    """A started process. `lifeline`: the write end of its standard input; when it closes the process ends itself."""

    name: str
    log: Path
    pid: int
    lifeline: int
    ended: asyncio.Future[int]

    async def wait(self) -> int:
        """Exit status; minus the signal number if a signal ended it."""
        return await asyncio.shield(self.ended)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the process and whatever it started; nothing if it is gone."""
        if not self.ended.done():
            try:
                os.killpg(self.pid, number)
            except ProcessLookupError:
                return

    def last_lines(self, count: int = 20) -> list[str]:
        """The end of its log."""
        return _last_lines(self.log, count)


@dataclass
class _Nursery:
    """The launcher's side of one nursery: orders go out one at a time, news come in whenever there are some."""

    process: subprocess.Popen[bytes]
    link: socket.socket
    log: Path
    born: asyncio.Queue[int | None] = field(default_factory=asyncio.Queue)
    children: dict[int, Launched] = field(default_factory=dict)
    unread: bytes = b""

    def read(self) -> None:
        """Take what the nursery says; its end is the end of all that is known of its children."""
        try:
            news = self.link.recv(NEWS_BYTES)
        except ConnectionError:
            news = b""
        if not news:
            asyncio.get_running_loop().remove_reader(self.link)
            self.born.put_nowait(None)
            for child in self.children.values():
                _end(child, LOST)
        *lines, self.unread = (self.unread + news).split(b"\n")
        for line in lines:
            said = json.loads(line)
            if "status" not in said:
                self.born.put_nowait(said["pid"])
            elif said["pid"] in self.children:
                _end(self.children[said["pid"]], said["status"])


class LocalLauncher:
    """Launches processes of one run on this machine."""

    def __init__(self, run_directory: Path) -> None:
        self.run_directory = run_directory
        self.logs = run_directory / "logs"
        self.logs.mkdir(exist_ok=True)
        self._nurseries: dict[int, _Nursery] = {}

    async def launch(self, spec: ProcessSpec) -> Launched:
        """Start one role process. LaunchError if the system refuses."""
        path = self.logs / f"{spec.name}.log"
        try:
            nursery = self._nurseries.get(spec.threads) or self._open(spec.threads)
            lifeline, writable = os.pipe()
            with path.open("ab") as log:
                order = json.dumps({"process": spec.name}).encode()
                socket.send_fds(nursery.link, [order], [lifeline, log.fileno()])
            os.close(lifeline)
        except OSError as error:
            raise LaunchError(f"process '{spec.name}' could not be started: {error}") from None
        pid = await nursery.born.get()
        if pid is None:
            said = "".join(f"\n    {line}" for line in _last_lines(nursery.log, 20))
            raise LaunchError(f"process '{spec.name}' could not be started: its nursery ended{said}")
        launched = Launched(spec.name, path, pid, writable, asyncio.get_running_loop().create_future())
        nursery.children[pid] = launched
        return launched

    async def close(self) -> None:
        """Let the nurseries go. Every child must have ended."""
        for nursery in self._nurseries.values():
            asyncio.get_running_loop().remove_reader(nursery.link)
            nursery.link.close()
            await asyncio.to_thread(nursery.process.wait)
            for child in nursery.children.values():
                os.close(child.lifeline)

    def _open(self, threads: int) -> _Nursery:
        environment = dict(os.environ)
        environment.update(dict.fromkeys(THREAD_VARIABLES, str(threads)))
        environment["PYTHONPATH"] = os.pathsep.join(entry for entry in sys.path if entry)
        command = [sys.executable, "-m", "runtime.launchers.nursery", "--run", str(self.run_directory)]
        path = self.run_directory / f"nursery-{threads}.log"
        ours, theirs = socket.socketpair()
        with theirs, path.open("ab") as log:
            # not asyncio's: uvloop's copies of these descriptors stay open in the child, which then hides its end
            process = subprocess.Popen(
                command, stdin=theirs.fileno(), stdout=log, stderr=log, env=environment, start_new_session=True
            )
        self._nurseries[threads] = nursery = _Nursery(process, ours, path)
        asyncio.get_running_loop().add_reader(ours, nursery.read)
        return nursery


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


def _end(child: Launched, status: int) -> None:
    if not child.ended.done():
        child.ended.set_result(status)


def _last_lines(log: Path, count: int) -> list[str]:
    try:
        return log.read_text(errors="replace").splitlines()[-count:]
    except OSError:
        return []
