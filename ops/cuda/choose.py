"""Which algorithm each pass of a convolution gets, by shape: the one place that decides."""

from __future__ import annotations

from ops.cuda.algorithm import Convolution, ConvShape
from ops.cuda.device import OnDevice
from ops.cuda.lowered import Lowered

FORWARD, DATA, WEIGHTS = "forward", "backward-data", "backward-weights"


class Chooser:
    """Makes the algorithms of a backend, each once, and says which one a pass gets."""

    def __init__(self, ops: OnDevice) -> None:
        self._ops = ops
        self._made: dict[ConvShape, Convolution] = {}

    def __call__(self, shape: ConvShape, direction: str) -> Convolution:
        """The algorithm of that pass: lowering, for all of them."""
        found = self._made.get(shape)
        if found is None:
            found = self._made[shape] = Lowered(shape, self._ops)
        return found
