"""How many bytes of arrays the exchanges of replicas carry in one training iteration (`exchange`); see `traffic`.

Replicas that are averaged exchange nothing but in every tau-th iteration: that one is meant.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from roles.exchange.binomial import place_of
from roles.exchange.buckets import buckets_of
from roles.exchange.collective import adding, shares
from roles.forecasting.shapes import Shapes
from roles.messages import Contribution, SharedSum
from runtime.messages.message import Message
from runtime.plan.topology import ActorSpec

Sent = Iterator[tuple[str, type[Message], int | None]]


def replica_sends(actor: ActorSpec, shapes: Shapes) -> Sent:
    """What an exchange of its gradients, or of what is averaged, makes it send, bucket by bucket."""
    for size in sizes_of(actor, shapes):
        yield from SENDS[actor.options["exchange"]["kind"]](actor.name, actor.options["exchange"], size, shapes)


def accumulator_sends(actor: ActorSpec, shapes: Shapes) -> Sent:
    """Every sum, to every member."""
    for name in actor.options["members"]:
        for size in sizes_of(shapes.actors[name], shapes):
            yield name, SharedSum, shapes.number * size


def sizes_of(actor: ActorSpec, shapes: Shapes) -> list[int]:
    """Numbers that a replica exchanges of each bucket: gradients, or parameters and histories."""
    net, averaged = shapes.net(actor, actor.options.get("part", "all")), "tau" in actor.options
    solver, found = shapes.job(actor).solver_spec, []
    for bucket in buckets_of(net):
        params = [param for of in bucket.params.values() for param in of]
        kept = [
            1 + len(solver.new_history(net.ops, param)) * (averaged and bool(actor.options.get("histories")))
            for param in params
        ]
        found.append(sum(math.prod(param.shape) * times for param, times in zip(params, kept, strict=True)))
    return found


def _collective(name: str, options: Mapping[str, Any], size: int, shapes: Shapes) -> Sent:
    members = options["members"]
    rank, shared = members.index(name), adding(shapes.number * size, len(members), options.get("adders"))
    adders = members[: shared or None]
    place = size if shared and not rank else 0  # the first member's memory for the sum
    share = 0
    if shared and name in adders and not shapes.shared_memory:
        low, high = shares(size, len(adders))[rank]
        share = high - low
    for other in adders:
        if other != name:
            yield other, Contribution, shapes.number * (size + place)
            if shared and name in adders:
                yield other, SharedSum, shapes.number * share
    if shared and not rank:
        for other in members[len(adders) :]:
            yield other, SharedSum, shapes.number * size


def _tree(name: str, options: Mapping[str, Any], size: int, shapes: Shapes) -> Sent:
    members = options["members"]
    place = place_of(members.index(name), len(members), options["fan_in"])
    if place.parent is not None:
        yield members[place.parent], Contribution, shapes.number * size
    for children in place.levels:
        for child in children:
            yield members[child], SharedSum, shapes.number * size


def _host(name: str, options: Mapping[str, Any], size: int, shapes: Shapes) -> Sent:
    yield options["accumulator"], Contribution, shapes.number * size


SENDS = {"collective": _collective, "tree": _tree, "host": _host}
