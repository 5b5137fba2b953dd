"""The program that `benchmarks.allreduce.pair` runs in either checkout: members that make one sum
for each order.

The members are the checkout's own, `benchmarks.allreduce.members`. This file is copied next to a
cluster.toml, and uses only what every checkout since 244eb40 has. Orders and times go over a socket
in the same folder.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
from dataclasses import replace
from pathlib import Path
from time import perf_counter_ns
from typing import Any

try:
    from benchmarks.allreduce import members
except ImportError:  # a checkout from before the benchmarks had folders
    from benchmarks import allreduce_members as members  # type: ignore[attr-defined,no-redef]

Options = members.Options

__all__ = ["ROLES", "SOCKET", "Member", "Options", "plan"]
SOCKET = "orders"


class Member(members.Member):
    """Each line is an order for one sum. Its answer has the start and the end, in nanoseconds on
    the host's clock, and the sum's digest if the line asks for it."""

    async def run(self) -> None:
        """Make sum after sum, until the socket is closed."""
        self._stay()
        reader, writer = await asyncio.open_unix_connection(self.run_directory.parents[1] / SOCKET)
        number = 0
        while order := await reader.readline():
            began = perf_counter_ns()
            total = await self.compute("total", await self._collective.sum((number, 0), self._mine))
            ended = perf_counter_ns()
            number = number + 1
            digest = hashlib.blake2b(total, digest_size=8).hexdigest() if order.strip() else ""
            writer.write(json.dumps([began, ended, digest]).encode() + b"\n")
        writer.close()

    def _stay(self) -> None:
        """Pin all threads to one core, so that the system's placement does not differ."""
        cores = sorted(os.sched_getaffinity(0))
        for thread in Path("/proc/self/task").iterdir():
            os.sched_setaffinity(int(thread.name), {cores[self._rank % len(cores)]})


ROLES = {"member": Member}


def plan(config: Any, options: Options) -> Any:
    """The checkout's own plan, with the members of this file."""
    return replace(members.plan(config, options), program=__name__)
