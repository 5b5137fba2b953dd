"""The steps of a conv model server in an iteration (`ConvModel`)."""

from __future__ import annotations

from roles.base.shapes import Shapes
from roles.base.sizes import children
from roles.base.steps import HANDLED, Sending, Step, Steps, Turn, Work
from roles.learning.job import Job


def served(job: Job, part: str, name: str, shapes: Shapes, turn: Turn, *, races: bool) -> Steps:
    """The steps of a server for one group.

    A layer is published to each member that asks, once the group's last update is in. Every part of
    its gradient is a piece of work. `races`: updates of different groups do not wait for one
    another.
    """
    parts: dict[str, list[str]] = {}
    for child, layers in children(name, shapes, turn.members):
        for layer in layers:
            parts.setdefault(layer, []).append(child)
    ways = {m: way for m in turn.members for way in shapes.options[m].models if way.server == name}
    for layer, senders in parts.items():
        size = shapes.size(shapes.layers(job, part, (layer,)))
        for member in ways:
            heard = (name, "heard", layer, member)
            model = Sending((member,), size)
            yield Step(heard, HANDLED, ((member, "PullLayer", layer),))
            yield Step(
                (name, "LayerModel", layer, member), model, (heard,), ((name, "updated", layer),)
            )
        label = "sum" if races else "update"
        added = [(name, label, layer, child) for child in senders]
        for child, key in zip(senders, added, strict=True):
            yield Step(key, Work(f"{label} {layer}"), ((child, "LayerGradient", layer),))
        race = Work(f"update {layer}", beside=True) if races else None
        yield Step((name, "updated", layer), race, tuple(added))
