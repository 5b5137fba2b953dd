"""A real `up` of a trial as the driver sees it: its output, its process, and the processes of its
run."""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from benchmarks.helpers.survivor import Gone, Heard, events, living
from benchmarks.operators.draw import Place
from benchmarks.operators.layer import HOLD
from benchmarks.operators.truth import Answer
from benchmarks.operators.world import World

START_SECONDS = 60.0  # for a run to begin, on a machine that others use too


class Up:
    """`up` of the cluster.toml in `folder`, typed at `place`. `own_tmp`: whether it has its own
    TMPDIR."""

    def __init__(
        self,
        world: World,
        folder: Path,
        place: Place,
        *,
        own_tmp: bool = False,
        resume: bool = False,
    ) -> None:
        self._world = world
        self.folder = folder
        self.place = place
        self._hold = folder / HOLD
        self._hold.unlink(missing_ok=True)
        words = [sys.executable, "-m", "runtime", "up", *(["--resume"] if resume else [])]
        tmp = world.tmp / folder.name if own_tmp else None
        self.process = subprocess.Popen(
            world.words(words, place),
            cwd=folder,
            env=world.environment(place, f"up {folder.name} ", folder, tmp),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        self._out = Heard(self.process.stdout)
        self._err = Heard(self.process.stderr)
        self._read = 0

    @property
    def directories(self) -> list[str]:
        """The names of its run directories, in the order in which it printed them."""
        lines = [line for _, line in list(self._out.lines)]
        return [Path(line.split()[2]).name for line in lines if line.startswith("run directory ")]

    @property
    def has_ended(self) -> bool:
        """Whether the process of `up` has ended."""
        return self.process.poll() is not None

    def until(self, pattern: str, seconds: float = START_SECONDS) -> str:
        """The next line on stdout that begins with `pattern`. Raises Gone if none comes."""
        until = time.monotonic() + seconds
        while True:
            with self._out.more:
                while self._read >= len(self._out.lines):
                    left = until - time.monotonic()
                    if self._out.over or left <= 0:
                        raise Gone(
                            f"up of {self.folder.name} did not print {pattern!r} within "
                            f"{seconds:.0f} s: {self}"
                        )
                    self._out.more.wait(left)
                line = self._out.lines[self._read][1]
                self._read += 1
            if re.match(pattern, line):
                return line

    def skip(self) -> None:
        """Skip the lines that it has printed so far: `until` looks only at later ones."""
        with self._out.more:
            self._read = len(self._out.lines)

    def pid(self) -> int:
        """The process id of `up` itself, also if it lives in another namespace."""
        if not self.place.pids:
            return self.process.pid
        children = (
            Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        )
        return int(children[0])

    def kill_one(
        self, chance: random.Random, number: signal.Signals = signal.SIGKILL
    ) -> int | None:
        """Send a signal to one process of the run. Returns its pid, None if there is none."""
        mine = self._world.pids(f"up {self.folder.name} ")
        others = [pid for pid in mine if pid not in (self.process.pid, self.pid())]
        if number == signal.SIGSTOP:  # stopping the nursery has no effect on the run
            others = [pid for pid in others if _called(pid) != "nursery"]
        if not others:
            return None
        victim = chance.choice(others)
        with suppress(ProcessLookupError):
            os.kill(victim, number)
        return victim

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to `up` itself."""
        with suppress(ProcessLookupError):
            os.kill(self.pid(), number)

    def hold(self, *, on: bool) -> None:
        """Prevent every further run of this `up` from beginning, or allow it again."""
        if on:
            half = self._hold.with_suffix(".half")
            half.write_text("1" if self.place.pids else str(self.pid()))
            half.replace(self._hold)
        else:
            self._hold.unlink(missing_ok=True)

    def ends_within(self, seconds: float) -> bool:
        """Whether its process ends within so many seconds."""
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(seconds)
        return self.has_ended

    def answer(self) -> Answer:
        """Its output and exit code, in the form of a command's answer."""
        for heard in (self._out, self._err):
            heard.thread.join(5.0 if self.has_ended else 0.0)
        out, err = (
            "".join(line for _, line in list(heard.lines)) for heard in (self._out, self._err)
        )
        return Answer(("up",), self.process.poll(), out, err)

    def __str__(self) -> str:
        said = self.answer()
        return " | ".join((said.out + said.err).splitlines()[-12:])[-1500:]

    def workers(self, directory: Path) -> int:
        """The number of workers with which the run in `directory` began; 0 if one of them has
        died."""
        found = {event["process"]: event["pid"] for event in events(directory, "process")}
        workers = [name for name in found if name.startswith("replica-")]
        if not self.place.pids and not all(living(found[name]) for name in workers):
            return 0
        return len(workers)

    def close(self) -> None:
        """Close its pipes."""
        for heard, pipe in ((self._out, self.process.stdout), (self._err, self.process.stderr)):
            heard.thread.join(5.0)
            if pipe is not None:
                pipe.close()


def _called(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text().strip()
    return ""
