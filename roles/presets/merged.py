"""Omnivore, its two ends and Project Adam: conv workers in groups, a conv model server, one server for the whole FC
phase."""

from __future__ import annotations

import dataclasses

from roles.presets.groups import Tree, groups_of, live_of, process_of, with_groups
from roles.presets.request import CONV_MODEL, COORDINATOR, FC_SERVER, Request, coordinator
from roles.workers.model_links import model_link
from runtime.plan.topology import ActorSpec, Topology


def omnivore(request: Request) -> Topology:
    """g groups of conv workers, a conv model server, a merged FC server, a reduction tree inside each group."""
    job, shape, servers = request.job.to_options(), list(request.image_shape), [CONV_MODEL, FC_SERVER]
    groups, tree = groups_of(request), Tree(request, CONV_MODEL, request.strategy.fan_in)
    actors = [
        coordinator(request, groups, updates=1, servers=servers, live=live_of(request, [tree])),
        ActorSpec(CONV_MODEL, "conv_model", {"job": job, "image_shape": shape, "coordinator": COORDINATOR}),
        ActorSpec(FC_SERVER, "fc_server", {"job": job, "image_shape": shape}),
        *tree.actors(),
    ]
    links = [(COORDINATOR, CONV_MODEL), (COORDINATOR, FC_SERVER), *tree.links()]
    for (group, members), name in ((each, name) for each in enumerate(groups) for name in each[1]):
        peers = {"coordinator": COORDINATOR, "fc_servers": [FC_SERVER]}
        options = {"job": job, "part": "conv", "models": [model_link(CONV_MODEL, tree.places[name])], **peers}
        actors.append(ActorSpec(name, "conv_compute", options, process_of(request, group, members.index(name))))
        links += [(name, peer) for peer in (COORDINATOR, *servers)]
    return Topology("roles", tuple(actors), tuple(dict.fromkeys(links)), COORDINATOR)


def sync(request: Request) -> Topology:
    """All workers in one group: staleness 0, the numbers of a single worker."""
    return omnivore(with_groups(request, 1))


def asynchronous(request: Request) -> Topology:
    """Every worker a group of its own: staleness g - 1 on average."""
    return omnivore(with_groups(request, request.workers))


def adam(request: Request) -> Topology:
    """Project Adam: as omnivore, but the updates of different groups race over the conv model (hogwild)."""
    topology = omnivore(request)
    actors = tuple(
        dataclasses.replace(actor, options={**actor.options, "hogwild": True}) if actor.name == CONV_MODEL else actor
        for actor in topology.actors
    )
    return dataclasses.replace(topology, actors=actors)
