"""A layer type that Convoy does not have: `type: "Softsign"`, x / (1 + |x|)."""

from __future__ import annotations

from dataclasses import dataclass

from nets.layers import Layer, Run, Setup, Values, settings
from nets.layers.base import Blobs, Gradients, Shape
from ops import Array


@dataclass(frozen=True)
class Settings:
    """The settings in `python_param { param_str: '{"steepness": 2.0}' }`."""

    steepness: float = 1.0


class Softsign(Layer):
    """s x / (1 + |s x|), where s is the `steepness`."""

    def _shape(self, shapes: list[Shape], setup: Setup) -> list[Shape]:
        self.steepness = settings(self, Settings()).steepness
        return [shapes[0]]

    def forward(self, bottoms: list[Array], blobs: Blobs, run: Run) -> list[Array]:
        scaled = self.steepness * bottoms[0]
        y = self.buffer("top", bottoms[0].shape)
        y[...] = scaled / (1 + abs(scaled))
        return [y]

    def backward(
        self,
        grads: list[Array | None],
        values: Values,
        run: Run,
        wanted: list[bool],
        out: Blobs | None,
    ) -> Gradients:
        if not wanted[0] or grads[0] is None:
            return [None], ()
        dx = self.buffer("bottom", values.bottoms[0].shape)
        dx[...] = grads[0] * self.steepness * (1 - abs(values.tops[0])) ** 2
        return [dx], ()
