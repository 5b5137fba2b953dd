"""The steps of a conv model server in an iteration (`ConvModel`)."""

from __future__ import annotations

from roles.base.shapes import Shapes
from roles.base.sizes import children
from roles.base.steps import (
    HANDLED,
    Key,
    Sending,
    Step,
    Steps,
    Turn,
    Work,
    norm_known,
    norm_steps,
)
from roles.learning.common_norm import NormShares
from roles.learning.job import Job


def served(
    job: Job,
    part: str,
    name: str,
    shapes: Shapes,
    turn: Turn,
    *,
    races: bool,
    norm: NormShares,
) -> Steps:
    """The steps of a server for one group.

    A layer is published to each member that asks, once the group's last update is in. Every part of
    its gradient is a piece of work. `races`: updates of different groups do not wait for one
    another. If the solver clips, updates wait for all layers and for the shares of the `norm`.
    """
    clips = job.solver_spec.clips
    everything: list[Key] = []
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
        label = "sum" if races or clips else "update"
        added = [(name, label, layer, child) for child in senders]
        for child, key in zip(senders, added, strict=True):
            yield Step(key, Work(f"{label} {layer}"), ((child, "LayerGradient", layer),))
        everything += added
        update = Work(f"update {layer}", beside=races) if races or clips else None
        needs = norm_known(name, norm.heard) if clips else tuple(added)
        yield Step((name, "updated", layer), update, needs)
    if clips and everything:
        yield from norm_steps(name, norm.told, tuple(everything))
