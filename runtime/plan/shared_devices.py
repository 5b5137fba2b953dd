"""The actors that share memory of their GPU with other processes on it."""

from __future__ import annotations

from runtime.config.sections import ClusterConfig
from runtime.plan.topology import Topology


def shared_devices(topology: Topology, config: ClusterConfig) -> dict[str, str]:
    """Return actor -> GPU of its machine, such as "cuda:0"; nothing if cluster.toml switches the
    sharing off."""
    if not (config.links.device_memory and config.links.shared_memory):
        return {}
    return {actor.name: gpu for actor in topology.actors if (gpu := actor.shares_gpu)}
