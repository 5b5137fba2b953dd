"""Machines that the system's ssh reaches: the user's configuration, agents and jump hosts are ssh's
business.

    ssh -T -o BatchMode=yes HOST
        'cd DIRECTORY && exec env NAME=VALUE python3 -m runtime join ADDRESS MACHINE'

ssh asks nothing: whatever it would ask for must be settled before. Its standard input stays open:
when it closes, for whatever reason, the agent ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from typing import TYPE_CHECKING

from runtime.cluster.launchers.agents import AgentLauncher, Handle, shell_line
from runtime.cluster.launchers.command import Command

if TYPE_CHECKING:
    from runtime.config.sections import Machine  # pydantic comes with it

# between two questions of ssh: without them a session whose network is gone would stay for ever
ALIVE_SECONDS = 2
# Of launcher.start_seconds: a machine that has just lost its power is still in this host's table of
# neighbours, and no error comes back. A connection to it took 38.6 s to fail (measured once,
# 2026-11-25).
CONNECTS_WITHIN = 1 / 3


class SshLauncher(AgentLauncher):
    """`kind = "ssh"`."""

    async def start(self, machine: Machine, argv: Sequence[str], line: str) -> Handle:
        """See AgentLauncher.start."""
        host = machine.host or machine.name
        words = [
            "ssh",
            "-T",
            "-o",
            "BatchMode=yes",
            *self._patience(),
            "--",
            host,
            shell_line(machine, argv),
        ]
        return Command.start(words, line, f"ssh {host}")

    def _patience(self) -> tuple[str, ...]:
        """ssh connects within a part of the start, and gives up later than the links of the run:
        TCP says nothing for 3 s more than a cut of 5 s lasts."""
        connects = max(1, round(CONNECTS_WITHIN * self.start_seconds))
        count = ceil(self.link_seconds / ALIVE_SECONDS) + 2
        told = (
            f"ConnectTimeout={connects}",
            f"ServerAliveInterval={ALIVE_SECONDS}",
            f"ServerAliveCountMax={count}",
        )
        return tuple(word for option in told for word in ("-o", option))
