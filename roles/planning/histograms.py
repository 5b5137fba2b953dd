"""The actors that make histograms of parameters and gradients (`run.histograms`)."""

from __future__ import annotations

import dataclasses
from typing import Any

from runtime.plan.topology import Topology


def with_histograms(topology: Topology, every: int) -> Topology:
    """The same topology where each parameter gets histograms `every` so many iterations, from the
    actors whose state a checkpoint holds. Emulated devices have no parameters. 0: none."""
    leads = [actor.options for actor in topology.actors if actor.name == topology.lead]
    chosen = {name for lead in leads for name in getattr(lead, "servers", ())} if every else ()
    actors = tuple(
        dataclasses.replace(actor, options=_with(actor.options, every))
        if actor.name in chosen
        else actor
        for actor in topology.actors
    )
    return dataclasses.replace(topology, actors=actors)


def _with(options: Any, every: int) -> Any:
    job = getattr(options, "job", None)
    if job is None or job.emulated:
        return options
    return dataclasses.replace(options, job=dataclasses.replace(job, histograms=every))
