"""Workers that hold the whole net each: one alone, or equals that add up their gradients among themselves."""

from __future__ import annotations

from roles.presets.request import COORDINATOR, Link, Request, coordinator
from runtime.topology import ActorSpec, Topology


def single(request: Request) -> Topology:
    """One worker with the whole net: the reference."""
    actors = (
        coordinator(request, [["single"]], updates=1, servers=["single"]),
        ActorSpec("single", "single", {"job": request.job.to_options(), "coordinator": COORDINATOR}),
    )
    return Topology("roles", actors, ((COORDINATOR, "single"),), COORDINATOR)


def replicas(request: Request) -> Topology:
    """Workers with the whole net each; every one applies the sum of all gradients. No server, staleness 0."""
    names = [f"replica-{rank}" for rank in range(request.workers)]
    actors = [coordinator(request, [names], updates=0, servers=names[:1], holders=names)]
    links: list[Link] = []
    options = {"job": request.job.to_options(), "members": names, "coordinator": COORDINATOR}
    for rank, name in enumerate(names):
        actors.append(ActorSpec(name, "replica", options))
        links += [(COORDINATOR, name), *((name, other) for other in names[rank + 1 :])]
    return Topology("roles", tuple(actors), tuple(links), COORDINATOR)
