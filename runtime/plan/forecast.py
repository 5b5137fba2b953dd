"""The expected memory of each actor and bytes on each link, as a program predicts them before
anything starts.

Plain data for `plan` to show. A program offers it as `forecast(topology) -> Forecast`, and chooses
the method of prediction.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from runtime.plan.topology import Link

# ends the name of a purpose: bytes in host memory of an actor that computes on a GPU
HOST = " in host memory"


@dataclass(frozen=True)
class Forecast:
    """`memory`: actor -> purpose -> bytes. `traffic`: link -> content -> bytes of arrays in one
    `step` of the link's actors, or None if the bytes depend on the values of the arrays."""

    memory: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    traffic: Mapping[Link, Mapping[str, int | None]] = field(default_factory=dict)
    step: str = "step"

    def on_link(self, link: Link) -> int | None:
        """Return all bytes of a link in one step, or None if some are not known."""
        sizes = self.traffic.get(link, {}).values()
        return None if None in sizes else sum(size for size in sizes if size is not None)


def shown(size: int | None) -> str:
    """Return a size for people, in decimal units with three digits: "1.23 MB"; "?" if it is not
    known."""
    if size is None:
        return "?"
    value = float(size)
    unit = "B"
    for larger in ("kB", "MB", "GB", "TB"):
        if value < 999.5:
            break
        value = value / 1000
        unit = larger
    return f"{value:.0f} {unit}" if unit == "B" or value >= 99.95 else f"{value:.3g} {unit}"
