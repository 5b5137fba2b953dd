"""Workers that hold the whole net each: one alone, equals that add up their gradients, learners that are averaged."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from roles.exchange.binomial import place_of
from roles.exchange.collective import adders_of
from roles.presets.request import COORDINATOR, Link, Request, coordinator
from runtime.plan.topology import ActorSpec, Topology

ACCUMULATOR, DRIVER = "accumulator", "driver"


def single(request: Request) -> Topology:
    """One worker with the whole net: the reference."""
    actors = (
        coordinator(request, [["single"]], updates=0, servers=["single"]),
        ActorSpec("single", "single", {"job": request.job.to_options(), "coordinator": COORDINATOR}),
    )
    return Topology("roles", actors, ((COORDINATOR, "single"),), COORDINATOR)


def replicas(request: Request) -> Topology:
    """Workers with the whole net each; every one applies the sum of all gradients. No server, staleness 0."""
    names = names_of(request)
    links = [(name, other) for rank, name in enumerate(names) for other in names[rank + 1 :]]
    return equals(request, {"kind": "collective", "members": names, "adders": adders_of(names)}, links)


def firecaffe(request: Request) -> Topology:
    """Synchronous, no server: gradients up a tree of the workers themselves, their sum down again (FireCaffe 6.2)."""
    return equals(request, *tree(names_of(request), request.strategy.fan_in))


def host_accumulate(request: Request) -> Topology:
    """Devices of one machine: gradients are added up in host memory by one actor; every device updates its replica."""
    names, options = names_of(request), {"kind": "host", "accumulator": ACCUMULATOR}
    summing = {"members": names, **request.job.summing}
    links = [(ACCUMULATOR, name) for name in names]
    return equals(request, options, links, [ActorSpec(ACCUMULATOR, "host_accumulator", summing)])


def sparknet(request: Request) -> Topology:
    """Every worker learns by itself; every tau iterations a driver averages their parameters. Histories stay local."""
    names = names_of(request)
    driver = ActorSpec(DRIVER, "host_accumulator", {"members": names, **request.job.summing})
    exchange, links = {"kind": "host", "accumulator": DRIVER}, [(DRIVER, name) for name in names]
    return averaged(request, exchange, links, [driver], histories=False)


def dl4j(request: Request) -> Topology:
    """As sparknet, but the solver's histories are averaged too, and everything is added up in a tree of the workers."""
    names = names_of(request)
    return averaged(request, *tree(names, request.strategy.fan_in), histories=True)


def names_of(request: Request) -> list[str]:
    """The names of the workers, by rank."""
    return [f"replica-{rank}" for rank in range(request.workers)]


def tree(names: list[str], fan_in: int) -> tuple[dict[str, Any], list[Link]]:
    """The exchange in a tree of the workers, and its links."""
    parents = [place_of(rank, len(names), fan_in).parent for rank in range(len(names))]
    links = [(names[parent], name) for parent, name in zip(parents, names, strict=True) if parent is not None]
    return {"kind": "tree", "members": names, "fan_in": fan_in}, links


def equals(
    request: Request, exchange: dict[str, Any], links: Sequence[Link], servers: Sequence[ActorSpec] = ()
) -> Topology:
    """Replicas that sum gradients by an exchange over these links; the state of the first is that of all."""
    options = {"job": request.job.to_options(), "exchange": exchange, "coordinator": COORDINATOR}
    workers = [ActorSpec(name, "replica", options) for name in names_of(request)]
    return _together(request, workers, links, servers, states=1)


def averaged(
    request: Request,
    exchange: dict[str, Any],
    links: Sequence[Link],
    servers: Sequence[ActorSpec] = (),
    *,
    histories: bool,
) -> Topology:
    """Replicas that are averaged by an exchange over these links; what is saved is the mean of their states."""
    own = {"tau": request.strategy.tau, "histories": histories}
    options = {"job": request.job.to_options(), "exchange": exchange, "coordinator": COORDINATOR, **own}
    workers = [ActorSpec(name, "averaging_replica", options) for name in names_of(request)]
    return _together(request, workers, links, servers, states=len(workers))


def _together(
    request: Request, workers: Sequence[ActorSpec], links: Sequence[Link], servers: Sequence[ActorSpec], states: int
) -> Topology:
    """One group of these workers; the first `states` of them are asked for what is saved."""
    names = names_of(request)
    lead = coordinator(request, [names], updates=0, servers=names[:states], holders=names)
    told = [(COORDINATOR, name) for name in names]
    return Topology("roles", (lead, *servers, *workers), (*told, *links), COORDINATOR)
