"""What `plan` shows of a topology of training roles before it runs: memory of each actor, bytes on each link."""

from __future__ import annotations

from roles.base.role import Held, RoleOptions
from roles.base.shapes import Shapes
from roles.forecasting.traffic import traffic_of
from runtime.plan.forecast import Forecast
from runtime.plan.topology import Topology


def forecast(topology: Topology) -> Forecast:
    """Memory, and traffic per training iteration, as far as roles say it of themselves."""
    shapes = Shapes(topology)
    return Forecast(memory=footprint(shapes), traffic=traffic_of(shapes), step="iteration")


def footprint(shapes: Shapes) -> dict[str, Held]:
    """Actor -> what for -> bytes of arrays; actors that hold next to nothing, or do not say, are missing."""
    said = {
        name: options.holds(name, shapes)
        for name, options in shapes.options.items()
        if isinstance(options, RoleOptions)
    }
    return {name: held for name, held in said.items() if held}
