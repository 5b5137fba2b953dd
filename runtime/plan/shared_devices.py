"""The actors that share memory of their GPU with other processes on it, and the links whose arrays
stay there."""

from __future__ import annotations

from collections import defaultdict

from runtime.config.sections import ClusterConfig
from runtime.plan.topology import Link, Placement, SharedGpu, Topology


def shared_devices(topology: Topology, config: ClusterConfig) -> dict[str, str]:
    """Return actor -> GPU of its machine, such as "cuda:0"; nothing if cluster.toml switches the
    sharing off."""
    return _readers(topology) if _is_shared(config) else {}


def device_links(placement: Placement, config: ClusterConfig) -> dict[Link, SharedGpu]:
    """Return the links whose arrays stay on a GPU, in both orders of their actors."""
    topology = placement.topology
    gpus = _readers(topology)
    if not gpus:
        return {}
    home = {actor: spec for spec in placement.processes for actor in spec.actors}
    in_process = defaultdict[str, set[str]](set)  # process -> its GPUs, which is one at most
    for name, gpu in gpus.items():
        in_process[home[name].name].add(gpu)
    for actor in topology.actors:
        near = in_process[home[actor.name].name]
        if actor.follows and len(near) == 1:
            gpus.setdefault(actor.name, *near)
    found = {}
    for one, other in topology.links:
        there = gpus.get(one, "")
        if not there or gpus.get(other) != there or home[one].machine != home[other].machine:
            continue
        together = home[one] is home[other]
        if together or _is_shared(config):
            found[one, other] = found[other, one] = SharedGpu(there, together)
    return found


def _readers(topology: Topology) -> dict[str, str]:
    return {actor.name: gpu for actor in topology.actors if (gpu := actor.shares_gpu)}


def _is_shared(config: ClusterConfig) -> bool:
    return config.links.device_memory and config.links.shared_memory
