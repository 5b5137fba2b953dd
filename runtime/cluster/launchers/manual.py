"""Machines that a person starts. `up` shows two lines for each, one to type and one to paste, and
waits.

The second line admits one agent, for this run. It is a key, so it is printed only to a terminal or
a pipe, whose reader is there now. If stdout is kept (a file, the journal of the system), the line
goes into a file that only this user can read, in the private folder of the run. Then the path of
that file is printed.
"""

from __future__ import annotations

import asyncio
import os
import stat
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from runtime.cluster.launcher import LaunchPlan
from runtime.cluster.launchers.agents import AgentLauncher, Handle, shell_line
from runtime.errors import LaunchError
from runtime.reasons import reason

if TYPE_CHECKING:
    from runtime.config.sections import Machine  # importing it loads pydantic


class Typed(Handle):
    """An agent that a person starts and ends."""

    async def wait(self) -> str:
        """Wait for ever: only the link shows the end of the agent."""
        await asyncio.Event().wait()
        return ""

    def kill(self) -> None:
        """Do nothing: the agent ends itself when the link closes."""

    def waiting(self) -> str:
        return "its line was not typed there, or its agent cannot reach this host"


class ManualLauncher(AgentLauncher):
    """The launcher of `kind = "manual"`."""

    attached = False
    start_seconds = 600.0

    def __init__(self, plan: LaunchPlan) -> None:
        super().__init__(plan)
        self._files: set[Path] = set()  # with lines, written by this launcher

    async def start(self, machine: Machine, argv: Sequence[str], line: str) -> Handle:
        text = (
            f"machine '{machine.name}': type there\n    "
            f"{shell_line(machine, argv).replace('exec ', '', 1)}\nand then"
        )
        if stdout_is_kept():
            text += (
                " the line that is in this file, which only you can read\n    "
                f"{self._written(machine, line)}\n"
            )
        else:
            text += f"\n    {line}\n"
        try:
            sys.stdout.write(text)
            sys.stdout.flush()
        except OSError as error:
            raise LaunchError(
                f"stdout: the lines to type on the machines cannot be printed: {reason(error)}"
            ) from None
        return Typed()

    def _written(self, machine: Machine, line: str) -> str:
        """Write the line into a file and return its path. A machine that returns gets a new line in
        place of its former one. The file is removed with the private folder of the run. Raises
        LaunchError, also if something else has the name of the file."""
        path = self.private / f"{machine.name}.invitation"
        try:
            if path in self._files:
                path.unlink(missing_ok=True)
            opened = os.open(
                path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600
            )
            with os.fdopen(opened, "w", encoding="utf-8") as file:
                self._files.add(path)
                file.write(f"{line}\n")
        except OSError as error:
            raise LaunchError(
                f"{path}: the line for machine '{machine.name}' cannot be written: {reason(error)}"
            ) from None
        return str(path)


def stdout_is_kept() -> bool:
    """Whether text on stdout is stored, so that others may read it later. A terminal does not store
    it, nor does a pipe itself."""
    try:
        return not (sys.stdout.isatty() or stat.S_ISFIFO(os.fstat(sys.stdout.fileno()).st_mode))
    except (OSError, ValueError):  # stdout is closed, or is not a file of the system
        return True
