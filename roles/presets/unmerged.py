"""Unmerged FC phases: every worker computes the whole net, and model servers hold all parameters,
some layers each.

The systems are MXNet, SINGA, DistBelief (Omnivore, Table 2 and section D.3) and FireCaffe's
parameter server (section 6.1). In a comparison, the difference is that gradients of FC layers
travel like all others and are as stale.
"""

from __future__ import annotations

from dataclasses import replace

from roles.options import Strategy
from roles.presets.groups import Tree, groups_of, live_of, process_of, with_groups
from roles.presets.request import (
    COORDINATOR,
    Preset,
    Request,
    as_chosen,
    as_many_as_workers,
    coordinator,
    keys,
)
from roles.servers.conv_model import ModelOptions
from roles.workers.conv_options import ConvOptions
from roles.workers.model_links import model_link, spread
from runtime.plan.topology import ActorSpec, Link, Topology


def mxnet_sync(request: Request) -> Topology:
    """One group. The servers add up the gradients of its workers, and the workers pull the next
    version layer by layer."""
    return unmerged(request, groups=1, servers=chosen(request.strategy))


def mxnet_async(request: Request) -> Topology:
    """One group for each worker: staleness g - 1 on average, of all layers."""
    return unmerged(request, groups=request.workers, servers=chosen(request.strategy))


def singa(request: Request) -> Topology:
    """g groups, synchronous inside: a reduction tree from each group to each server."""
    strategy = request.strategy
    return unmerged(
        request, groups=strategy.groups, servers=chosen(strategy), fan_in=strategy.fan_in
    )


def distbelief(request: Request) -> Topology:
    """Downpour SGD: asynchronous workers, and a model in shards.

    Each iteration pulls and pushes (n_fetch = n_push = 1).
    """
    return unmerged(request, groups=request.workers, servers=downpour_servers(request.strategy))


def parameter_server(request: Request) -> Topology:
    """FireCaffe's comparison: one server receives all p gradients of an iteration and adds them up
    (equation 3)."""
    return unmerged(request, groups=1, servers=1)


def chosen(strategy: Strategy) -> int:
    """The number of model servers: the key's value, or one."""
    return strategy.servers or 1


def downpour_servers(strategy: Strategy) -> int:
    """The number of shards of the model: the key's value, or two."""
    return strategy.servers or 2


def unmerged(request: Request, *, groups: int, servers: int, fan_in: int | None = None) -> Topology:
    """Workers in `groups`, and `servers` model servers, whose shares of the parameters are as even
    as whole layers allow.

    With a `fan_in`, a group's gradients are summed in a tree on their way to each server. Without
    it, the server adds them up.
    """
    request = with_groups(request, groups)
    job = request.job
    members = groups_of(request)
    shards = {
        f"model-{number}": layers for number, layers in enumerate(spread(request.layers, servers))
    }
    trees = {
        server: Tree(request, server, fan_in, f"-{number}" * (servers > 1))
        for number, server in enumerate(shards)
    }
    live = live_of(request, list(trees.values()))
    model = ModelOptions(
        job=job, image_shape=request.image_shape, coordinator=COORDINATOR, part="all"
    )
    actors = [coordinator(request, members, updates=servers, servers=list(shards), live=live)]
    actors += [
        ActorSpec(name, "conv_model", replace(model, layers=tuple(layers)))
        for name, layers in shards.items()
    ]
    links: list[Link] = [(COORDINATOR, name) for name in shards]
    for tree in trees.values():
        actors += tree.actors()
        links += tree.links()
    for (group, names), name in ((each, name) for each in enumerate(members) for name in each[1]):
        models = tuple(
            model_link(server, trees[server].places[name], layers)
            for server, layers in shards.items()
        )
        options = ConvOptions(job=job, part="all", coordinator=COORDINATOR, models=models)
        actors.append(
            ActorSpec(name, "conv_compute", options, process_of(request, group, names.index(name)))
        )
        links += [(name, peer) for peer in (COORDINATOR, *shards)]
    return Topology("roles", tuple(actors), tuple(dict.fromkeys(links)), COORDINATOR)


APART = keys("workers servers live pipeline"), keys("shares")  # for groups of one worker
MXNET_SYNC = Preset(
    mxnet_sync,
    keys("workers servers shares live pipeline"),
    part="all",
    joint=True,
    servers=chosen,
    equals_single=True,
)
MXNET_ASYNC = Preset(
    mxnet_async, *APART, part="all", joint=True, groups=as_many_as_workers, servers=chosen
)
SINGA = Preset(
    singa,
    keys("workers groups servers fan_in shares live pipeline"),
    part="all",
    joint=True,
    groups=as_chosen,
    servers=chosen,
    equals_single=True,
    compensates=True,
)
DISTBELIEF = Preset(
    distbelief, *APART, part="all", joint=True, groups=as_many_as_workers, servers=downpour_servers
)
PARAMETER_SERVER = Preset(
    parameter_server,
    keys("workers shares live pipeline"),
    part="all",
    joint=True,
    equals_single=True,
)
