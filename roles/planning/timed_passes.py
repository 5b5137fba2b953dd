"""Workers on GPUs whose rows follow their measured speeds: their passes end when the GPU has
computed them."""

from __future__ import annotations

import dataclasses

from runtime.plan.topology import ActorSpec, Topology


def with_timed_passes(topology: Topology) -> Topology:
    """Tell the workers on GPUs that their passes are timed, if a batch is cut by throughput."""
    lead = next(actor.options for actor in topology.actors if actor.name == topology.lead)
    if not getattr(getattr(lead, "shares", None), "in_proportion", False):
        return topology

    def timed(actor: ActorSpec) -> ActorSpec:
        if not (actor.gpu and hasattr(actor.options, "timed")):
            return actor
        return dataclasses.replace(actor, options=dataclasses.replace(actor.options, timed=True))

    return dataclasses.replace(topology, actors=tuple(map(timed, topology.actors)))
