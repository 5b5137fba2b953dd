"""Machines that the system's ssh reaches. The user's configuration of ssh, its agents and jump
hosts apply.

    ssh -T -o BatchMode=yes HOST
        'cd DIRECTORY && exec env NAME=VALUE python3 -m runtime join ADDRESS MACHINE'

ssh must not ask questions: passwords and host keys must be settled before. Its standard input stays
open. When it closes, for whatever reason, the agent ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from typing import TYPE_CHECKING

from runtime.cluster.launchers.agents import AgentLauncher, Handle, shell_line
from runtime.cluster.launchers.command import Command

if TYPE_CHECKING:
    from runtime.config.sections import Machine  # importing it loads pydantic

# between two keep-alive messages of ssh: without them a session would stay for ever after its
# network has failed
ALIVE_SECONDS = 2
# The share of launcher.start_seconds in which ssh must connect. A machine that has just lost its
# power is still in this host's table of neighbours, so no error comes back. A connection to it took
# 38.6 s to fail (measured once, 2026-11-25).
CONNECTS_WITHIN = 1 / 3


class SshLauncher(AgentLauncher):
    """The launcher of `kind = "ssh"`."""

    reopens = True

    async def start(self, machine: Machine, argv: Sequence[str], line: str) -> Handle:
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
        """Return the options that limit ssh's waiting. ssh connects within a part of the start
        time, and gives up later than the links of the run do: after a cut of 5 s, TCP is silent for
        3 s more."""
        connects = max(1, round(CONNECTS_WITHIN * self.start_seconds))
        count = ceil(self.link_seconds / ALIVE_SECONDS) + 2
        told = (
            f"ConnectTimeout={connects}",
            f"ServerAliveInterval={ALIVE_SECONDS}",
            f"ServerAliveCountMax={count}",
        )
        return tuple(word for option in told for word in ("-o", option))
