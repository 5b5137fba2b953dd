"""A node of the reduction tree: sums its children's gradients, layer by layer, and sends each sum on."""

from __future__ import annotations

import ops
from roles.gradient_sum import Blobs, GradientSum
from roles.messages import LayerGradient
from runtime import Actor, Envelope, MessageError


class TreeReducer(Actor):
    """Options: its children in the order of summation, its parent (a reducer or the model server)."""

    def __init__(self, *, children: list[str], parent: str) -> None:
        self._parent = parent
        self._ops = ops.get_backend("numpy")  # gradients travel in host memory
        self._sum = GradientSum(tuple(children), self._ops)

    async def on_start(self) -> None:
        """Nothing to build."""
        self._ops.memory = self.memory
        self._sums = self.counter("reductions", "Layer gradients summed and sent on.")

    async def on_layer_gradient(self, message: LayerGradient, envelope: Envelope) -> None:
        """Add a child's gradient; with the last one, send the sum to the parent."""
        key = (message.group, message.position, message.layer)
        with self.phase("reduce"):
            try:
                total: Blobs | None = await self.compute("reduce", self._sum.add, key, envelope.sender, message.blobs)
            except ValueError as error:
                raise MessageError("unexpected", str(error)) from None
        if total is None:
            return
        self._sums.inc()
        onward = LayerGradient(
            group=message.group,
            position=message.position,
            number=message.number,
            layer=message.layer,
            blobs=total,
        )
        await self.tell(self._parent, onward, step=message.number)
