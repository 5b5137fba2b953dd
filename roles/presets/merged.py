"""Omnivore, its two ends and Project Adam: conv workers in groups, a conv model server, one server for the whole FC
phase."""

from __future__ import annotations

import dataclasses
from typing import Any

from roles.model_links import model_link
from roles.presets.request import CONV_MODEL, COORDINATOR, FC_SERVER, Link, Request, coordinator
from roles.tree import parents, reduction_tree, split
from runtime.topology import ActorSpec, Topology


def omnivore(request: Request) -> Topology:
    """g groups of conv workers, a conv model server, a merged FC server, a reduction tree inside each group."""
    job, shape = request.job.to_options(), list(request.image_shape)
    groups = groups_of(request)
    model = {"job": job, "image_shape": shape, "coordinator": COORDINATOR}
    actors = [
        coordinator(request, groups, updates=1, servers=[CONV_MODEL, FC_SERVER]),
        ActorSpec(CONV_MODEL, "conv_model", model),
        ActorSpec(FC_SERVER, "fc_server", {"job": job, "image_shape": shape}),
    ]
    links = [(COORDINATOR, CONV_MODEL), (COORDINATOR, FC_SERVER)]
    peers = {"coordinator": COORDINATOR, "fc_servers": [FC_SERVER]}
    for group, members in enumerate(groups):
        places = tree(actors, links, members, request.strategy.fan_in, CONV_MODEL, f"reducer-{group}")
        for name in members:
            options: dict[str, Any] = {"job": job, "part": "conv", **peers}
            options["models"] = [model_link(CONV_MODEL, places[name])]
            actors.append(ActorSpec(name, "conv_compute", options))
            parent = places[name].name
            links += [(name, peer) for peer in dict.fromkeys((COORDINATOR, CONV_MODEL, FC_SERVER, parent))]
    return Topology("roles", tuple(actors), tuple(links), COORDINATOR)


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


def with_groups(request: Request, groups: int) -> Request:
    """The same request, in so many groups."""
    return dataclasses.replace(request, strategy=request.strategy.model_copy(update={"groups": groups}))


def groups_of(request: Request) -> list[list[str]]:
    """The names of the workers of each group."""
    sizes = split(request.workers, request.strategy.groups)
    return [[f"conv-{group}-{rank}" for rank in range(members)] for group, members in enumerate(sizes)]


def tree(
    actors: list[ActorSpec], links: list[Link], leaves: list[str], fan_in: int, root: str, prefix: str
) -> dict[str, Any]:
    """Add a reduction tree's actors and links; the parent of each of its nodes and leaves."""
    reducers = reduction_tree(leaves, fan_in, root, prefix)
    places = parents(leaves, reducers, root)
    for reducer in reducers:
        name, part, parts = places[reducer.name]
        actors.append(ActorSpec(reducer.name, "tree_reducer", {"parent": name, "part": part, "parts": parts}))
        links.append((reducer.name, name))
    return places
