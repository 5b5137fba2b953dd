"""A live run for the tests of an operator's commands: LeNet in two groups, and commands typed in
the same folder.
"""

from __future__ import annotations

import re
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.helpers.support import configure, environment, run_directory, runtime_command

METRICS = "[metrics]\nport = 0\n"
TESTING = "test_iter: 1 test_interval: 3\n"


@dataclass(frozen=True)
class Operated:
    """The folder where `up` was typed, and the address at which it lists the processes' metrics
    pages.
    """

    folder: Path
    targets: str

    def said(self, typed: str) -> tuple[int, str]:
        """The exit code and the output of a command typed there. {saved} stands for the newest
        checkpoint.
        """
        saved = max(run_directory(self.folder / "cluster.toml").glob("checkpoint-*"), default="")
        done = subprocess.run(
            runtime_command(*typed.format(saved=saved).split()),
            cwd=self.folder,
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout

    def wait_for(self, event: str) -> None:
        """Follow the journal until it has an event of this kind."""
        told = re.compile(rf" {event} ")
        following = subprocess.Popen(
            runtime_command("events", "-f"),
            cwd=self.folder,
            env=environment(),
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            _until(following, lambda line: told.search(line) is not None)
        finally:
            following.terminate()
            following.communicate()


@contextmanager
def operated(folder: Path) -> Iterator[Operated]:
    """A run that has tested its net and goes on; it is ended at the end of the block."""
    configure(
        folder,
        "omnivore",
        workers=2,
        groups=2,
        iterations=10**6,
        batch=8,
        test=True,
        paced=True,
        pace=0.2,
        more=METRICS,
    )
    with (folder / "solver.prototxt").open("a") as solver:
        solver.write(TESTING)
    up = subprocess.Popen(
        runtime_command("up"), cwd=folder, env=environment(), stdout=subprocess.PIPE, text=True
    )
    try:
        said = _until(up, lambda line: line.startswith("test "))
        listed = re.search(r"^metrics +(\S+) lists every process$", said, re.MULTILINE)
        assert listed is not None, said
        yield Operated(folder, listed[1])
    finally:
        up.send_signal(signal.SIGTERM)
        up.communicate()


def _until(command: subprocess.Popen[str], enough: Callable[[str], bool]) -> str:
    """The output of a command up to the first line for which `enough` returns true."""
    assert command.stdout is not None
    said = ""
    for line in command.stdout:
        said += line
        if enough(line):
            break
    return said
