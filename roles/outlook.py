"""What `plan` shows of a topology of training roles before it runs: memory of each actor, bytes on each link."""

from __future__ import annotations

from roles.footprint import footprint
from roles.traffic import traffic
from runtime.forecast import Forecast
from runtime.topology import Topology


def forecast(topology: Topology) -> Forecast:
    """Memory, and traffic per training iteration, of the roles that are known here."""
    return Forecast(memory=footprint(topology), traffic=traffic(topology), step="iteration")
