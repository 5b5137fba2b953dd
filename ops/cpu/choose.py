"""Which algorithm each pass of a convolution gets, by shape and precision: the one place that decides.

Measured on the convolutions of LeNet, CIFAR-10 quick, CaffeNet, NiN, GoogLeNet, VGG-16 and ResNet-50 beside PyTorch
(benchmarks/kernels.py shows the outcome). What never lives here: an algorithm.
"""

from __future__ import annotations

from ops.cpu.algorithm import ConvShape, Convolution
from ops.cpu.direct import Direct, FirstLayer
from ops.cpu.team import Team
from ops.cpu.workspace import Workspace

FORWARD, DATA, WEIGHTS = "forward", "backward-data", "backward-weights"
FEW_CHANNELS = 4


class Chooser:
    """Makes the algorithms of a backend, each once, and says which one a pass gets."""

    def __init__(self, team: Team, workspace: Workspace, precision: str) -> None:
        self._team, self._workspace, self._precision = team, workspace, precision
        self._chosen: dict[tuple[ConvShape, str], Convolution] = {}
        self._made: dict[tuple[ConvShape, str], Convolution] = {}

    def __call__(self, shape: ConvShape, direction: str) -> Convolution:
        """The algorithm of that pass."""
        found = self._chosen.get((shape, direction))
        if found is None:
            found = self._chosen[shape, direction] = self._choose(shape, direction)
        return found

    def _choose(self, shape: ConvShape, direction: str) -> Convolution:
        few = shape.in_shape[1] // shape.geometry.groups <= FEW_CHANNELS
        kind = FirstLayer if few and direction != DATA else Direct
        key = shape, kind.__name__
        if key not in self._made:
            self._made[key] = kind(shape, self._team, self._workspace)
        return self._made[key]
