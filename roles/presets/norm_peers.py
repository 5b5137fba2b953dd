"""The holders of parameters of a topology, which share the norm of gradients that are clipped."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

from roles.learning.job import Job
from runtime.plan.topology import Topology


def with_norm_peers(topology: Topology, job: Job) -> Topology:
    """The same actors. If the solver clips, those with `norm_peers` in their options know and reach
    one another."""
    holders = [actor.name for actor in topology.actors if hasattr(actor.options, "norm_peers")]
    if not job.solver_spec.clips or len(holders) < 2:
        return topology
    actors = []
    for actor in topology.actors:
        if actor.name in holders:
            peers = tuple(name for name in holders if name != actor.name)
            actor = replace(actor, options=replace(actor.options, norm_peers=peers))
        actors.append(actor)
    links = (*topology.links, *combinations(holders, 2))
    return replace(topology, actors=tuple(actors), links=tuple(dict.fromkeys(links)))
