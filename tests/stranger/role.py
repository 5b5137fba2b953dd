"""A role that passes gradients on and reports how many bytes it passed in an iteration."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from roles.base.role import RoleOptions, Sent
from roles.base.shapes import Shapes
from roles.base.sizes import arriving, children, encoded
from roles.base.steps import Sending, Step, Steps, Turn
from roles.learning.wire_formats import PLAIN
from roles.messages import LayerGradient
from runtime import Actor, Envelope


@dataclass(frozen=True, kw_only=True)
class TallyOptions(RoleOptions):
    """Gradients go to `parent`. Every `every`-th iteration is reported, once its `layers` have
    passed."""

    parent: str
    layers: int
    every: int = 1

    def sends(self, name: str, shapes: Shapes) -> Sent:
        yield self.parent, LayerGradient, encoded(arriving(name, shapes), PLAIN)

    def steps(self, name: str, shapes: Shapes, turn: Turn) -> Steps:
        for child, layers in children(name, shapes, turn.members):
            for layer in layers:
                size = encoded({layer: arriving(name, shapes)[layer]}, PLAIN)
                told = Sending((self.parent,), size)
                yield Step((name, "LayerGradient", layer), told, ((child, "LayerGradient", layer),))


class Tally(Actor):
    Options = TallyOptions

    def __init__(self, options: TallyOptions) -> None:
        self._options = options
        self._bytes: Counter[int] = Counter()
        self._layers: Counter[int] = Counter()

    async def on_layer_gradient(self, message: LayerGradient, envelope: Envelope) -> None:
        await self.tell(self._options.parent, message, step=message.number)
        number = message.number
        self._bytes[number] += sum(blob.nbytes for blob in message.blobs)
        self._layers[number] += 1
        if self._layers[number] == self._options.layers:
            size = self._bytes.pop(number)
            if number % self._options.every == 0:
                self.emit("tally", iteration=number, bytes=size)
