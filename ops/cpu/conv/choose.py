"""The choice of an algorithm for each pass of a convolution, by shape and precision: the one place
that decides.

Each candidate gets a cost. Its unit is the product of one channel of x with one of y in direct
convolution. The numbers below are fitted to measured times of the convolutions of LeNet, CIFAR-10
quick, CaffeNet, NiN, GoogLeNet, VGG-16 and ResNet-50 and of smaller ones; `benchmarks/kernels`
shows the outcome.

Images in bfloat16 are read and written by the kernels for tiles and for depthwise convolution. For
the other algorithms they are converted to float32 (`Converted`): where there are no tiles, and in
layers that read few channels by groups or by dilated rows.
"""

from __future__ import annotations

from math import prod

from ops.cpu.codegen.amx import has_amx
from ops.cpu.conv.algorithm import Converted, Convolution, ConvShape
from ops.cpu.conv.depthwise import Depthwise
from ops.cpu.conv.depthwise import supports as is_depthwise
from ops.cpu.conv.direct import Direct, FirstLayer
from ops.cpu.conv.toom_cook import MODES
from ops.cpu.conv.winograd import Winograd, supports
from ops.cpu.gemm.products import BFLOAT16
from ops.cpu.team.team import Team
from ops.cpu.team.workspace import Workspace, aligned
from ops.cpu.tiled.convolution import Tiled
from ops.cpu.tiled.patched import Patched
from ops.cpu.tiled.patched import supports as by_patches

FORWARD = "forward"
DATA = "backward-data"
WEIGHTS = "backward-weights"
FEW_CHANNELS = 4  # channels of a layer that reads images; its kernel takes them in any order
# The cost of a product. With more planes fewer tiles fit into the cache.
FAST = {
    "F(2x2,3x3)": 1.0,
    "F(4x4,3x3)": 1.0,
    "F(5x5,3x3)": 1.2,
    "F(6x6,3x3)": 1.25,
    "F(2x2,5x5)": 1.0,
    "F(4x4,5x5)": 1.2,
}
PRICES = {
    "exact": {"F(2x2,3x3)": 1.0, "F(2x2,5x5)": 1.0},
    "fast": FAST,
    BFLOAT16: FAST,  # beside convolution on tiles
}
TILES: dict[str, type[Tiled]] = {"tiled": Tiled, "patched": Patched}
PLAIN: dict[str, type[Convolution]] = {"direct": Direct, "first": FirstLayer}
# Products on tiles in the time of one in float32. Several convolutions reached twice as many; then
# memory limits them.
TILED = 8
COPIED = 20  # the cost to round a number of an image into a copy
DELIVERED = 10  # the cost to write a result of tiles
TRANSFORM = 12  # the cost of a transform of a tile, in products for each of its numbers
# the same for each number of the weights and of each plane
PER_WEIGHT = {FORWARD: 12, DATA: 12, WEIGHTS: 30}


class Chooser:
    """Makes the algorithms of a backend, each once, and picks the one that a pass gets."""

    def __init__(self, team: Team, workspace: Workspace, precision: str) -> None:
        self._place = team, workspace
        self._precision = precision
        self._chosen: dict[tuple[ConvShape, str, bool], Convolution] = {}
        self._made: dict[tuple[ConvShape, str], Convolution] = {}

    def __call__(self, shape: ConvShape, direction: str, narrow: bool = False) -> Convolution:
        """The algorithm of that pass. `narrow`: some of its images are bfloat16."""
        key = shape, direction, narrow
        found = self._chosen.get(key)
        if found is None:
            found = self._chosen[key] = self._choose(*key)
        return found

    def scratch(self, shape: ConvShape, training: bool, narrow: bool = False) -> int:
        """The most bytes of the workspace that a pass takes, of all passes or only of the forward
        pass."""
        passes = (FORWARD, DATA, WEIGHTS) if training else (FORWARD,)
        return max(self(shape, direction, narrow).workspace_bytes for direction in passes)

    def _choose(self, shape: ConvShape, direction: str, narrow: bool) -> Convolution:
        if is_depthwise(shape):
            return self._make(shape, "depthwise")
        few = shape.in_shape[1] // shape.geometry.groups <= FEW_CHANNELS and direction != DATA
        tiles = self._precision == BFLOAT16 and has_amx()
        if few and tiles and by_patches(shape.geometry):
            return self._make(shape, "patched")
        if narrow and has_amx() and not few:
            return self._make(shape, "tiled")
        if narrow:
            return Converted(shape, self._choose(shape, direction, False), *self._place)
        if few:
            return self._make(shape, "first")
        costs = {"direct": direct_cost(shape, direction)}
        for mode, price in PRICES[self._precision].items():
            if supports(shape, mode):
                costs[mode] = price * winograd_cost(shape, mode, direction)
        if tiles:
            costs["tiled"] = tiled_cost(shape, direction)
        return self._make(shape, min(costs, key=lambda name: costs[name]))

    def _make(self, shape: ConvShape, name: str) -> Convolution:
        made = self._made.get((shape, name))
        if made is None:
            made = self._made[shape, name] = self._new(shape, name)
        return made

    def _new(self, shape: ConvShape, name: str) -> Convolution:
        if name in TILES:
            return TILES[name](shape.in_shape, shape.outputs, shape.geometry, *self._place)
        if name == "depthwise":
            halves = ("x", "y") if self._precision == BFLOAT16 else ()
            return Depthwise(shape, *self._place, halves)
        plain = PLAIN.get(name)
        return (
            Winograd(shape, *self._place, mode=name)
            if plain is None
            else plain(shape, *self._place)
        )


def direct_cost(shape: ConvShape, direction: str) -> float:
    """Products for each pair of channels: of every output with every weight."""
    n, _, high, wide = shape.out_shape
    return prod(shape.geometry.kernel) * (n * high * wide + min(PER_WEIGHT.values()))


def tiled_cost(shape: ConvShape, direction: str) -> float:
    """As `direct_cost`, for tiles, with the copies of the operands and the delivery of results.
    Channels and outputs of a group are rounded up to whole tiles."""
    groups = shape.geometry.groups
    channels, outputs = (size // groups for size in (shape.in_shape[1], shape.outputs))
    taps = prod(shape.geometry.kernel)
    n, _, high, wide = shape.out_shape
    read = min(prod(shape.in_shape[2:]), taps * high * wide)
    copies = read / outputs
    moved = COPIED * copies + DELIVERED * high * wide / channels
    filled = _filled(channels, 32) * _filled(outputs, 16)
    if direction == DATA:
        # dy is copied for each class of pixels that a tap reaches
        copies = high * wide * min(taps, prod(shape.geometry.stride)) / channels
        moved = COPIED * copies + DELIVERED * prod(shape.in_shape[2:]) / outputs
        filled = _filled(outputs, 32) * _filled(channels, 16)
    if direction == WEIGHTS:
        moved = COPIED * (copies + high * wide / channels)
        filled = _filled(channels, 16) * _filled(outputs, 16)
    products = taps * (n * high * wide / filled / TILED + PER_WEIGHT[FORWARD])
    return products + n * moved


def _filled(size: int, whole: int) -> float:
    """The part of the tiles that is in use."""
    return size / aligned(size, whole)


def winograd_cost(shape: ConvShape, mode: str, direction: str) -> float:
    """Products for each pair of channels: of every plane of every tile, with the transforms."""
    m = MODES[mode].m
    planes = MODES[mode].a ** 2
    groups = shape.geometry.groups
    n, channels, *image = shape.in_shape
    if direction != DATA:
        image = list(shape.out_shape[2:])
    tiles = n * prod(-(-size // m) for size in image)
    transforms = TRANSFORM * groups * (1 / channels + 1 / shape.outputs)
    return planes * (tiles * (1 + transforms) + PER_WEIGHT[direction])
