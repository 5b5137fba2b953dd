"""Machines that a person starts: `up` shows a line to type on each and a line to paste, and waits.

The second line lets one agent in, for this run. It is a key, so it goes to a terminal or a pipe,
whose reader is there now. Where stdout is kept (a file, the journal of the system) it goes into a
file that only this user can read, in the private folder of the run, and the path of that file is
shown.
"""

from __future__ import annotations

import asyncio
import os
import stat
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from runtime.cluster.launchers.agents import AgentLauncher, Handle, shell_line
from runtime.errors import LaunchError
from runtime.reasons import reason

if TYPE_CHECKING:
    from runtime.config.sections import Machine  # pydantic comes with it


class Typed(Handle):
    """An agent that a person starts and ends."""

    async def wait(self) -> str:
        """Its link alone tells of its end."""
        await asyncio.Event().wait()
        return ""

    def kill(self) -> None:
        """It ends itself when the link closes."""

    def waiting(self) -> str:
        """See Handle.waiting."""
        return "nobody has typed its line there, or it cannot reach this host"


class ManualLauncher(AgentLauncher):
    """`kind = "manual"`."""

    attached = False
    start_seconds = 600.0

    async def start(self, machine: Machine, argv: Sequence[str], line: str) -> Handle:
        """See AgentLauncher.start."""
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
                f"stdout: nobody can read what to type on the machines: {reason(error)}"
            ) from None
        return Typed()

    def _written(self, machine: Machine, line: str) -> str:
        """The path of a file with the line, which goes with the private folder of the run.
        LaunchError."""
        path = self.private / f"{machine.name}.invitation"
        try:
            opened = os.open(
                path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600
            )
            with os.fdopen(opened, "w") as file:
                file.write(f"{line}\n")
        except OSError as error:
            raise LaunchError(
                f"{path}: the line for machine '{machine.name}' cannot be written: {reason(error)}"
            ) from None
        return str(path)


def stdout_is_kept() -> bool:
    """Is what is said there kept, so that others may read it later? Not by a terminal, nor by a
    pipe itself."""
    try:
        return not (sys.stdout.isatty() or stat.S_ISFIFO(os.fstat(sys.stdout.fileno()).st_mode))
    except (OSError, ValueError):  # it is closed, or no file of the system
        return True
