"""Workers that hold the whole net each: one alone, or equals that add up their gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from roles.binomial import place_of
from roles.presets.request import COORDINATOR, Link, Request, coordinator
from runtime.topology import ActorSpec, Topology

ACCUMULATOR = "accumulator"


def single(request: Request) -> Topology:
    """One worker with the whole net: the reference."""
    actors = (
        coordinator(request, [["single"]], updates=1, servers=["single"]),
        ActorSpec("single", "single", {"job": request.job.to_options(), "coordinator": COORDINATOR}),
    )
    return Topology("roles", actors, ((COORDINATOR, "single"),), COORDINATOR)


def replicas(request: Request) -> Topology:
    """Workers with the whole net each; every one applies the sum of all gradients. No server, staleness 0."""
    names = names_of(request)
    links = [(name, other) for rank, name in enumerate(names) for other in names[rank + 1 :]]
    return equals(request, {"kind": "collective", "members": names}, links)


def firecaffe(request: Request) -> Topology:
    """Synchronous, no server: gradients up a tree of the workers themselves, their sum down again (FireCaffe 6.2)."""
    names, fan_in = names_of(request), request.strategy.fan_in
    parents = [place_of(rank, len(names), fan_in).parent for rank in range(len(names))]
    links = [(names[parent], name) for parent, name in zip(parents, names, strict=True) if parent is not None]
    return equals(request, {"kind": "tree", "members": names, "fan_in": fan_in}, links)


def host_accumulate(request: Request) -> Topology:
    """Devices of one machine: gradients are added up in host memory by one actor; every device updates its replica."""
    names, options = names_of(request), {"kind": "host", "accumulator": ACCUMULATOR}
    summing = {"members": names, "kernels": request.job.kernels}
    links = [(ACCUMULATOR, name) for name in names]
    return equals(request, options, links, [ActorSpec(ACCUMULATOR, "host_accumulator", summing)])


def names_of(request: Request) -> list[str]:
    """The names of the workers, by rank."""
    return [f"replica-{rank}" for rank in range(request.workers)]


def equals(
    request: Request, exchange: dict[str, Any], links: Sequence[Link], servers: Sequence[ActorSpec] = ()
) -> Topology:
    """Replicas that sum by an exchange over these links; they are equal, so the first one's state is that of all."""
    names = names_of(request)
    options = {"job": request.job.to_options(), "exchange": exchange, "coordinator": COORDINATOR}
    actors = (
        coordinator(request, [names], updates=0, servers=names[:1], holders=names),
        *servers,
        *(ActorSpec(name, "replica", options) for name in names),
    )
    return Topology("roles", actors, (*((COORDINATOR, name) for name in names), *links), COORDINATOR)
