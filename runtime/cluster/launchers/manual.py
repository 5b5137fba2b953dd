"""Machines that a person starts: `up` shows a line to type on each and a line to paste, and waits.

The second line lets one agent in, for this run. It goes to the terminal only.
"""

from __future__ import annotations

import asyncio
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
        text = f"machine '{machine.name}': type there\n    {shell_line(machine, argv).replace('exec ', '', 1)}\n"
        try:
            sys.stdout.write(f"{text}and then\n    {line}\n")
            sys.stdout.flush()
        except OSError as error:
            raise LaunchError(f"stdout: nobody can read what to type on the machines: {reason(error)}") from None
        return Typed()
