"""Surroundings in which a command may be started: without a home, with closed streams, as a user
without a name, in namespaces. `SURROUNDINGS` has all of them by name."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import pytest

from tests.helpers.support import environment, runtime_command

ALIEN = 54321  # a user number that no passwd has
LOST = None  # in place of a value: the variable is removed


@dataclass(frozen=True)
class Surrounding:
    """The words before a command, the changes to its environment, and its redirections."""

    before: tuple[str, ...] = ()
    environment: Mapping[str, str | None] = field(default_factory=dict)
    redirected: str = ""

    def run(
        self, folder: Path, *arguments: str | Path, timeout: float = 200
    ) -> subprocess.CompletedProcess[str]:
        """Run `python -m runtime` in `folder`, and return its end. Skips the test if the machine
        does not allow the words before it."""
        if self.before and not allowed(self.before):
            pytest.skip(f"this machine does not allow {shlex.join(self.before)}")
        changed = {**environment(), "CONVOY_THREADS": "1", **self.environment}
        shell = ("sh", "-c", f'exec "$@" {self.redirected}', "sh")
        return subprocess.run(
            [*shell, *self.before, *runtime_command(*arguments)],
            cwd=folder,
            env={name: value for name, value in changed.items() if value is not None},
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=timeout,
            check=False,
        )


@cache
def allowed(before: tuple[str, ...]) -> bool:
    """Whether this machine runs a command behind these words."""
    try:
        return subprocess.run([*before, "true"], capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


# root passes every mode of a file; without its capabilities, it is the user with number 0
ORDINARY = ("setpriv", "--bounding-set=-all", "--inh-caps=-all") if os.geteuid() == 0 else ()
NAMELESS = ("unshare", "-U", f"--map-user={ALIEN}", f"--map-group={ALIEN}")
NAMESPACES = ("unshare", "-U", "-r", "-m", "-p", "-f")


def _no_home(folder: Path) -> Surrounding:
    return Surrounding(environment={"HOME": LOST, "XDG_CACHE_HOME": LOST})


def _read_only_home(folder: Path) -> Surrounding:
    home = folder / "home"
    home.mkdir(mode=0o555)
    return Surrounding(ORDINARY, {"HOME": str(home), "XDG_CACHE_HOME": LOST})


def _long_tmpdir(folder: Path) -> Surrounding:
    deep = folder / "slurm_jobdir" / ("x" * 100)
    deep.mkdir(parents=True)
    return Surrounding(environment={"TMPDIR": str(deep)})


ASCII = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
SURROUNDINGS: dict[str, Callable[[Path], Surrounding]] = {
    "no home": _no_home,
    "read-only home": _read_only_home,
    "long TMPDIR": _long_tmpdir,
    "LC_ALL=C": lambda folder: Surrounding(environment={"LC_ALL": "C"}),
    "ASCII locale": lambda folder: Surrounding(environment=ASCII),
    "latin-1 output": lambda folder: Surrounding(environment={"PYTHONIOENCODING": "latin-1"}),
    "stdin closed": lambda folder: Surrounding(redirected="<&-"),
    "stdout closed": lambda folder: Surrounding(redirected=">&-"),
    "stderr closed": lambda folder: Surrounding(redirected="2>&-"),
    "all closed": lambda folder: Surrounding(redirected="<&- >&- 2>&-"),
    "no name": lambda folder: Surrounding(
        NAMELESS, {"HOME": LOST, "USER": LOST, "LOGNAME": LOST, "XDG_CACHE_HOME": LOST}
    ),
    "namespaces": lambda folder: Surrounding((*NAMESPACES, "--mount-proc")),
    "namespaces without their /proc": lambda folder: Surrounding(NAMESPACES),
}
