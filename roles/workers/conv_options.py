"""The options of a conv worker: what it sends, computes and holds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

from roles.base.loads import Loads
from roles.base.role import Held, JobOptions, Sent, Wires
from roles.base.shapes import Shapes
from roles.base.sizes import encoded, leaving, passes
from roles.base.steps import Steps, Turn
from roles.fc.phase import activations_sent
from roles.learning.recordings import kept_plain
from roles.messages import LayerGradient
from roles.workers.conv_steps import iteration, work
from roles.workers.model_links import ModelWay


@dataclass(frozen=True, kw_only=True)
class ConvOptions(JobOptions):
    """The job, the `part` of the net that the worker computes ("conv" or "all"), and the names of
    its peers.

    `models`: its model servers (`model_links`). `fc_servers`: the servers of the FC phase, none for
    "all". With a `scheme` they are shards of the FC phase. `timed`: see
    `Exposure`.
    """

    any_batch: ClassVar[bool] = True
    spread: ClassVar[bool] = True
    part: str
    coordinator: str
    models: tuple[ModelWay, ...]
    fc_servers: tuple[str, ...] = ()
    scheme: str = ""
    timed: bool = False

    def sends(self, name: str, shapes: Shapes) -> Sent:
        """Activations to the servers of the FC phase, and each layer's gradient to its parent."""
        yield from activations_sent(self, name, shapes)
        for way in self.models:
            yield (
                way.parent,
                LayerGradient,
                encoded(shapes.layers(self.job, self.part, way.layers), way.wire),
            )

    def steps(self, name: str, shapes: Shapes, turn: Turn) -> Steps:
        """The steps of `ConvCompute`, from its first pull to its last gradient."""
        if name in turn.members:
            yield from iteration(self, name, shapes)

    def holds(self, name: str, shapes: Shapes) -> Held:
        """Passes on its rows, and their gradients, which leave layer by layer. A GPU also holds a
        copy of the parameters."""
        layers = shapes.layers(self.job, self.part)
        sizes = [shapes.size({layer: blobs}) for layer, blobs in layers.items()]
        held = passes(self.job, self.part, shapes, name)
        held |= leaving(self.job, sizes, shapes.read([(name, to) for to in self.parents()]))
        return held | ({"parameters": sum(sizes)} if self.job.on_gpu else {})

    def loads(self, name: str, shapes: Shapes) -> Loads:
        """The stages one by one, forward and backward."""
        return work(self, name, shapes)

    def kept_plain(self) -> str:
        """The recorded pass has a part for each stage."""
        return kept_plain(self.job)

    def parents(self) -> tuple[str, ...]:
        """One parent for each model server."""
        return tuple(way.parent for way in self.models)

    def redirected(self, through: Callable[[str], str]) -> ConvOptions:
        return replace(
            self, models=tuple(replace(way, parent=through(way.parent)) for way in self.models)
        )

    def with_wires(self, wires: Wires) -> ConvOptions:
        """A format for each parent."""
        return replace(
            self, models=tuple(replace(way, wire=wires.to[way.parent]) for way in self.models)
        )
