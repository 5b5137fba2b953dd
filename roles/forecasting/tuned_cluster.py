"""The cluster of a run as plain data, so that its tuner can make the model of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from runtime.errors import ConfigError
from runtime.plan.topology import Topology

if TYPE_CHECKING:
    from runtime.config.sections import ClusterConfig


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """The cluster of a run as plain data: its `placement` (`Placement.to_data`), the rate and
    latency of its network, and the number of processors that all processes share (0: they share
    none). `bytes_per_second` 0: processes share memory. `warms`: the first pieces of work are
    slower than later ones, as everywhere but on the virtual clock."""

    placement: dict[str, Any]
    latency: float = 0.0
    bytes_per_second: float = 0.0
    interfaces: dict[str, str] = field(default_factory=dict)
    processors: int = 0
    warms: bool = False


def cluster_of(topology: Topology, config: ClusterConfig) -> Cluster | None:
    """The cluster that the topology would run on, for the tuner's model. None if it cannot be
    placed, which the caller of the planner reports."""
    # role processes do without these modules and their libraries
    from roles.forecasting.fitted_model import network_of, processors_of
    from runtime.plan.placement import place

    try:
        placed = place(topology, config)
    except ConfigError:
        return None
    network, _ = network_of(placed, config)
    return Cluster(
        placement=placed.to_data(),
        latency=network.latency,
        bytes_per_second=network.bytes_per_second or 0.0,
        interfaces=dict(network.interfaces),
        processors=processors_of(config),
        warms=config.simulation.clock == "real",
    )
