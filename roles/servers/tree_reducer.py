"""A node of the reduction tree: it sums its children's gradients, layer by layer, and sends each
sum to its parent."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import ClassVar

from ops import where
from roles.base.loads import Loads, sums
from roles.base.role import EMULATED, Held, Sent, SummingOptions, Wires
from roles.base.shapes import Shapes
from roles.base.sizes import arriving, children, encoded, parts_at
from roles.base.steps import Sending, Step, Steps, Turn, Work
from roles.learning.backends import cpu_ops, gpu_ops
from roles.learning.buffers import in_memory_of
from roles.learning.gradient_sum import GradientSum
from roles.learning.model_holder import KeepsBeside
from roles.learning.part_counts import Parts, in_parts
from roles.learning.tree import Parent
from roles.learning.wire_formats import PLAIN, Formats, Layers, Wire, WireFormat
from roles.messages import Blobs, Done, LayerGradient, Place
from roles.tuning.watch import Leaves, looked_at
from runtime import Conversation, Envelope

PART = in_parts("a child's part of a layer's gradient", "iteration group layer", LayerGradient)


@dataclass(frozen=True, kw_only=True)
class ReducerOptions(SummingOptions):
    """The reducer's parent (a reducer or the model server) and its place there, the blobs of each
    layer, and the format of its sums.

    Its kernels are those of the CPU. Gradients that its children hand over on a device of its
    process are added up there.
    """

    parent: str
    part: int
    parts: int
    layers: Layers = field(default_factory=dict)
    wire: WireFormat = PLAIN

    def sends(self, name: str, shapes: Shapes) -> Sent:
        """The sum of its children's gradients, in its own format. A reducer that is kept for other
        groups than the present ones sends nothing."""
        if layers := arriving(name, shapes):
            yield self.parent, LayerGradient, encoded(layers, self.wire)

    def steps(self, name: str, shapes: Shapes, turn: Turn) -> Steps:
        """Each child's gradient of a layer is added. With the last one the sum is sent."""
        below = children(name, shapes, turn.members)
        every = arriving(name, shapes)
        for layer in below[0][1] if below else ():
            added = [(name, "reduce", layer, child) for child, _ in below]
            for (child, _), key in zip(below, added, strict=True):
                yield Step(key, Work("reduce"), ((child, "LayerGradient", layer),))
            sent = Sending((self.parent,), encoded({layer: every[layer]}, self.wire))
            yield Step((name, "LayerGradient", layer), sent, tuple(added))

    def holds(self, name: str, shapes: Shapes) -> Held:
        """One sum for each layer."""
        return {"sums": shapes.size(self.layers)}

    def loads(self, name: str, shapes: Shapes) -> Loads:
        """For each layer, one piece of work for each child's gradient, as it arrives."""
        return sums("reduce", arriving(name, shapes), parts_at(name, shapes))

    def parents(self) -> tuple[str, ...]:
        return (self.parent,)

    def redirected(self, through: Callable[[str], str]) -> ReducerOptions:
        return replace(self, parent=through(self.parent))

    def with_wires(self, wires: Wires) -> ReducerOptions:
        """The reducer also gets the layers that it receives, and the kernels."""
        return replace(self, wire=wires.to[self.parent], layers=wires.layers, kernels=wires.kernels)


class TreeReducer(KeepsBeside):
    """A node of a group's reduction tree: it sums its children's gradients, layer by layer."""

    Options = ReducerOptions
    reads_device = True
    conversations: ClassVar[tuple[Conversation, ...]] = (PART,)

    def __init__(self, options: ReducerOptions) -> None:
        self._parent = Parent(options.parent, options.part, options.parts)
        self._options = options
        self._parts = Parts(PART)
        self._leaves = Leaves()

    async def on_start(self) -> None:
        """Prepare the sum."""
        await self.compute("build", self._build)
        self._sums = self.counter("reductions", "Layer gradients that a reducer summed.")

    def _build(self) -> None:
        ops = self._ops = cpu_ops(self._options.kernels)
        in_memory_of(self, ops, *gpu_ops(self._options.device))
        self._sum = GradientSum(ops)
        self._wire = Wire(self._options.layers, ops, self._options.wire)
        self.beside = [self._wire.errors]

    async def on_layer_gradient(self, message: LayerGradient, envelope: Envelope) -> None:
        """Add a child's gradient; with the last one, send the sum to the parent."""
        part = (message.number, message.group, message.layer), message.part, message.parts
        self._parts.check(message, envelope.sender, *part)
        with self.phase("reduce"):
            on_host = where(message.blobs, self._ops).on_host
            size = message.array_bytes() if on_host else None
            total = await self.compute("reduce", self._add, message, size=size)
        self._parts.came(message, envelope.sender, *part)
        if total is None:
            return
        self._sums.inc()
        formats, blobs, (leaves, squares) = total
        onward = replace(
            message, part=self._parent.part, parts=self._parent.parts, formats=formats, blobs=blobs,
            leaves=leaves or 1, squares=squares,
        )  # fmt: skip
        await self.tell(self._parent.name, onward, step=message.number)

    async def on_place(self, message: Place, envelope: Envelope) -> None:
        """Take another place in the tree, whose shape has changed."""
        self._parent = Parent(message.parent, message.part, message.parts)
        await self.reply(envelope, Done())

    def _add(self, message: LayerGradient) -> tuple[Formats, Blobs, tuple[int, float]] | None:
        """The sum as it travels, and its leaves, if this was the last missing part."""
        blobs = self._wire.decode(message.layer, message.formats, message.blobs)
        key = message.number, message.layer
        if looked_at(message.number) and self._options.kernels != EMULATED:
            self._leaves.add(key, message, blobs)
        total = self._sum.add(key, message.part, message.parts, blobs)
        return (
            None
            if total is None
            else (
                *self._wire.encode(message.layer, total, where(total, self._ops)),
                self._leaves.of(key),
            )
        )
