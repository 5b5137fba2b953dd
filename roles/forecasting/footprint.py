"""How many bytes of arrays each actor holds, from the nets' plans: for `plan`, before anything is allocated.

Not counted: the interpreter and its libraries, rows that are read ahead, messages under way, and what of a published
model its readers still hold.
"""

from __future__ import annotations

from collections.abc import Callable

from roles.forecasting.shapes import Shapes
from roles.forecasting.traffic_sums import sizes_of
from roles.learning.wire_formats import Layers
from runtime.plan.topology import ActorSpec

Held = dict[str, int]  # what for -> bytes
Rule = Callable[[ActorSpec, Shapes], Held]


def footprint(shapes: Shapes) -> dict[str, Held]:
    """Actor -> what for -> bytes; actors that hold next to nothing, or whose role is not known here, are missing."""
    return {actor.name: RULES[actor.role](actor, shapes) for actor in shapes.topology.actors if actor.role in RULES}


def _passes(actor: ActorSpec, shapes: Shapes, part: str, *, shared: bool) -> Held:
    """The arrays of a pass in each phase, on the worker's share of the rows or on all of them."""
    rows = {phase: shapes.rows(actor.name, phase) if shared else 0 for phase in shapes.phases(actor)}
    nets = [shapes.net(actor, part, rows[phase], phase) for phase in rows]
    found = {"activations": sum(net.memory_plan.size for net in nets)}
    scratch = max(net.scratch for net in nets)
    return found | ({"scratch": scratch} if scratch else {})


def _model(actor: ActorSpec, shapes: Shapes, layers: Layers) -> Held:
    """Parameters, and what the solver keeps beside each."""
    solver = shapes.job(actor).solver_spec
    net = shapes.net(actor, "all")
    learned = next(param for params in net.params.values() for param in params if param.keep is None)
    histories = len(solver.new_history(net.ops, learned))
    size = shapes.size(layers)
    return {"parameters": size} | ({"history": histories * size} if histories else {})


def _worker(actor: ActorSpec, shapes: Shapes) -> Held:
    part = actor.options["part"]
    held = _passes(actor, shapes, part, shared=True)
    return held | {"gradients": shapes.size(shapes.layers(actor, part))}


def _server(actor: ActorSpec, shapes: Shapes) -> Held:
    return _model(actor, shapes, shapes.layers(actor, actor.options.get("part", "conv"), actor.options.get("layers")))


def _fc(actor: ActorSpec, shapes: Shapes) -> Held:
    layers = shapes.layers(actor, "fc")
    held = _passes(actor, shapes, "fc", shared=False) | {"gradients": shapes.size(layers)}
    return held | _model(actor, shapes, layers)


def _shard(actor: ActorSpec, shapes: Shapes) -> Held:
    """An FC shard: passes on all rows, its own units' parameters; a second set of gradients where several FC batches
    are added up."""
    shards = [shapes.shard(actor, phase) for phase in shapes.phases(actor)]
    nets = [net for shard in shards for net in shard.nets]
    layers = {name: [(p.shape, p.keep is None) for p in params] for name, params in shards[0].params.items()}
    sets = 1 if actor.options["scheme"] == "a" or actor.options["variable_batch"] else 2
    held = {"activations": sum(net.memory_plan.size for net in nets), "gradients": sets * shapes.size(layers)}
    scratch = max(net.scratch for net in nets)
    return held | ({"scratch": scratch} if scratch else {}) | _model(actor, shapes, layers)


def _conv_replica(actor: ActorSpec, shapes: Shapes) -> Held:
    layers = shapes.layers(actor, "conv")
    size = shapes.size(layers)
    return (
        _passes(actor, shapes, "conv", shared=True) | {"gradients": size, "sums": size} | _model(actor, shapes, layers)
    )


def _whole(actor: ActorSpec, shapes: Shapes) -> Held:
    layers = shapes.layers(actor, "all")
    held = _passes(actor, shapes, "all", shared=True) | {"gradients": shapes.size(layers)}
    return held | _model(actor, shapes, layers)


def _replica(actor: ActorSpec, shapes: Shapes) -> Held:
    return _whole(actor, shapes) | {"sums": shapes.number * sum(sizes_of(actor, shapes))}


def _accumulator(actor: ActorSpec, shapes: Shapes) -> Held:
    return {"sums": shapes.number * sum(sizes_of(shapes.actors[actor.options["members"][0]], shapes))}


def _reducer(actor: ActorSpec, shapes: Shapes) -> Held:
    return {"sums": shapes.size(actor.options["layers"])}


RULES: dict[str, Rule] = {
    "averaging_replica": _replica,
    "conv_compute": _worker,
    "conv_model": _server,
    "conv_replica": _conv_replica,
    "fc_server": _fc,
    "fc_shard": _shard,
    "host_accumulator": _accumulator,
    "replica": _replica,
    "single": _whole,
    "tree_reducer": _reducer,
}
