"""The parts of a run that its configuration chooses: where its actors live, its run directory, its
event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path

from runtime.cluster.launcher import Early
from runtime.config.sections import ClusterConfig
from runtime.machine.loop import event_loop_factory
from runtime.plan.run_names import names_of
from runtime.plan.topology import Placement, Topology
from runtime.records.up_lock import UpLock
from runtime.report.rundir import RunDirectory
from runtime.runs.execution import Execution, ExecutionContext
from runtime.runs.loop_run import LoopExecution
from runtime.runs.process_run import ProcessExecution
from runtime.simulation.clock import VirtualTimeLoop


def execution_of(
    placement: Placement,
    config: ClusterConfig,
    *,
    here: bool,
    early: Early | None,
    shares: bool = False,
) -> Callable[[ExecutionContext], Execution]:
    """Return a function that makes the run's execution. `here` asks for this event loop.
    `shares`: see Run. Raises ConfigError if [simulation] fits no link or has no profile."""
    if config.simulation.clock == "virtual":
        from runtime.runs.virtual_run import planned

        return planned(placement, config)
    return LoopExecution if here else partial(ProcessExecution, early=early, shares=shares)


def directory_of(
    config: ClusterConfig,
    topology: Topology,
    now: Callable[[], float],
    *,
    up: UpLock | None = None,
    continues: str = "",
) -> RunDirectory:
    """Make a new run directory of a run of this topology, where the configuration says.

    `up`: the lock that is held while the run lives. `continues`: the id of the run that this one
    follows. Raises LaunchError.
    """
    return RunDirectory(
        Path(config.run.directory),
        names_of(config, topology)[0],
        now,
        virtual=config.simulation.clock == "virtual",
        observed=config.run.observe,
        up="" if up is None else up.up,
        continues=continues,
        title=topology.title,
    )


def loop_factory_of(config: ClusterConfig) -> Callable[[], asyncio.AbstractEventLoop]:
    """Return a function that makes an event loop with the run's kind of time."""
    return VirtualTimeLoop if config.simulation.clock == "virtual" else event_loop_factory()
