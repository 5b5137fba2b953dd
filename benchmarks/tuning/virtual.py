"""Runs that really learn, on the virtual clock: every actor has its own machine, and work takes the
time that it is given."""

from __future__ import annotations

import gc
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import roles
from runtime import Actor, Topology
from runtime.compute.threads import using
from runtime.errors import ProgramFailed
from runtime.plan.program import made_of
from runtime.plan.topology import Placement, ProcessSpec
from runtime.simulation.clock import run_virtual
from runtime.simulation.cluster import Simulation
from runtime.transport.inproc import InprocNetwork

Seconds = Callable[[str, str, str], float]  # actor, role, label of a piece of work -> seconds
# called with an event's name and fields; may end the simulation
Watch = Callable[[Simulation, str, dict[str, Any]], None]


def learn(
    topology: Topology,
    seconds: Seconds,
    watch: Watch,
    *,
    latency: float = 0.0,
    rate: float = 0.0,
    prepared: Callable[[dict[str, Actor]], None] = lambda actors: None,
    network: InprocNetwork | None = None,
) -> str:
    """Run to the end. Returns the error if training diverged, else "". `rate`: bytes per second of
    each interface in each direction; 0 is unlimited. `network` can be given another rate meanwhile. One thread computes, so nothing can race, and
    several such runs can share a machine."""
    processes = tuple(ProcessSpec(actor.name, "local", (actor.name,)) for actor in topology.actors)
    role = {actor.name: actor.role for actor in topology.actors}

    network = network or InprocNetwork()
    network.latency, network.bytes_per_second = latency, rate
    network.interfaces = {spec.name: spec.name for spec in processes}

    async def main(folder: Path) -> None:
        simulation = Simulation(
            Placement(topology, processes),
            network=network,
            service_time=lambda actor, label: seconds(actor, role[actor], label),
            directory=folder,
            watch=lambda actor, event, fields: watch(simulation, event, fields),
        )
        await simulation.run(lambda spec: made_of(roles.ROLES, spec), prepared)

    with tempfile.TemporaryDirectory(prefix="convoy-benchmark-") as folder, using(1):
        try:
            run_virtual(main(Path(folder)))
        except ProgramFailed as error:
            if "diverged" not in str(error):
                raise
            return str(error)
        finally:
            # actors form a reference cycle that holds 470 MB with 8 workers but has few objects, so
            # Python would wait
            gc.collect()
    return ""
