"""What `plan` shows of a topology of training roles before it runs: memory of each actor, bytes on each link."""

from __future__ import annotations

from roles.forecasting.footprint import footprint
from roles.forecasting.shapes import Shapes
from roles.forecasting.traffic import RULES, traffic_of
from runtime.plan.forecast import Forecast
from runtime.plan.topology import Topology


def forecast(topology: Topology) -> Forecast:
    """Memory, and traffic per training iteration, of the roles that are known here."""
    shapes = Shapes(topology)
    return Forecast(memory=footprint(shapes), traffic=traffic_of(shapes, RULES), step="iteration")
