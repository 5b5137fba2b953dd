"""Which algorithm each pass of a convolution gets, by shape and precision: the one place that decides.

Measured on the convolutions of LeNet, CIFAR-10 quick, CaffeNet, NiN, GoogLeNet, VGG-16 and ResNet-50 beside PyTorch
(benchmarks/kernels.py shows the outcome). What never lives here: an algorithm.
"""

from __future__ import annotations

from ops.cpu.algorithm import Convolution, ConvShape
from ops.cpu.direct import Direct, FirstLayer
from ops.cpu.team import Team
from ops.cpu.winograd import ACCURATE, FAST, FIVE, Winograd, supports
from ops.cpu.workspace import Workspace

FORWARD, DATA, WEIGHTS = "forward", "backward-data", "backward-weights"
FEW_CHANNELS = 4  # a layer that reads images: its kernel takes them in any order
ENOUGH_CHANNELS = 24  # below, Winograd's transforms take longer than the products they save
MODES = {"exact": {3: ACCURATE}, "fast": {3: FAST, 5: FIVE}}  # by precision and kernel


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
        channels, outputs = (count // shape.geometry.groups for count in (shape.in_shape[1], shape.outputs))
        mode = MODES[self._precision].get(shape.geometry.kernel[0])
        if mode is not None and min(channels, outputs) >= ENOUGH_CHANNELS and supports(shape, mode):
            return self._make(shape, mode)
        return self._make(shape, "first" if channels <= FEW_CHANNELS and direction != DATA else "direct")

    def _make(self, shape: ConvShape, name: str) -> Convolution:
        made = self._made.get((shape, name))
        if made is None:
            place = shape, self._team, self._workspace
            if name in ("first", "direct"):
                made = FirstLayer(*place) if name == "first" else Direct(*place)
            else:
                made = Winograd(*place, mode=name)
            self._made[shape, name] = made
        return made
