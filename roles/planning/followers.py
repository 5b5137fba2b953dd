"""Actors that share a GPU: the links whose arrays stay there, and reducers and accumulators, which
add up where the arrays of their peers lie, if all these are on one GPU of their machine."""

from __future__ import annotations

import dataclasses

from roles.base.role import SummingOptions
from roles.formats.float32 import Float64
from roles.learning.wire_formats import PLAIN
from runtime.config.sections import ClusterConfig
from runtime.errors import ConfigError
from runtime.plan.placement import place
from runtime.plan.shared_devices import device_links, shared_devices
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


def with_device_links(topology: Topology, config: ClusterConfig) -> Topology:
    """Note the links whose arrays stay on a GPU. Forecasts need them."""
    if not any(actor.gpu for actor in topology.actors):
        return topology
    try:
        placement = place(topology, config)
    except ConfigError:
        return topology  # the caller places the topology next and gets this error then
    links = device_links(placement, config)
    for actor in topology.actors:
        for way in (*getattr(actor.options, "models", ()), actor.options):
            if getattr(way, "wire", PLAIN).format not in (PLAIN.format, Float64.name):
                links.pop((actor.name, getattr(way, "parent", "")), None)  # encoded on the host
    return dataclasses.replace(topology, device_links=links)
