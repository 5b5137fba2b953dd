"""The bytes of arrays on each link in one iteration, planned and measured."""

from __future__ import annotations

from dataclasses import dataclass

from runtime.page.run_history import RunHistory
from runtime.page.time_shares import Times
from runtime.plan.forecast import Forecast
from runtime.plan.topology import Placement


@dataclass(frozen=True)
class Link:
    """The bytes of arrays on one link; None if unknown. Both numbers are for an iteration of the
    link's own group. `measured` includes the traffic of tests."""

    sender: str
    receiver: str
    planned: int | None
    measured: float | None


def links(
    story: RunHistory, times: Times | None, known: tuple[Placement, Forecast] | None
) -> list[Link]:
    """The links that carry arrays or are planned to, sorted."""
    forecast = known[1] if known is not None else Forecast()
    received = times.received if times is not None else {}
    done = times.iterations / groups_of(story) if times is not None else 0.0
    found = []
    for link in sorted(forecast.traffic.keys() | {link for link, size in received.items() if size}):
        planned = forecast.on_link(link) if link in forecast.traffic else None
        found.append(Link(*link, planned, received.get(link, 0.0) / done if done >= 1 else None))
    return found


def groups_of(story: RunHistory) -> int:
    """The number of compute groups: after the last regrouping, or else as the lead actor began, or
    else 1."""
    changed = story.last.get("regrouped", {}).get("groups")
    if isinstance(changed, int) and changed > 0:
        return changed
    if story.placement is None:
        return 1
    topology = story.placement.topology
    options = next(
        (actor.options for actor in topology.actors if actor.name == topology.lead), None
    )
    groups = options.get("groups") if isinstance(options, dict) else None
    return len(groups) if isinstance(groups, list | tuple) and groups else 1
