"""Reducers and accumulators on a GPU: they add up where the arrays of their peers lie, if all these
are on one GPU of their machine."""

from __future__ import annotations

import dataclasses

from roles.base.role import SummingOptions
from runtime.config.sections import ClusterConfig
from runtime.errors import ConfigError
from runtime.plan.placement import place
from runtime.plan.shared_devices import shared_devices
from runtime.plan.topology import ActorSpec, Topology


def followers_on_gpus(topology: Topology, config: ClusterConfig) -> Topology:
    """Give each such actor its GPU, where processes share memory of GPUs."""
    gpus = shared_devices(topology, config)
    if not gpus or config.simulation.clock != "real" or config.placement.processes == "one":
        return topology
    try:
        placement = place(topology, config)
    except ConfigError:
        return topology  # the caller places the topology next and gets this error then
    machine_of = {actor: spec.machine for spec in placement.processes for actor in spec.actors}
    home = placement.process_of()

    def followed(actor: ActorSpec) -> ActorSpec:
        options = actor.options
        if not isinstance(options, SummingOptions):
            return actor
        peers = [name for name in topology.peers(actor.name) if name in gpus]
        places = {(machine_of[name], gpus[name]) for name in peers}
        machines = {machine for machine, _ in places}
        apart = any(home[name] != home[actor.name] for name in peers)
        if len(places) != 1 or machines != {machine_of[actor.name]} or not apart:
            return actor
        ((_, gpu),) = places
        return dataclasses.replace(actor, options=dataclasses.replace(options, device=gpu))

    return dataclasses.replace(topology, actors=tuple(map(followed, topology.actors)))
