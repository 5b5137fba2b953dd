"""The topology of a run whose groups or batch were changed: the planned layout with the present
groups, routes and rows."""

from __future__ import annotations

import dataclasses
from typing import Any

from roles.learning.batch_split import Shares
from roles.messages import Place, Regroup
from runtime.plan.topology import Topology


def regrouped(topology: Topology, workers: int, groups: int) -> Topology:
    """The topology with `workers` workers in `groups` groups, formed as the coordinator forms them.
    Options are typed. Raises MessageError if the coordinator cannot."""
    options: dict[str, Any] = {actor.name: actor.options for actor in topology.actors}
    lead = options[topology.lead]
    if (workers, groups) == (sum(map(len, lead.groups)), len(lead.groups)):
        return topology
    wish = Regroup(workers=workers, groups=groups)
    shares = Shares(lead.shares)
    made = lead.live.groups(wish, lead.groups, shares, lead.timetable.batch)
    options[topology.lead] = dataclasses.replace(lead, groups=tuple(map(tuple, made)))
    for name, place in lead.live.places(made):
        options[name] = _placed(options[name], place)
    actors = tuple(
        dataclasses.replace(actor, options=options[actor.name]) for actor in topology.actors
    )
    return dataclasses.replace(topology, actors=actors)


def at_largest(topology: Topology) -> Topology:
    """The topology with the largest batch that it may have while it runs. Memory and messages are
    planned for that batch."""
    jobs = [options.job for actor in topology.actors if hasattr(options := actor.options, "job")]
    return with_batch(topology, max((job.largest or job.batch for job in jobs), default=0))


def with_batch(topology: Topology, images: int) -> Topology:
    """The topology with `images` images in a group's batch. Options are typed."""
    actors = tuple(
        dataclasses.replace(actor, options=_sized(actor.options, images))
        for actor in topology.actors
    )
    return topology if actors == topology.actors else dataclasses.replace(topology, actors=actors)


def _sized(options: Any, images: int) -> Any:
    parts = {
        name: getattr(options, name) for name in ("job", "timetable") if hasattr(options, name)
    }
    changed = {
        name: dataclasses.replace(part, batch=images)
        for name, part in parts.items()
        if part.batch != images
    }
    return dataclasses.replace(options, **changed) if changed else options


def _placed(options: Any, place: Place) -> Any:
    """The options of a worker or a reducer, with the new route of gradients for the place's
    server."""
    way = {"parent": place.parent, "part": place.part, "parts": place.parts}
    if not hasattr(options, "models"):
        return dataclasses.replace(options, **way)
    models = tuple(
        dataclasses.replace(each, **way) if each.server == place.server else each
        for each in options.models
    )
    return dataclasses.replace(options, models=models)
