"""How many bytes of arrays each link carries in one training iteration, exactly, from the topology and the net.

RULES states for each role what its actors send: one function from an actor and the topology's shapes to bytes by
receiver and kind of message. An iteration is one of the link's own group; groups cut batches into equal shares. What
`metrics` counts as payload (`convoy_payload_bytes_received_total`) is the same bytes, whatever the road.
What never lives here: tests, checkpoints, messages without arrays.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from nets import Net
from ops.reference.compression import F32, HALVES, one_bit_shapes
from roles.forecasting.shapes import Shapes, way_to
from roles.forecasting.traffic_sums import accumulator_sends, replica_sends
from roles.learning.wire_formats import PLAIN, Layers, plain_of
from roles.messages import ActivationGrads, Activations, ActivationSlice, Columns, LayerGradient, LayerModel
from runtime.messages.message import Message
from runtime.plan.topology import ActorSpec, Topology

Bytes = int | None  # None: it depends on the numbers
Sent = Iterator[tuple[str, type[Message], Bytes]]  # receiver, what, how much
Rule = Callable[[ActorSpec, Shapes], Sent]
Traffic = dict[tuple[str, str], dict[str, Bytes]]


def traffic(topology: Topology, rules: Mapping[str, Rule] | None = None, *, shared_memory: bool = True) -> Traffic:
    """(sender, receiver) -> kind of message -> bytes of arrays in one training iteration of theirs; None where that
    depends on the numbers. `rules` are RULES unless given; `shared_memory`: members of a collective share theirs.
    """
    return traffic_of(Shapes(topology, shared_memory), RULES if rules is None else rules)


def traffic_of(shapes: Shapes, rules: Mapping[str, Rule]) -> Traffic:
    """The same, of a topology whose shapes are known."""
    found = Traffic()
    for actor in shapes.topology.actors:
        rule = rules.get(actor.role)
        for receiver, message, size in rule(actor, shapes) if rule is not None else ():
            kinds = found.setdefault((actor.name, receiver), {})
            before = kinds.get(message.__name__, 0)
            kinds[message.__name__] = None if size is None or before is None else before + size
    return found


def worker_sends(actor: ActorSpec, shapes: Shapes) -> Sent:
    """Activations to whoever computes the FC phase, each layer's gradient to its parent."""
    part, rows = actor.options["part"], shapes.rows(actor.name)
    told = ActivationSlice if actor.options.get("scheme") else Activations
    for server in actor.options["fc_servers"]:
        yield server, told, crossing(shapes.net(actor, part), rows)
    for way in actor.options.get("models", ()):
        layers = shapes.layers(actor, part, way["layers"])
        yield way["parent"], LayerGradient, encoded(layers, way.get("wire", PLAIN))


def model_sends(actor: ActorSpec, shapes: Shapes) -> Sent:
    """Its layers to every worker that names it."""
    for worker in shapes.having("models"):
        way = way_to(worker.options, actor.name)
        if way is not None:
            layers = shapes.layers(worker, worker.options["part"], way["layers"])
            yield worker.name, LayerModel, shapes.size(layers)


def fc_sends(actor: ActorSpec, shapes: Shapes) -> Sent:
    """To every worker that names it the gradients of what it sent."""
    for worker in shapes.having("fc_servers"):
        if actor.name in worker.options["fc_servers"]:
            net = shapes.net(worker, worker.options["part"])
            yield worker.name, ActivationGrads, crossing(net, shapes.rows(worker.name), back=True)


def shard_sends(actor: ActorSpec, shapes: Shapes) -> Sent:
    """As an FC server, and to every other shard its columns and its parts of their gradients."""
    yield from fc_sends(actor, shapes)
    net, rows = shapes.shard(actor), shapes.rows(actor.name)
    for rank, other in enumerate(actor.options["shards"]):
        if other != actor.name:
            sent = [net.sent(link, rank) for link in range(net.last)]
            yield other, Columns, shapes.number * sum(rows * wide + fixed for wide, fixed in sent)


def conv_replica_sends(actor: ActorSpec, shapes: Shapes) -> Sent:
    """What a worker and a replica send, of the conv phase."""
    yield from worker_sends(actor, shapes)
    yield from replica_sends(actor, shapes)


def reducer_sends(actor: ActorSpec, shapes: Shapes) -> Sent:
    """The sum of what came to it, in its own format."""
    layers = _arriving(actor.name, shapes)
    if not layers:
        return  # kept for other groups than these
    yield actor.options["parent"], LayerGradient, encoded(layers, actor.options.get("wire", PLAIN))


RULES: dict[str, Rule] = {
    "conv_compute": worker_sends,
    "conv_model": model_sends,
    "conv_replica": conv_replica_sends,
    "fc_server": fc_sends,
    "fc_shard": shard_sends,
    "tree_reducer": reducer_sends,
    "replica": replica_sends,
    "averaging_replica": replica_sends,
    "host_accumulator": accumulator_sends,
}


def crossing(net: Net, rows: int, *, back: bool = False) -> int:
    """Bytes that cross the cut for so many rows: the blobs of a conv part, or the gradients that come back."""
    shapes = net.boundary_shapes
    names = net.boundary_grads if back else net.boundary
    number: int = net.dtype.itemsize
    return number * rows * sum(math.prod(shapes[name][1:]) for name in names)


def encoded(layers: Layers, wire: Mapping[str, Any]) -> Bytes:
    """Bytes of the gradients of these layers in a wire format; None with "threshold"."""
    return _sum(_blob(math.prod(shape), learned, wire) for blobs in layers.values() for shape, learned in blobs)


def _blob(size: int, learned: bool, wire: Mapping[str, Any]) -> Bytes:
    name = wire["format"] if learned else plain_of(wire["format"])
    if name == "threshold":
        return None
    if name == "one-bit":
        signs, means = one_bit_shapes(size, wire["block"])
        return math.prod(signs) + F32.itemsize * math.prod(means)
    return size * (HALVES[name] if name in HALVES else np.dtype(name)).itemsize


def _arriving(reducer: str, shapes: Shapes) -> Layers:
    """The layers whose gradients come to a reducer: those of any child."""
    for actor in shapes.topology.actors:
        for way in actor.options.get("models", ()):
            if way["parent"] == reducer:
                return shapes.layers(actor, actor.options["part"], way["layers"])
        if actor.options.get("parent") == reducer:
            return _arriving(actor.name, shapes)
    return {}


def _sum(sizes: Iterator[Bytes]) -> Bytes:
    known, counted = itertools.tee(sizes)
    return None if any(size is None for size in known) else sum(size or 0 for size in counted)
