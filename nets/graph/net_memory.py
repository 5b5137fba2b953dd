"""The memory plan of a net: every activation, gradient and saved array of a pass has a fixed place
in one block.

The plan is made before anything runs. The shapes give the size of each array. The order of the
layers gives the time in which it is needed. Arrays that are never needed together share a place. A
layer declares the arrays that it keeps and reads (`Layer.needs`, `reads_bottoms`, `reads_tops`),
except for a few numbers per channel. A layer that declares nothing (`planned` False) keeps its own
arrays, and the arrays that it touches stay for the whole pass. Parameters and their gradients are
not in the block.

Times in a pass with n layers: layer i runs forward at i and backward at 2n - 1 - i.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from nets.graph.wiring import Node, Wiring
from nets.layers.base import GRADIENT, SAVED, TOP, Need, Shape
from ops import BFLOAT16, Array, Backend

LINE = 256  # bytes; places are multiples of it, so that no two arrays share a cache line or vector


@dataclass(eq=False)
class Region:
    """One array of layer `node` (None: the sum of a value's gradients), and the time in which it
    lives.

    `inside`: the region that contains this one, and the part of its axis 1 (for a bottom of Concat
    that is written in place). `shared`: it may be the gradient of several values, so no layer
    writes over it.
    """

    node: int | None
    key: str
    shape: Shape
    dtype: Any
    start: int
    end: int
    inside: tuple[Region, slice] | None = None
    shared: bool = False
    offset: int = 0

    @property
    def size(self) -> int:
        """The size in bytes, a multiple of LINE."""
        size: int = math.prod(self.shape) * np.dtype(self.dtype).itemsize
        return size + -size % LINE

    def live(self, time: int) -> None:
        """Note that the array is written or read at `time`."""
        self.start = min(self.start, time)
        self.end = max(self.end, time)


@dataclass
class MemoryPlan:
    """All regions with their offsets. `size` is the size of the block in bytes, `unshared` the size
    if every array had its own place.

    `sums`: by value, the sum of its gradients, if several layers give one. `over`: layers that
    write the gradient of their bottom over the gradient of their top. `written`: by Concat, the
    bottoms that already lie in its top.
    """

    regions: list[Region]
    sums: dict[int, Region]
    over: set[int]
    written: dict[int, frozenset[int]]
    size: int
    unshared: int

    @property
    def narrow(self) -> int:
        """How many arrays are stored in bfloat16 (`nets.graph.storage`)."""
        return sum(region.dtype == BFLOAT16 for region in (*self.regions, *self.sums.values()))

    def arrays(self, ops: Backend, block: Array) -> dict[tuple[int, str], Array]:
        """Return the region of every layer as an array inside `block` (uint8), by layer index and
        key."""
        made: dict[int, Array] = {}

        def made_of(region: Region) -> Array:
            if id(region) not in made:
                if region.inside is None:
                    made[id(region)] = ops.carve(block, region.offset, region.shape, region.dtype)
                else:
                    whole, part = region.inside
                    made[id(region)] = made_of(whole)[:, part]
            return made[id(region)]

        found = {
            (region.node, region.key): made_of(region)
            for region in self.regions
            if region.node is not None
        }
        found |= {(-1 - value, "sum"): made_of(region) for value, region in self.sums.items()}
        return found


@dataclass
class Planner:
    """Makes a MemoryPlan.

    `fresh_tops`, `fresh_gradients`: layers whose results leave the process, so they are new arrays
    in every pass. `given`: values whose gradients come from outside.
    """

    wiring: Wiring
    nodes: Sequence[Node]
    training: bool
    dtype: Any
    fresh_tops: frozenset[int] = frozenset()
    fresh_gradients: frozenset[int] = frozenset()
    given: frozenset[int] = frozenset()
    regions: list[Region] = field(default_factory=list)
    sums: dict[int, Region] = field(default_factory=dict)
    over: set[int] = field(default_factory=set)
    written: dict[int, frozenset[int]] = field(default_factory=dict)
    _tops: dict[int, Region | None] = field(default_factory=dict)  # tops, by value
    _saved: dict[int, list[Region]] = field(default_factory=dict)  # saved, by node
    # by value: the gradients that the value has got
    _given: dict[int, list[Region | None]] = field(default_factory=dict)

    def plan(self) -> MemoryPlan:
        """Find every region and its lifetime, then give each one a place."""
        last = 2 * len(self.nodes)
        for time, node in enumerate(self.nodes):
            self._forward(node, time, last)
        if self.training:
            for time, node in enumerate(reversed(self.nodes), len(self.nodes)):
                self._backward(node, time, last)
        self._join_concatenations()
        own = [region for region in (*self.regions, *self.sums.values()) if region.inside is None]
        unshared = sum(region.size for region in own)
        return MemoryPlan(self.regions, self.sums, self.over, self.written, _place(own), unshared)

    # forward

    def _forward(self, node: Node, time: int, last: int) -> None:
        layer = node.layer
        for value in node.bottoms:
            self._touch(self._tops.get(value), time if layer.planned else last)
        needs = self._needs(node)
        tops = {
            need.at: need
            for need in needs
            if need.life == TOP and node.index not in self.fresh_tops
        }
        for at, value in enumerate(node.tops):
            if layer.in_place or layer.views:
                self._tops[value] = (
                    self._tops.get(node.bottoms[layer.view_of]) if node.bottoms else None
                )
            else:
                self._tops[value] = self._new(node, tops[at], time) if at in tops else None
            self._touch(self._tops[value], time if layer.planned else last)
            if not self.wiring.values[value].consumers or layer.loss_weights[at]:
                self._touch(self._tops[value], last)  # an output of the net, or part of the loss
        self._saved[node.index] = [
            self._new(node, need, time) for need in needs if need.life == SAVED
        ]

    def _needs(self, node: Node) -> list[Need]:
        if not node.layer.planned:
            return []
        bottoms, tops = (
            [self.wiring.values[i].shape for i in values] for values in (node.bottoms, node.tops)
        )
        return node.layer.needs(bottoms, tops, self.training)

    def _new(self, node: Node, need: Need, time: int) -> Region:
        dtype = need.dtype or node.layer.dtypes.get(need.key, self.dtype)
        region = Region(node.index, need.key, need.shape, dtype, time, time)
        self.regions.append(region)
        return region

    @staticmethod
    def _touch(region: Region | None, time: int) -> None:
        if region is not None:
            region.live(time)

    # backward

    def _backward(self, node: Node, time: int, last: int) -> None:
        if not node.runs_back:
            return
        layer = node.layer
        weights = zip(node.tops, layer.loss_weights, strict=True)
        if not any(
            weight or value in self._given or value in self.given for value, weight in weights
        ):
            return  # no loss depends on it, so the pass skips it
        incoming = [region for value in node.tops for region in self._gradient(value)]
        until = time if layer.planned else last
        for region in (*incoming, *self._saved[node.index]):
            self._touch(region, until)
        for values, read in ((node.bottoms, layer.reads_bottoms), (node.tops, layer.reads_tops)):
            for value in values:
                if read or not layer.planned:
                    self._touch(self._tops.get(value), until)
        wanted = node.wanted
        made = {need.at: need for need in self._needs(node) if need.life == GRADIENT}
        if self._may_write_over(node, incoming):
            self.over.add(node.index)
        if (
            layer.passes_gradient
            and not layer.gradient_parts
            and sum(wanted) > 1
            and incoming[0] is not None
        ):
            incoming[0].shared = True
        for at, value in enumerate(node.bottoms):
            if wanted[at]:
                self._give(value, self._produced(node, at, made, incoming, time), time)

    def _may_write_over(self, node: Node, incoming: list[Region | None]) -> bool:
        if not node.layer.gradient_in_place_ok:  # it has no bottom, for instance
            return False
        region = incoming[0] if len(incoming) == 1 else None
        alone = region is not None and not region.shared and node.index not in self.fresh_gradients
        return alone and self._dtype(node.bottoms[0]) == self._dtype(node.tops[0])

    def _dtype(self, value: int) -> Any:
        return self.wiring.values[value].dtype or self.dtype

    def _produced(
        self, node: Node, at: int, made: dict[int, Need], incoming: list[Region | None], time: int
    ) -> Region | None:
        """Return the region of the gradient that the layer gives its bottom `at`."""
        if node.index in self.over or (
            node.layer.planned and node.layer.passes_gradient and at not in made
        ):
            return incoming[0]
        if at not in made or node.index in self.fresh_gradients:
            return None
        return self._new(node, made[at], time)

    def _give(self, value: int, region: Region | None, time: int) -> None:
        """Give the value one more gradient. If it has several, they are added up in a separate
        region."""
        given = self._given.setdefault(value, [])
        given.append(region)
        if self.wiring.values[value].apart:
            return
        if len(given) == 2:
            shape = self.wiring.values[value].shape
            self.sums[value] = Region(None, "sum", shape, self._dtype(value), time, time)
            self._touch(given[0], time)
        if len(given) >= 2:
            self._touch(region, time)
            self.sums[value].live(time)

    def _gradient(self, value: int) -> list[Region | None]:
        """Return the region that has the whole gradient of the value, or the two regions of its
        parts."""
        given = self._given.get(value, [None])
        return given if self.wiring.values[value].apart or len(given) == 1 else [self.sums[value]]

    # concatenation

    def _join_concatenations(self) -> None:
        """Place the bottoms of each Concat inside its top, so that they are written there
        directly."""
        for node in self.nodes:
            parts = node.layer.parts_of_top() if node.layer.planned else None
            if not parts:
                continue
            whole = self._tops.get(node.tops[0])
            changed = any(
                self._overwrites(reader) for reader in self.wiring.values[node.tops[0]].consumers
            )
            if whole is None or whole.node != node.index or changed:
                continue
            written = set()
            for at, (value, part) in enumerate(zip(node.bottoms, parts, strict=True)):
                region = self._tops.get(value)
                if region is not None and self._joins(region, value, whole, node):
                    region.inside = (whole, part)
                    whole.live(region.start)
                    whole.live(region.end)
                    written.add(at)
            self.written[node.index] = frozenset(written)

    def _overwrites(self, reader: int) -> bool:
        return self.wiring.nodes[reader].layer.in_place

    def _joins(self, region: Region, value: int, whole: Region, concat: Node) -> bool:
        """Whether the array is exactly the bottom, has no other reader, and is neither inside
        another array nor around one."""
        values = [self.wiring.values[i] for i, top in self._tops.items() if top is region]
        alone = all(
            c == concat.index or self._overwrites(c) for each in values for c in each.consumers
        )
        free = (
            region.inside is None
            and region is not whole
            and region.shape == self.wiring.values[value].shape
        )
        around = any(
            other.inside is not None and other.inside[0] is region for other in self.regions
        )
        return alone and free and not around


def _place(regions: list[Region]) -> int:
    """Give every region its offset and return the bytes used.

    The largest region comes first. Each region gets the lowest offset at which it does not overlap
    regions that live at the same time. On nets, best-fit by size is within a few percent of the
    lower bound (Pisarchyk and Lee, 2020, section 5).
    """
    placed: list[Region] = []
    for region in sorted(regions, key=lambda one: (-one.size, one.start)):
        together = sorted(
            (other for other in placed if other.start <= region.end and region.start <= other.end),
            key=lambda other: other.offset,
        )
        offset = 0
        for other in together:
            if offset + region.size <= other.offset:
                break
            offset = max(offset, other.offset + other.size)
        region.offset = offset
        placed.append(region)
    return max((region.offset + region.size for region in regions), default=0)
