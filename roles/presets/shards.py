"""The FC phase on n servers, each with a share of its units, next to Omnivore's conv workers or on
the workers.

One weird trick (section 4) gives every worker both a replica of the conv phase and a shard of the
FC phase.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from typing import Any

from roles.coordination.coordinator import CoordinatorOptions
from roles.fc.shard import ShardOptions
from roles.options import Strategy
from roles.presets.merged import OF_GROUPS, omnivore
from roles.presets.request import (
    CONV_MODEL,
    COORDINATOR,
    FC_SERVER,
    Preset,
    Request,
    as_chosen,
    as_many_as_workers,
    coordinator,
    keys,
)
from roles.workers.conv_options import ConvOptions
from roles.workers.conv_replica import ConvReplicaOptions
from runtime.plan.topology import ActorSpec, Link, Topology


def fc_servers(strategy: Strategy) -> int:
    """The number of FC servers of local-fc-shards: the key's value, or two."""
    return strategy.servers or 2


def local_fc_shards(request: Request) -> Topology:
    """Omnivore with the FC phase on several servers (Omnivore D.4.2)."""
    plain = omnivore(request)
    shards = tuple(f"fc-{rank}" for rank in range(fc_servers(request.strategy)))

    def told(options: Any) -> Any:
        if isinstance(options, CoordinatorOptions):
            return dataclasses.replace(
                options, servers=(CONV_MODEL, *shards), holders=(CONV_MODEL, *shards)
            )
        if isinstance(options, ConvOptions):
            return dataclasses.replace(options, fc_servers=shards, scheme=request.strategy.scheme)
        return options

    actors = [
        dataclasses.replace(actor, options=told(actor.options))
        for actor in plain.actors
        if actor.name != FC_SERVER
    ]
    actors += [_shard(request, name, shards) for name in shards]
    links = [link for link in plain.links if FC_SERVER not in link]
    links += [(a, shard) for a, b in plain.links if b == FC_SERVER for shard in shards]
    return Topology("roles", tuple(actors), (*links, *_pairs(shards)), COORDINATOR)


def one_weird_trick(request: Request) -> Topology:
    """K workers, each with a replica of the conv phase and 1/K of the FC phase's units, in one
    process."""
    ranks = range(request.workers)
    workers = [f"worker-{rank}" for rank in ranks]
    shards = tuple(f"fc-{rank}" for rank in ranks)
    chosen, layout = request.exchanged(workers)
    options = ConvReplicaOptions(
        job=request.job,
        part="conv",
        exchange=chosen,
        coordinator=COORDINATOR,
        fc_servers=shards,
        scheme=request.strategy.scheme,
    )
    state = [workers[0], *shards]
    holders = [*workers, *shards]
    actors = [
        coordinator(request, [workers], updates=0, servers=state, holders=holders),
        *layout.servers,
    ]
    actors += [ActorSpec(name, "conv_replica", options, process=name) for name in workers]
    actors += [_shard(request, shards[rank], shards, process=workers[rank]) for rank in ranks]
    links = [(COORDINATOR, name) for name in (*workers, *shards)]
    links += [(worker, shard) for worker in workers for shard in shards]
    return Topology("roles", tuple(actors), (*links, *layout.links, *_pairs(shards)), COORDINATOR)


def _shard(request: Request, name: str, shards: tuple[str, ...], process: str = "") -> ActorSpec:
    options = ShardOptions(
        job=request.job,
        image_shape=request.image_shape,
        shards=shards,
        scheme=request.strategy.scheme,
        variable_batch=request.strategy.variable_batch,
        beside_workers=bool(process),
    )
    return ActorSpec(name, "fc_shard", options, process)


def _pairs(names: Sequence[str]) -> list[Link]:
    return list(itertools.combinations(names, 2))


LOCAL_FC_SHARDS = Preset(
    local_fc_shards,
    OF_GROUPS | keys("servers scheme variable_batch"),
    joint=True,
    groups=as_chosen,
    servers=fc_servers,
    shards=fc_servers,
    equals_single=True,
    compensates=True,
)
ONE_WEIRD_TRICK = Preset(
    one_weird_trick,
    keys("workers shares exchange fan_in between scheme variable_batch"),
    joint=True,
    shards=as_many_as_workers,
    exchange="collective",
    equals_single=True,
)
