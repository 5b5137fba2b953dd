"""The holders of parameters of a topology, which share the norm of gradients that are clipped."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

from roles.learning.common_norm import NormShares
from roles.learning.job import Job
from runtime.plan.topology import Topology


def with_norm_shares(topology: Topology, job: Job) -> Topology:
    """The same actors. If the solver clips, those with `norm` in their options know one another.

    Actors of a role whose options are `norm_alike` have the same gradients: they are one holder,
    and the first of them speaks for all.
    """
    actors = [actor for actor in topology.actors if hasattr(actor.options, "norm")]
    places: dict[str, int] = {}
    for actor in actors:
        places.setdefault(_place(actor.role, actor.name, actor.options), len(places))
    if not job.solver_spec.clips or len(places) < 2:
        return topology
    told = {}
    spoken: set[str] = set()
    for actor in actors:
        place = _place(actor.role, actor.name, actor.options)
        others = [
            other.name
            for other in actors
            if _place(other.role, other.name, other.options) != place and place not in spoken
        ]
        spoken.add(place)
        told[actor.name] = NormShares(len(places), places[place], tuple(others))
    for name, shares in told.items():
        heard = tuple(other for other in told if name in told[other].told)
        told[name] = replace(shares, heard=heard)
    made = tuple(
        replace(actor, options=replace(actor.options, norm=told[actor.name]))
        if actor.name in told
        else actor
        for actor in topology.actors
    )
    known = {frozenset(link) for link in topology.links}
    more = [
        (one, other)
        for one, other in combinations(told, 2)
        if (other in told[one].told or one in told[other].told)
        and frozenset((one, other)) not in known
    ]
    return replace(topology, actors=made, links=(*topology.links, *more))


def _place(role: str, name: str, options: object) -> str:
    return role if getattr(options, "norm_alike", False) else name
