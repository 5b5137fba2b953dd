"""Omnivore, its two ends and Project Adam: conv workers in groups, a conv model server, and one
server for the whole FC phase."""

from __future__ import annotations

from functools import partial

from roles.fc.server import FcOptions
from roles.presets.groups import Tree, groups_of, live_of, process_of, with_groups
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
from roles.servers.conv_model import ModelOptions
from roles.workers.conv_options import ConvOptions
from roles.workers.model_links import model_link
from runtime.plan.topology import ActorSpec, Topology


def omnivore(request: Request, *, hogwild: bool = False) -> Topology:
    """g groups of conv workers, a conv model server, a merged FC server, and a reduction tree in
    each group."""
    job = request.job
    shape = request.image_shape
    servers = [CONV_MODEL, FC_SERVER]
    groups = groups_of(request)
    tree = Tree(request, CONV_MODEL, request.strategy.fan_in)
    model = ModelOptions(job=job, image_shape=shape, coordinator=COORDINATOR, hogwild=hogwild)
    actors = [
        coordinator(request, groups, updates=1, servers=servers, live=live_of(request, [tree])),
        ActorSpec(CONV_MODEL, "conv_model", model),
        ActorSpec(FC_SERVER, "fc_server", FcOptions(job=job, image_shape=shape)),
        *tree.actors(),
    ]
    links = [(COORDINATOR, CONV_MODEL), (COORDINATOR, FC_SERVER), *tree.links()]
    for (group, members), name in ((each, name) for each in enumerate(groups) for name in each[1]):
        ways = (model_link(CONV_MODEL, tree.places[name]),)
        options = ConvOptions(
            job=job, part="conv", coordinator=COORDINATOR, models=ways, fc_servers=(FC_SERVER,)
        )
        actors.append(
            ActorSpec(
                name, "conv_compute", options, process_of(request, group, members.index(name))
            )
        )
        links += [(name, peer) for peer in (COORDINATOR, *servers)]
    return Topology("roles", tuple(actors), tuple(dict.fromkeys(links)), COORDINATOR)


def sync(request: Request) -> Topology:
    """All workers in one group: staleness 0, the same numbers as one worker."""
    return omnivore(with_groups(request, 1))


def asynchronous(request: Request) -> Topology:
    """One group for each worker: staleness g - 1 on average."""
    return omnivore(with_groups(request, request.workers))


def adam(request: Request) -> Topology:
    """Project Adam: as omnivore, but the updates of different groups race over the conv model
    (hogwild)."""
    return omnivore(request, hogwild=True)


OF_GROUPS = keys("workers groups fan_in shares live pipeline")
# groups of one worker do not cut batches and have no tree, until the groups are changed
NORM = partial(Preset, joint=True)  # the conv model and the FC server share the norm
OMNIVORE = NORM(omnivore, OF_GROUPS, groups=as_chosen, equals_single=True, compensates=True)
SYNC = NORM(sync, keys("workers fan_in shares live pipeline"), equals_single=True)
ASYNC = NORM(
    asynchronous, keys("workers live pipeline"), keys("fan_in shares"), groups=as_many_as_workers
)
ADAM = NORM(adam, OF_GROUPS, groups=as_chosen, races=True, compensates=True)
