"""A node of the reduction tree: sums its children's gradients, layer by layer, and sends each sum on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from roles.learning.gradient_sum import GradientSum
from roles.learning.job import cpu_ops
from roles.learning.parts import Parts, in_parts
from roles.learning.tree import Parent
from roles.learning.wire_formats import PLAIN, Blobs, Formats, Layers, Wire
from roles.messages import Done, LayerGradient, Place
from runtime import Actor, Conversation, Envelope

PART = in_parts("a child's part of a layer's gradient", "iteration group layer", LayerGradient)


class TreeReducer(Actor):
    """Options: its parent (a reducer or the model server) and its place there, the blobs of each layer, the format of
    what it sends, and the kernels it computes with: gradients travel in host memory."""

    conversations: ClassVar[tuple[Conversation, ...]] = (PART,)

    def __init__(
        self,
        *,
        parent: str,
        part: int,
        parts: int,
        layers: Layers,
        wire: Mapping[str, Any] = PLAIN,
        kernels: str = "numpy",
    ) -> None:
        self._parent = Parent(parent, part, parts)
        self._layers, self._options, self._kernels = layers, wire, kernels
        self._parts = Parts(PART)

    async def on_start(self) -> None:
        """Prepare the sum."""
        await self.compute("build", self._build)
        self._sums = self.counter("reductions", "Layer gradients summed and sent on.")

    def _build(self) -> None:
        ops = cpu_ops(self._kernels)
        ops.memory = self.memory
        self._sum, self._wire = GradientSum(ops), Wire(self._layers, ops, self._options)

    async def on_layer_gradient(self, message: LayerGradient, envelope: Envelope) -> None:
        """Add a child's gradient; with the last one, send the sum to the parent."""
        part = (message.number, message.group, message.layer), message.part, message.parts
        self._parts.check(message, envelope.sender, *part)
        with self.phase("reduce"):
            total = await self.compute("reduce", self._add, message)
        self._parts.came(message, envelope.sender, *part)
        if total is None:
            return
        self._sums.inc()
        formats, blobs = total
        onward = LayerGradient(
            group=message.group,
            number=message.number,
            layer=message.layer,
            part=self._parent.part,
            parts=self._parent.parts,
            formats=formats,
            blobs=blobs,
        )
        await self.tell(self._parent.name, onward, step=message.number)

    async def on_place(self, message: Place, envelope: Envelope) -> None:
        """The tree has another shape from now on."""
        self._parent = Parent(message.parent, message.part, message.parts)
        await self.reply(envelope, Done())

    def _add(self, message: LayerGradient) -> tuple[Formats, Blobs] | None:
        """The sum as it travels, if this was the last missing part."""
        blobs = self._wire.decode(message.layer, message.formats, message.blobs)
        total = self._sum.add((message.number, message.layer), message.part, message.parts, blobs)
        return None if total is None else self._wire.encode(message.layer, total)
