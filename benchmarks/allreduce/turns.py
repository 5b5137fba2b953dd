"""The program that `benchmarks.allreduce.pair` runs in either checkout: members that make a sum
when they are told to.

The members are the checkout's own, `benchmarks.allreduce.members`. This file is copied beside a
cluster.toml, and takes only what every checkout since 244eb40 has. Orders come, and times go, over
a socket beside it.
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
    """A line is an order for one sum; its answer is when it began and ended, in nanoseconds on the
    host's clock, and what the sum is, if the line says so."""

    async def run(self) -> None:
        """Sum by sum, until the socket is closed."""
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
        """All threads on one core: where the system would put them is not what is compared."""
        cores = sorted(os.sched_getaffinity(0))
        for thread in Path("/proc/self/task").iterdir():
            os.sched_setaffinity(int(thread.name), {cores[self._rank % len(cores)]})


ROLES = {"member": Member}


def plan(config: Any, options: Options) -> Any:
    """The checkout's own, with the members of this file."""
    return replace(members.plan(config, options), program=__name__)
