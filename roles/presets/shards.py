"""The FC phase on n servers, each with a share of its units: beside Omnivore's conv workers, or on the workers.

One weird trick (section 4) gives every worker both: a replica of the conv phase and a shard of the FC phase.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from roles.exchange.collective import adders_of
from roles.options import Strategy
from roles.presets.merged import omnivore
from roles.presets.request import CONV_MODEL, COORDINATOR, FC_SERVER, Link, Request, coordinator
from runtime.plan.topology import ActorSpec, Topology


def fc_servers(strategy: Strategy) -> int:
    """Those of local-fc-shards."""
    return strategy.servers or 2


def local_fc_shards(request: Request) -> Topology:
    """Omnivore with the FC phase on several servers (Omnivore D.4.2)."""
    plain = omnivore(request)
    shards = [f"fc-{rank}" for rank in range(fc_servers(request.strategy))]
    changes: dict[str, dict[str, Any]] = {
        "coordinator": {"servers": [CONV_MODEL, *shards], "holders": [CONV_MODEL, *shards]},
        "conv_compute": {"fc_servers": shards, "scheme": request.strategy.scheme},
    }
    actors = [
        dataclasses.replace(actor, options={**actor.options, **changes.get(actor.role, {})})
        for actor in plain.actors
        if actor.name != FC_SERVER
    ]
    actors += [_shard(request, name, shards) for name in shards]
    links = [link for link in plain.links if FC_SERVER not in link]
    links += [(a, shard) for a, b in plain.links if b == FC_SERVER for shard in shards]
    return Topology("roles", tuple(actors), (*links, *_pairs(shards)), COORDINATOR)


def one_weird_trick(request: Request) -> Topology:
    """K workers, each with a replica of the conv phase and 1/K of the FC phase's units, in one process."""
    ranks = range(request.workers)
    workers, shards = [f"worker-{rank}" for rank in ranks], [f"fc-{rank}" for rank in ranks]
    options = {
        "job": request.job.to_options(),
        "part": "conv",
        "exchange": {"kind": "collective", "members": workers, "adders": adders_of(workers)},
        "coordinator": COORDINATOR,
        "fc_servers": shards,
        "scheme": request.strategy.scheme,
    }
    state, holders = [workers[0], *shards], [*workers, *shards]
    actors = [coordinator(request, [workers], updates=0, servers=state, holders=holders)]
    actors += [ActorSpec(name, "conv_replica", options, process=name) for name in workers]
    actors += [_shard(request, shards[rank], shards, process=workers[rank]) for rank in ranks]
    links = [(COORDINATOR, name) for name in (*workers, *shards)]
    links += [(worker, shard) for worker in workers for shard in shards]
    return Topology("roles", tuple(actors), (*links, *_pairs(workers), *_pairs(shards)), COORDINATOR)


def _shard(request: Request, name: str, shards: Sequence[str], process: str = "") -> ActorSpec:
    options = {
        "job": request.job.to_options(),
        "image_shape": list(request.image_shape),
        "shards": list(shards),
        "scheme": request.strategy.scheme,
        "variable_batch": request.strategy.variable_batch,
    }
    return ActorSpec(name, "fc_shard", options, process)


def _pairs(names: Sequence[str]) -> list[Link]:
    return [(a, b) for index, a in enumerate(names) for b in names[index + 1 :]]
