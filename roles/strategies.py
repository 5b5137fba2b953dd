"""Presets: each a function from a job and its options to a topology. A strategy is data; the roles do not know it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from roles.job import Job
from roles.schedule import Timetable
from roles.tree import parent_of, reduction_tree, split
from runtime.topology import ActorSpec, Topology

COORDINATOR, CONV_MODEL, FC_SERVER = "coordinator", "conv_model", "fc_server"


@dataclass(frozen=True)
class Request:
    """What a preset is asked to lay out: `workers` conv workers in `groups` groups, trees of `fan_in`."""

    job: Job
    timetable: Timetable
    display: int
    image_shape: tuple[int, int, int]
    workers: int
    groups: int
    fan_in: int


def omnivore(request: Request) -> Topology:
    """g groups of conv workers, a conv model server, a merged FC server, a reduction tree inside each group."""
    job, sizes = request.job.to_options(), split(request.workers, request.groups)
    shape = list(request.image_shape)
    actors = [
        _coordinator(request, sizes, updates=1, servers=[CONV_MODEL, FC_SERVER]),
        ActorSpec(
            CONV_MODEL,
            "conv_model",
            {"job": job, "image_shape": shape, "groups": sizes, "coordinator": COORDINATOR},
        ),
        ActorSpec(FC_SERVER, "fc_server", {"job": job, "image_shape": shape, "groups": sizes}),
    ]
    links = [(COORDINATOR, CONV_MODEL), (COORDINATOR, FC_SERVER)]
    for group, members in enumerate(sizes):
        names = [f"conv-{group}-{rank}" for rank in range(members)]
        tree = reduction_tree(names, request.fan_in, CONV_MODEL, f"reducer-{group}")
        for reducer in tree:
            options: dict[str, Any] = {"children": list(reducer.children), "parent": reducer.parent}
            actors.append(ActorSpec(reducer.name, "tree_reducer", options))
            links.append((reducer.name, reducer.parent))
        for rank, name in enumerate(names):
            parent = parent_of(name, tree, CONV_MODEL)
            place = {"group": group, "rank": rank, "members": members, "parent": parent}
            peers = {"coordinator": COORDINATOR, "conv_model": CONV_MODEL, "fc_server": FC_SERVER}
            actors.append(ActorSpec(name, "conv_compute", {"job": job, **place, **peers}))
            links += [(name, peer) for peer in dict.fromkeys((*peers.values(), parent))]
    return Topology("roles", tuple(actors), tuple(links), COORDINATOR)


def sync(request: Request) -> Topology:
    """All workers in one group: staleness 0, the numbers of a single worker."""
    return omnivore(dataclasses.replace(request, groups=1))


def asynchronous(request: Request) -> Topology:
    """Every worker a group of its own: staleness g - 1 on average."""
    return omnivore(dataclasses.replace(request, groups=request.workers))


def single(request: Request) -> Topology:
    """One worker with the whole net: the reference."""
    job = request.job.to_options()
    actors = (
        _coordinator(request, [1], updates=1, servers=["single"]),
        ActorSpec("single", "single", {"job": job, "coordinator": COORDINATOR}),
    )
    return Topology("roles", actors, ((COORDINATOR, "single"),), COORDINATOR)


def replicas(request: Request) -> Topology:
    """Workers with the whole net each; every one applies the sum of all gradients. No server, staleness 0."""
    job = request.job.to_options()
    names = [f"replica-{rank}" for rank in range(request.workers)]
    actors = [_coordinator(request, [request.workers], updates=0, servers=names[:1])]
    links = []
    for rank, name in enumerate(names):
        options = {"job": job, "rank": rank, "members": names, "coordinator": COORDINATOR}
        actors.append(ActorSpec(name, "replica", options))
        links += [(COORDINATOR, name), *((name, other) for other in names[rank + 1 :])]
    return Topology("roles", tuple(actors), tuple(links), COORDINATOR)


PRESETS: dict[str, Callable[[Request], Topology]] = {
    "single": single,
    "sync": sync,
    "async": asynchronous,
    "omnivore": omnivore,
    "replicas": replicas,
}


def _coordinator(request: Request, sizes: list[int], updates: int, servers: list[str]) -> ActorSpec:
    options = {
        "job": request.job.to_options(),
        "timetable": dataclasses.asdict(request.timetable),
        "groups": sizes,
        "updates": updates,
        "servers": servers,
        "display": request.display,
    }
    return ActorSpec(COORDINATOR, "coordinator", options)
