"""Machines that the system's ssh reaches: the user's configuration, agents and jump hosts are ssh's business.

    ssh -T -o BatchMode=yes HOST 'cd DIRECTORY && exec env NAME=VALUE python3 -m runtime join ADDRESS MACHINE'

ssh asks nothing: whatever it would ask for must be settled before. Its standard input stays open: when it closes, for
whatever reason, the agent ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from runtime.cluster.launchers.agents import AgentLauncher, Handle, shell_line
from runtime.cluster.launchers.command import Command

if TYPE_CHECKING:
    from runtime.config.sections import Machine  # pydantic comes with it

# without these a session whose network is gone would stay for ever
ALIVE = ("-o", "ServerAliveInterval=2", "-o", "ServerAliveCountMax=3")
# Of launcher.start_seconds: a machine that has just lost its power is still in this host's table of neighbours, and no
# error comes back. A connection to it took 38.6 s to fail (measured once, 2026-11-25).
CONNECTS_WITHIN = 1 / 3


class SshLauncher(AgentLauncher):
    """`kind = "ssh"`."""

    async def start(self, machine: Machine, argv: Sequence[str], line: str) -> Handle:
        """See AgentLauncher.start."""
        host = machine.host or machine.name
        connects = ("-o", f"ConnectTimeout={max(1, round(CONNECTS_WITHIN * self.start_seconds))}")
        words = ["ssh", "-T", "-o", "BatchMode=yes", *ALIVE, *connects, "--", host, shell_line(machine, argv)]
        return Command.start(words, line, f"ssh {host}")
