"""What `plan` shows of a topology of training roles before it runs: memory of each actor, bytes on each link."""

from __future__ import annotations

from roles.footprint import footprint
from roles.shapes import Shapes
from roles.traffic import RULES, traffic_of
from runtime.forecast import Forecast
from runtime.topology import Topology


def forecast(topology: Topology) -> Forecast:
    """Memory, and traffic per training iteration, of the roles that are known here."""
    shapes = Shapes(topology)
    return Forecast(memory=footprint(shapes), traffic=traffic_of(shapes, RULES), step="iteration")
