"""Convolution by Winograd's minimal filtering: square kernels 3x3 and 5x5, stride 1, in fewer
multiplications.

The backward pass by data is the forward pass with turned weights. The one by weights is the
adjoint, dW = GT [sum over tiles of (BT d B) * (A dy AT)] G. Lavin and Gray (2015). `forward_blocks`
and `gradient_blocks` derive the sizes of blocks from the second-level cache; the loops are in
`winograd_loops` and `winograd_weight_loops`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ops.cpu.codegen.target import second_level
from ops.cpu.conv.algorithm import ConvShape
from ops.cpu.conv.toom_cook import MODES, Mode
from ops.cpu.conv.transforms import transforms
from ops.cpu.conv.winograd_loops import winograd_forward
from ops.cpu.conv.winograd_weight_loops import winograd_finish, winograd_gradient
from ops.cpu.gemm.microkernel import tiles
from ops.cpu.team.image_layout import image
from ops.cpu.team.team import Team
from ops.cpu.team.workspace import LINE, Workspace, aligned
from ops.errors import Array

FEW_TILES = 256  # with fewer it does not pay to read many transformed weights from memory


def supports(shape: ConvShape, mode: str) -> bool:
    """Whether `Winograd(shape, ..., mode=mode)` computes this convolution."""
    g = shape.geometry
    r = MODES[mode].r
    return g.kernel == (r, r) and g.stride == (1, 1) and (g.dilation == (1, 1))


def rounded(size: int, unit: int) -> int:
    """`size` rounded up to a multiple of `unit`."""
    return size + -size % unit


@dataclass(frozen=True)
class Blocks:
    """Sizes of a block. `tiles`: tiles of a block. `group`: vectors of outputs, or channels of a
    gradient, at a time. `kept`: weights are transformed once, else again for each block. `shared`:
    threads work on one block together, else each on its own."""

    tiles: int
    group: int
    kept: bool
    shared: bool


def forward_blocks(mode: Mode, C: int, K: int, count: int, size: int) -> Blocks:
    """Blocks as small as possible that still use the weights often. Weights that do not stay in the
    second-level cache are prefetched. Only if weights are many and tiles few, one block takes all
    tiles, and weights are transformed panel by panel."""
    cache = second_level()
    planes = mode.a**2
    kept = count > FEW_TILES or planes * C * K * 4 <= cache // 2
    room = max(cache * 2 // 5 // (planes * (C + K) * 4), 32) if kept else FEW_TILES
    shared = size > 1 and (not kept or count < size * 32)
    each = count if shared else rounded(-(-count // size), 8)
    group = -(-K // tiles().lanes) if kept else tiles().vectors
    return Blocks(rounded(-(-each // -(-each // room)), 8), group, kept and not shared, shared)


def gradient_blocks(mode: Mode, C: int, K: int, count: int, size: int) -> Blocks:
    """Blocks whose inputs and gradients fill the cache. If these are too large, one panel of
    gradients and its products do."""
    cache = second_level()
    planes = mode.a**2
    vector = tiles().lanes
    width = tiles().vectors * vector * 4
    chunk = min(2 * vector, rounded(C, vector))
    room = cache * 7 // 10 // (planes * 4 * (rounded(C, vector) + rounded(K, vector)))
    if room < 48:
        room = (cache * 3 // 4 // (planes * width)) - chunk
    room = max(room // 8 * 8, 8)
    shared = count < size * room // 2 and size > 1
    each = count if shared else rounded(-(-count // size), 8)
    return Blocks(rounded(-(-each // -(-each // room)), 8), chunk, False, shared)


class Winograd:
    """One mode of `MODES` for one shape. Implements `Convolution`."""

    def __init__(self, shape: ConvShape, team: Team, workspace: Workspace, *, mode: str) -> None:
        self.shape = shape
        self.mode = MODES[mode]
        self._team = team
        self._workspace = workspace
        groups = shape.geometry.groups
        pad = shape.geometry.pad
        r = self.mode.r
        N, C, H, W = shape.in_shape
        _, K, OH, OW = shape.out_shape
        C = C // groups
        K = K // groups
        self._zero = np.zeros(max(C, K) + LINE, np.float32)
        back = (r - 1 - pad[0], r - 1 - pad[1])
        self._forward = Forward(self, (N, C, H, W), (K, OH, OW), pad, turn=False)
        self._data = Forward(self, (N, K, OH, OW), (C, H, W), back, turn=True)
        self._weights = Gradient(self, (N, C, H, W), (K, OH, OW), pad)
        self.workspace_bytes = max(
            part.bytes for part in (self._forward, self._data, self._weights)
        )

    def __repr__(self) -> str:
        return f"<Winograd {self.mode.name} of {self.shape.in_shape} -> {self.shape.out_shape}>"

    def forward(
        self, x: Array, w: Array, b: Array | None, y: Array, floor: float = float("-inf")
    ) -> None:
        """y = max(x * w + b, floor)."""
        self._forward.run(x, w, b, y, floor)

    def backward_data(self, dy: Array, w: Array, dx: Array) -> None:
        """dx, the gradient by x."""
        self._data.run(dy, w, None, dx, float("-inf"))

    def backward_weights(self, x: Array, dy: Array, dw: Array) -> None:
        """dw, summed over the batch."""
        self._weights.run(x, dy, dw)


class _Pass:
    """The parts that all passes share: the geometry of tiles, scratch memory cut into parts,
    groups."""

    bytes = 0
    dense = "B"  # operands of a product without gaps in memory, see `build_tile`

    def __init__(
        self,
        owner: Winograd,
        source: tuple[int, ...],
        target: tuple[int, ...],
        pad: tuple[int, int],
    ) -> None:
        mode = owner.mode
        table = tiles(ahead=True, dense=self.dense)
        self.team = owner._team
        self.workspace = owner._workspace
        self.mode = mode
        self.groups = owner.shape.geometry.groups
        self.codes = transforms(mode.name)
        self.N, self.C, H, W = source
        self.K, OH, OW = target
        down = -(-OH // mode.m)
        across = -(-OW // mode.m)
        self.count = down * across * self.N
        self.common: dict[str, int] = dict(  # noqa: C408  # a table of arguments
            table=table.table.ctypes.data,
            rows=table.rows.ctypes.data,
            most=table.vectors,
            lanes=table.lanes,
            zero=owner._zero.ctypes.data,
            N=self.N,
            C=self.C,
            K=self.K,
            across=across,
            H=H,
            W=W,
            top=pad[0],
            left=pad[1],
            OH=OH,
            OW=OW,
            m=mode.m,
            r=mode.r,
            planes=mode.a**2,
            spread=self.codes.image,
        )
        self._parts: list[tuple[str, int]] = []

    def reserve(self, name: str, size: int, copies: int) -> int:
        """Let field `name` point at `copies` parts of `size` bytes in the scratch memory; returns
        the distance between two parts."""
        self._parts.append((name, self.bytes))
        self.bytes += aligned(size) * copies
        return aligned(size) if copies > 1 else 0

    def place(self, block: Any) -> None:
        """Set the reserved fields for the workspace's present address."""
        at = self.workspace.take(self.bytes)
        for name, offset in self._parts:
            setattr(block, name, at + offset)

    def images(self, block: Any, x: Array, y: Array) -> tuple[int, int]:
        """Set the fields of both images; returns their addresses."""
        source = image(x)
        target = image(y)
        block.xn = source.sn
        block.xh = source.sh
        block.xw = source.sw
        block.yn = target.sn
        block.yh = target.sh
        block.yw = target.sw
        return source.at, target.at


class Forward(_Pass):
    """y (N, K, OH, OW) from x (N, C, H, W); with `turn` weights are read turned by 180 degrees, K
    and C exchanged."""

    dense = "AB"

    def __init__(
        self,
        owner: Winograd,
        source: tuple[int, ...],
        target: tuple[int, ...],
        pad: tuple[int, int],
        *,
        turn: bool,
    ) -> None:
        super().__init__(owner, source, target, pad)
        mode = self.mode
        lanes = tiles().lanes
        size = self.team.size
        blocks = self.blocks = forward_blocks(mode, self.C, self.K, self.count, size)
        planes = mode.a**2
        square = mode.r**2
        vector = lanes * 4
        high = rounded(self.K, lanes) // lanes
        wide = high if blocks.kept else blocks.group
        # an odd number of lines: rows do not share sets of the cache
        Vt = rounded(self.C, lanes) * 4 | LINE
        Vx = blocks.tiles * Vt + LINE
        own = 1 if blocks.shared else size
        U_size = planes * wide * (self.C * vector + LINE)
        V_thread = self.reserve("V", planes * Vx, own)
        U_thread = self.reserve("U", U_size, 1 if blocks.kept else size)
        M_thread = self.reserve("M", planes * blocks.group * (blocks.tiles * vector + LINE), size)
        turned_thread = self.reserve("turned", square * 16 * vector, size)
        sink_thread = self.reserve("sink", (self.K + lanes) * 4, size)
        outputs = square * 4 * (self.K if turn else self.C)
        inputs = square * 4
        self.block = winograd_forward.block(
            **self.common,
            block=blocks.tiles,
            group=blocks.group,
            kept=blocks.kept,
            by_column=blocks.shared,
            Vt=Vt,
            Vx=Vx,
            V_thread=V_thread,
            U_thread=U_thread,
            M_thread=M_thread,
            turned_thread=turned_thread,
            sink_thread=sink_thread,
            wk=inputs if turn else outputs,
            wc=outputs if turn else inputs,
            w_origin=(square - 1) * vector if turn else 0,
            w_row=(-mode.r if turn else mode.r) * vector,
            w_column=-vector if turn else vector,
            weigh=self.codes.weight,
            collapse=self.codes.result,
            transpose=self.codes.transpose,
            pack=not blocks.kept,
        )

    def run(self, x: Array, w: Array, b: Array | None, y: Array, floor: float) -> None:
        """Run the pass for all groups."""
        block = self.block
        self.place(block)
        at_x, at_y = self.images(block, x, y)
        at_w = w.ctypes.data
        at_b = block.zero if b is None else b.ctypes.data
        block.floor = floor
        for group in range(self.groups):
            block.x = at_x + group * self.C * 4
            block.y = at_y + group * self.K * 4
            block.w = at_w + group * (w.nbytes // self.groups)
            block.bias = at_b if b is None else at_b + group * self.K * 4
            self._group(block)

    def _group(self, block: Any) -> None:
        team = self.team
        blocks = self.blocks
        if not blocks.shared:
            block.from_tile = 0
            block.to_tile = self.count
            if blocks.kept:
                block.load = 0
                block.pack = 1
                block.multiply = 0
                team.run(winograd_forward, block)
                block.pack = 0
            block.load = block.multiply = 1
            team.run(winograd_forward, block)
            return
        for first in range(0, self.count, blocks.tiles):
            block.from_tile = first
            block.to_tile = min(first + blocks.tiles, self.count)
            block.load = 1
            block.pack = 0
            block.multiply = 0
            team.run(winograd_forward, block)
            block.load = 0
            block.pack = 1
            block.multiply = 1
            team.run(winograd_forward, block)


class Gradient(_Pass):
    """dw (K, C, r, r) from x and dy."""

    def __init__(
        self,
        owner: Winograd,
        source: tuple[int, ...],
        target: tuple[int, ...],
        pad: tuple[int, int],
    ) -> None:
        super().__init__(owner, source, target, pad)
        mode = self.mode
        lanes = tiles().lanes
        size = self.team.size
        blocks = self.blocks = gradient_blocks(mode, self.C, self.K, self.count, size)
        planes = mode.a**2
        square = mode.r**2
        vector = lanes * 4
        width = tiles().vectors * vector
        Gk = rounded(self.K, lanes) * 4
        own = 1 if blocks.shared else size
        Vv = blocks.tiles * vector
        Vx = Vv * (rounded(self.C, lanes) // lanes) + LINE
        Sx = blocks.tiles * Gk + LINE
        V_thread = self.reserve("V", planes * Vx, own)
        S_thread = self.reserve("S", planes * Sx, own)
        D_thread = self.reserve("D", planes * (blocks.group * width + LINE), size)
        G_thread = self.reserve("G", square * self.C * Gk, own)
        self.reserve("sink", (max(self.C, self.K) + lanes) * 4, 1)
        self.block = winograd_gradient.block(
            **self.common,
            block=blocks.tiles,
            chunk=blocks.group,
            by_channel=blocks.shared,
            Vv=Vv,
            Vx=Vx,
            Sx=Sx,
            Gk=Gk,
            V_thread=V_thread,
            S_thread=S_thread,
            D_thread=D_thread,
            G_thread=G_thread,
            adjoin=self.codes.adjoint,
            collapse=self.codes.gradient,
        )
        self.finish = winograd_finish.block(
            transpose=self.codes.transpose,
            lanes=lanes,
            C=self.C,
            K=self.K,
            square=square,
            Gk=Gk,
            G_thread=G_thread,
            parts=own,
            wk=square * self.C * 4,
        )

    def run(self, x: Array, dy: Array, dw: Array) -> None:
        """Run the pass for all groups."""
        block = self.block
        self.place(block)
        at_x, at_y = self.images(block, x, dy)
        at_w = dw.ctypes.data
        self.finish.G = block.G
        for group in range(self.groups):
            block.x = at_x + group * self.C * 4
            block.y = at_y + group * self.K * 4
            self._group(block)
            self.finish.w = at_w + group * (dw.nbytes // self.groups)
            self.team.run(winograd_finish, self.finish)

    def _group(self, block: Any) -> None:
        team = self.team
        blocks = self.blocks
        if not blocks.shared:
            block.from_tile = 0
            block.to_tile = self.count
            block.load = block.multiply = block.fresh = 1
            team.run(winograd_gradient, block)
            return
        for first in range(0, self.count, blocks.tiles):
            block.from_tile = first
            block.to_tile = min(first + blocks.tiles, self.count)
            block.fresh = first == 0
            block.load = 1
            block.multiply = 0
            team.run(winograd_gradient, block)
            block.load = 0
            block.multiply = 1
            team.run(winograd_gradient, block)
