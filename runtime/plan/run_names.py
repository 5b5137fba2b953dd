"""The names of the runs of a topology."""

from __future__ import annotations

from runtime.config.sections import ClusterConfig
from runtime.plan.topology import Topology


def names_of(config: ClusterConfig, topology: Topology) -> tuple[str, ...]:
    """Return the names that runs of this topology may have; a new run gets the first. Versions
    before 2026-11-29 named a run without `run.name` after its program."""
    if config.run.name:
        return (config.run.name,)
    return tuple(dict.fromkeys(name for name in (topology.title, config.program) if name))
