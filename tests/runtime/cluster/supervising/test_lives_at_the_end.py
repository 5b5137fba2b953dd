"""Lives of processes that begin again while a run goes on."""

from __future__ import annotations

import asyncio

import pytest

from runtime.actors.actor import Actor
from runtime.actors.metrics import Metrics
from runtime.actors.node import Node
from runtime.cluster.lifecycle import FIRST
from runtime.cluster.supervising.lives import Lives
from runtime.cluster.supervising.processes import Processes
from runtime.compute.compute import InlineCompute
from runtime.errors import LaunchError
from tests.runtime.cluster.supervising.test_processes import Exits, Starter, run_of


async def test_a_run_that_ends_before_a_machine_is_back_is_not_waited_for() -> None:
    run, starter = run_of(), Starter("")
    processes = Processes(run, starter, Exits().add)
    node = Node("up", FIRST, InlineCompute(), Metrics())
    lives = Lives(run, processes, starter, Actor(), node)
    coming = asyncio.create_task(lives.bring_back(["local"]))
    run.end(None)
    with pytest.raises(LaunchError, match="process p on local could not begin again"):
        await asyncio.wait_for(coming, 10)
    await lives.close()
