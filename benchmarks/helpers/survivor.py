"""A run of `up` as its user sees it, whatever happens to it: the lines that it prints, the time of
each, and its present processes."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from benchmarks.helpers.report import ROOT

PATIENCE = 60.0  # seconds until a line has come
SHOWN = 30  # lines of the output that an error shows when an expected line did not come
END_SECONDS = 8.0  # for a run that has got SIGTERM twice


class Gone(AssertionError):
    """`up` ended, or was silent for too long, before it printed the expected line."""


def environment() -> dict[str, str]:
    """The environment of a run: imports this checkout; BLAS and kernels use one thread each."""
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    return {**os.environ, "PYTHONPATH": path, "OPENBLAS_NUM_THREADS": "1", "CONVOY_THREADS": "1"}


def events(directory: Path, kind: str) -> list[dict[str, Any]]:
    """The journalled events of one kind. A line that is not complete yet is left out."""
    try:
        lines = (directory / "events.jsonl").read_text().splitlines(keepends=True)
    except FileNotFoundError:
        return []
    return [
        event
        for line in lines
        if line.endswith("\n") and (event := json.loads(line))["event"] == kind
    ]


class Heard:
    """The lines of a pipe, each with the time at which it came."""

    def __init__(self, pipe: IO[str]) -> None:
        self.lines: list[tuple[float, str]] = []
        self.over = False
        self.more = threading.Condition()
        self._pipe = pipe
        self.thread = threading.Thread(target=self._read, daemon=True)
        self.thread.start()

    def _read(self) -> None:
        for line in self._pipe:
            with self.more:
                self.lines.append((time.monotonic(), line))
                self.more.notify_all()
        with self.more:
            self.over = True
            self.more.notify_all()


class Survivor:
    """`up` of a cluster.toml, or `up --resume` of it. `more`: further words of the command line."""

    def __init__(
        self,
        cluster: Path,
        env: Mapping[str, str] | None = None,
        *,
        resume: bool = False,
        more: Sequence[str] = (),
    ) -> None:
        self.runs = cluster.parent / "runs"
        self.process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "runtime",
                "up",
                cluster.name,
                *(["--resume"] if resume else []),
                *more,
            ],
            cwd=cluster.parent,
            env=dict(env or environment()),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        self._out = Heard(self.process.stdout)
        self._err = Heard(self.process.stderr)
        self._read = {id(self._out): 0, id(self._err): 0}

    @property
    def directories(self) -> list[Path]:
        """The directories of its runs, in order."""
        return sorted(self.runs.glob("[!.]*"), key=_began)

    @property
    def newest(self) -> Path:
        """The directory of the run under way."""
        return max(self.runs.glob("[!.]*"), key=_began)

    def pids(self) -> dict[str, int]:
        """The process ids of the run under way."""
        return {event["process"]: event["pid"] for event in events(self.newest, "process")}

    def reported(self, wanted: Callable[[dict[str, int]], object] = bool) -> dict[str, int]:
        """The process ids of the run under way, as soon as `wanted` is true of them; by default, as
        soon as there are any. A run that restarts has none at first. Raises Gone if `up` ends or
        the time is over."""
        deadline = time.monotonic() + PATIENCE
        while not wanted(found := self.pids()):
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise Gone(
                    f"processes that have reported: {', '.join(found) or 'none'}\n{self.said()}"
                )
            time.sleep(0.01)
        return found

    def pid(self, process: str) -> int:
        """The pid of a process of the run under way, as soon as it has reported."""
        return self.reported(lambda pids: process in pids)[process]

    def until(self, pattern: str, timeout: float = PATIENCE) -> str:
        """The next line on stdout that begins with `pattern`. Raises Gone if none comes."""
        return self._next(self._out, pattern, timeout)[1]

    def at(self, pattern: str, timeout: float = PATIENCE) -> float:
        """The time at which the next such line came."""
        return self._next(self._out, pattern, timeout)[0]

    def told(self, pattern: str, timeout: float = PATIENCE) -> tuple[float, str]:
        """The time of the next such line, and the line."""
        return self._next(self._out, pattern, timeout)

    def last(self, pattern: str) -> str:
        """The latest line on stdout that begins with `pattern`. Raises Gone if there is none, or if
        `up` has ended."""
        if not self._out.over:
            for _, line in reversed(self._out.lines):
                if re.match(pattern, line):
                    return line
        raise Gone(f"no line, or an end, instead of {pattern!r}:\n{self.said()}")

    def named(
        self, pattern: str = "", timeout: float = PATIENCE, *, since: float = 0.0
    ) -> tuple[float, str]:
        """The next line on stderr that begins with `pattern` and came after `since`, with its time.
        Raises Gone if none comes."""
        while (found := self._next(self._err, pattern, timeout))[0] < since:
            pass
        return found

    def kill(self, generator: random.Random) -> str:
        """Kill one of its processes, chosen at random. Returns its name."""
        pids = self.pids()
        victim = generator.choice(sorted(pids))
        os.kill(pids[victim], signal.SIGKILL)
        return victim

    def end(self, timeout: float = 60.0) -> tuple[int, str]:
        """Wait until `up` has ended. Returns its exit code and its output on stderr."""
        code = self.process.wait(timeout)
        self._close()
        return code, "".join(line for _, line in self._err.lines)

    def stop(self) -> None:
        """End `up` and all its processes, also those that are stopped."""
        pids = self.pids() if any(self.runs.glob("[!.]*")) else {}
        with suppress(subprocess.TimeoutExpired, ProcessLookupError):
            self.process.send_signal(signal.SIGCONT)
            for _ in range(2):
                self.process.terminate()
                self.process.wait(END_SECONDS / 2)
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        for pid in pids.values():
            if living(pid):
                os.kill(pid, signal.SIGKILL)
        self._close()

    def said(self) -> str:
        """The last lines of its output, to find the cause of a failure."""
        lines = sorted((*self._out.lines, *self._err.lines))
        return "".join(line for _, line in lines[-SHOWN:])

    def _next(self, heard: Heard, pattern: str, timeout: float) -> tuple[float, str]:
        deadline = time.monotonic() + timeout
        key = id(heard)
        while True:
            with heard.more:
                while self._read[key] >= len(heard.lines):
                    left = deadline - time.monotonic()
                    if heard.over or left <= 0:
                        raise Gone(f"nothing more that begins with {pattern!r}:\n{self.said()}")
                    heard.more.wait(left)
                found = heard.lines[self._read[key]]
                self._read[key] += 1
            if re.match(pattern, found[1]):
                return found

    def _close(self) -> None:
        for heard, pipe in ((self._out, self.process.stdout), (self._err, self.process.stderr)):
            heard.thread.join(10)
            if pipe is not None:
                pipe.close()


def _began(run: Path) -> int:
    """The time at which the first file of a run was written, by the kernel's clock. The names of
    run directories follow a clock that may be set."""
    try:
        return (run / "config.toml").stat().st_mtime_ns
    except FileNotFoundError:  # it is not written yet
        return 0


def living(pid: int) -> bool:
    """Whether a process lives. One that has only its entry left does not: its state is "Z" until
    its parent has waited for it, and "X" during that."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in ("Z", "X")
