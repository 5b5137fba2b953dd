"""What a program can say of a topology before anything starts: memory of each actor, bytes on each
link.

Plain data for `plan` to show; a program offers it as `forecast(topology) -> Forecast`. How it knows
is its business.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from runtime.plan.topology import Link


@dataclass(frozen=True)
class Forecast:
    """`memory`: actor -> what for -> bytes. `traffic`: link -> what -> bytes of arrays in one
    `step` of the link's actors; None if that depends on the numbers themselves."""

    memory: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    traffic: Mapping[Link, Mapping[str, int | None]] = field(default_factory=dict)
    step: str = "step"

    def on_link(self, link: Link) -> int | None:
        """All bytes of a link in one step; None if some are not known."""
        sizes = self.traffic.get(link, {}).values()
        return None if None in sizes else sum(size for size in sizes if size is not None)


def shown(size: int | None) -> str:
    """Bytes for people, in decimal units of three digits: "1.23 MB"; "?" if they are not known."""
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
