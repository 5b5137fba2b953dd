"""Machines that the system's ssh reaches: the user's configuration, agents and jump hosts are ssh's business.

    ssh -T -o BatchMode=yes HOST 'cd DIRECTORY && exec env NAME=VALUE python3 -m runtime join ADDRESS MACHINE'

ssh asks nothing: whatever it would ask for must be settled before. Its standard input stays open: when it closes, for
whatever reason, the agent ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from typing import TYPE_CHECKING

from runtime.cluster.launchers.agents import AgentLauncher, Handle, shell_line
from runtime.cluster.launchers.command import Command

if TYPE_CHECKING:
    from runtime.config.sections import Machine  # pydantic comes with it

ALIVE_SECONDS = 2  # between two questions of ssh: without them a session whose network is gone would stay for ever


class SshLauncher(AgentLauncher):
    """`kind = "ssh"`."""

    async def start(self, machine: Machine, argv: Sequence[str], line: str) -> Handle:
        """See AgentLauncher.start."""
        host = machine.host or machine.name
        words = ["ssh", "-T", "-o", "BatchMode=yes", *_alive(self.link_seconds), "--", host, shell_line(machine, argv)]
        return Command.start(words, line, f"ssh {host}")


def _alive(link_seconds: float) -> tuple[str, ...]:
    """ssh gives up later than the links of the run: TCP says nothing for 3 s more than a cut of 5 s lasts."""
    count = ceil(link_seconds / ALIVE_SECONDS) + 2
    return ("-o", f"ServerAliveInterval={ALIVE_SECONDS}", "-o", f"ServerAliveCountMax={count}")
