"""Omnivore and its two ends: conv workers in groups, a conv model server, one server for the whole FC phase."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from roles.model_links import model_link
from roles.presets.request import CONV_MODEL, COORDINATOR, FC_SERVER, Link, Request, coordinator
from roles.tree import Parent, forest, reducers_needed, split
from runtime.topology import ActorSpec, Topology


def omnivore(request: Request) -> Topology:
    """g groups of conv workers, a conv model server, a merged FC server, a reduction tree inside each group."""
    job, shape, strategy = request.job.to_options(), list(request.image_shape), request.strategy
    groups = groups_of(request)
    workers = [name for members in groups for name in members]
    reducers = reducers_of(request)
    places = forest(groups, strategy.fan_in, CONV_MODEL, reducers)
    live = {"workers": workers, "trees": {CONV_MODEL: {"fan_in": strategy.fan_in, "reducers": reducers}}}
    servers = [CONV_MODEL, FC_SERVER]
    actors = [
        coordinator(request, groups, updates=1, servers=servers, live=live if strategy.live else None),
        ActorSpec(CONV_MODEL, "conv_model", {"job": job, "image_shape": shape, "coordinator": COORDINATOR}),
        ActorSpec(FC_SERVER, "fc_server", {"job": job, "image_shape": shape}),
    ]
    links = [(COORDINATOR, CONV_MODEL), (COORDINATOR, FC_SERVER)]
    for name in reducers:
        parent, part, parts = places.get(name, Parent(CONV_MODEL, 0, 1))
        actors.append(ActorSpec(name, "tree_reducer", {"parent": parent, "part": part, "parts": parts}))
    for (group, members), name in ((each, name) for each in enumerate(groups) for name in each[1]):
        peers = {"coordinator": COORDINATOR, "fc_servers": [FC_SERVER]}
        options = {"job": job, "part": "conv", "models": [model_link(CONV_MODEL, places[name])], **peers}
        actors.append(ActorSpec(name, "conv_compute", options, process_of(request, group, members.index(name))))
        links += [(name, peer) for peer in (COORDINATOR, *servers)]
    links += gradient_ways(request, places, CONV_MODEL)
    return Topology("roles", tuple(actors), tuple(dict.fromkeys(links)), COORDINATOR)


def sync(request: Request) -> Topology:
    """All workers in one group: staleness 0, the numbers of a single worker."""
    return omnivore(with_groups(request, 1))


def asynchronous(request: Request) -> Topology:
    """Every worker a group of its own: staleness g - 1 on average."""
    return omnivore(with_groups(request, request.workers))


def with_groups(request: Request, groups: int) -> Request:
    """The same request, in so many groups."""
    return dataclasses.replace(request, strategy=request.strategy.model_copy(update={"groups": groups}))


def groups_of(request: Request) -> list[list[str]]:
    """The names of the workers of each group. A pipeline has as many times the workers, and the groups (Omnivore,
    appendix D.4.2)."""
    sizes = split(request.workers, request.strategy.groups)
    return [
        [f"conv-{group * request.strategy.pipeline + turn}-{rank}" for rank in range(members)]
        for group, members in enumerate(sizes)
        for turn in range(request.strategy.pipeline)
    ]


def process_of(request: Request, group: int, rank: int) -> str:
    """The process that a worker shares with the other groups of its pipeline; empty: none."""
    pipeline = request.strategy.pipeline
    return f"workers-{group // pipeline}-{rank}" if pipeline > 1 else ""


def reducers_of(request: Request) -> list[str]:
    """The names of the reducers for these groups, or where they can be changed, for any."""
    strategy = request.strategy
    workers, groups = strategy.workers * strategy.pipeline, strategy.groups * strategy.pipeline
    shapes = range(1, workers + 1) if strategy.live else [groups]
    needed = max(reducers_needed(workers, groups, strategy.fan_in) for groups in shapes)
    return [f"reducer-{number}" for number in range(needed)]


def gradient_ways(request: Request, places: Mapping[str, Parent], root: str) -> list[Link]:
    """The links that gradients travel, or where groups can be changed, may travel."""
    if not request.strategy.live:
        return [(name, parent.name) for name, parent in places.items()]
    reducers, workers = reducers_of(request), [name for members in groups_of(request) for name in members]
    among = [(one, other) for index, one in enumerate(reducers) for other in reducers[index + 1 :]]
    inward = [(name, reducer) for name in workers for reducer in reducers]
    told = [(COORDINATOR, reducer) for reducer in reducers]
    return [*told, *inward, *among, *((reducer, root) for reducer in reducers)]
