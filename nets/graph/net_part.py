"""A net before it computes: its layers, their shapes and parameters, as a whole or one side of a
cut."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from nets.definition.params import ParamSpec
from nets.definition.spec import NetSpec
from nets.errors import NetError, did_you_mean
from nets.graph.borders import PARTS, find_borders, first_rows, takes
from nets.graph.fusion import join
from nets.graph.in_place import allow_in_place, owners, readers
from nets.graph.net_memory import MemoryPlan, Planner
from nets.graph.sharing import check_cut, share
from nets.graph.stages import cut
from nets.graph.storage import store
from nets.graph.streams import is_recurrent, streams_of
from nets.graph.wiring import Node, Value, wire
from nets.layers import Setup, make_layer
from nets.layers.base import Shape
from nets.layers.dense import InnerProduct
from ops import Array, Backend

MEMORY = ("kept", "reused")


class PartOfNet:
    """The layers of one phase ("TRAIN" or "TEST") and one `part` of a net. Raises NetError with
    every mistake.

    `batch` is the group's whole batch (default: the prototxt's). It may be changed between two
    passes. `input_shape` is the data source's (C, H, W). `nodes` are the layers of this part in
    their order, `wiring` has the layers of all parts and the values that they read and write.

    The FC phase ("fc") has every InnerProduct and Embed layer, the layers that depend on one, and
    the losses. The conv phase ("conv") has the other layers. A "link" is a piece of an FC
    phase (`sharding`): it returns the gradients of its inputs `through`, and it is given the
    gradient of its end. Recurrent layers and all layers below them belong to the conv phase.

    `params` are the parameters of the layers, by their names; those of frozen layers are in
    `frozen` instead (`NetSpec.freezing`).

    `recurrent`: the net has recurrent layers. `streams` are the streams of such a net, which are
    then its rows (`nets.graph.streams`). They are None for other nets, and for recurrent nets whose
    inputs have other shapes: there the rows are steps of time.

    With `memory` "reused", arrays that are never needed together share a place in one block. The
    block is planned before the first pass (`memory_plan`). After a pass, only inputs, outputs and
    values that cross the cut may be read. With "kept", every blob stays valid until the next pass.
    """

    def __init__(
        self,
        spec: NetSpec,
        phase: str,
        *,
        ops: Backend,
        part: str = "all",
        through: Collection[str] = (),
        batch: int | None = None,
        input_shape: Shape | Mapping[str, Shape] | None = None,
        seed: int = 0,
        dtype: Any = np.float32,
        level: int | None = None,
        stages: tuple[str, ...] = (),
        memory: str = "kept",
    ) -> None:
        _check_choice("part", part, PARTS)
        _check_choice("memory", memory, MEMORY)
        self.spec = spec.for_phase(phase, level=level, stages=stages)
        self.phase = phase
        self.part = part
        self.ops = ops
        self.seed = seed
        self.dtype = np.dtype(dtype)
        self._input_shape = input_shape
        self.streams = streams_of(self.spec)
        setup = Setup(phase, batch, input_shape, self.streams)
        force = part == "all" and self.spec.proto.force_backward
        self.wiring = wire(
            self.spec.layers, setup, lambda layer: make_layer(layer, ops, dtype), through, force
        )
        self.recurrent = is_recurrent(self.spec)
        self._sharing = share([node.layer for node in self.wiring.nodes])
        self.nodes = [node for node in self.wiring.nodes if takes(node, part)]
        if part in ("conv", "fc"):
            check_cut(self._sharing, self.wiring.nodes)
        borders = find_borders(self.wiring, self.nodes, part, through, self.spec.name)
        self._boundary = borders.boundary
        self._check_streams(batch)
        self._inputs = borders.inputs
        self._names = borders.names
        self.boundary = [self._value(i).name for i in self._boundary]
        self.inputs = list(self._inputs)
        self.outputs = borders.outputs
        self._share_work(memory == "reused")
        travels = self._boundary if part != "all" else []
        self._senders = [node for i in travels for node in owners(self.wiring, i)]
        self._receivers = [node for i in travels for node in readers(self.wiring, i)]
        self._owned = {n.index: self._sharing.owned(n.index, n.layer) for n in self.nodes}
        self.stages = cut(self.nodes, self._given_blobs)
        self.params, self.frozen = (
            self._parameters_of(frozen=False),
            self._parameters_of(frozen=True),
        )
        axis = 0 if self.streams is None else 1
        self.batch = self._rows = first_rows(self.wiring, self._inputs, self.spec.name, axis)
        self._reuses = memory == "reused"
        self._prepare()

    def _share_work(self, reused: bool) -> None:
        """Let layers write in place, join layers, and choose how their values are stored."""
        inputs = set(self._inputs.values())
        allow_in_place(self.wiring, self.nodes, inputs)
        if self.ops.joins:
            join(self.wiring, self.nodes, reused)
        # values between the phases are alike in a net that is not cut, so that it has the same bits
        crossing = {*inputs, *self._boundary, *self.wiring.boundary}
        store(self.wiring, self.nodes, self.ops, crossing)

    def _prepare(self) -> None:
        """Prepare to compute. Called once, when all attributes above are set; subclasses override
        it."""

    @property
    def _given_blobs(self) -> dict[int, list[int]]:
        """The parameters of each layer, by its index, that every pass is given: those that it owns,
        unless it is frozen."""
        return {n.index: [] if n.layer.frozen else self._owned[n.index] for n in self.nodes}

    def _parameters_of(self, *, frozen: bool) -> dict[str, tuple[ParamSpec, ...]]:
        """The parameters that frozen layers own, or those of all other layers."""
        return {
            node.layer.name: tuple(node.layer.params[at] for at in owned)
            for node in self.nodes
            if node.layer.frozen == frozen and (owned := self._owned[node.index])
        }

    def __repr__(self) -> str:
        size = sum(int(np.prod(p.shape)) for params in self.params.values() for p in params)
        return (
            f"<Net {self.spec.name} {self.phase} part={self.part} batch={self.batch} "
            f"stages={len(self.stages)} parameters={size}>"
        )

    @property
    def boundary_shapes(self) -> dict[str, Shape]:
        """The shape of each blob of `boundary` for the rows of the present pass."""
        return {self._value(i).name: self._value(i).shape for i in self._boundary}

    @property
    def boundary_grads(self) -> list[str]:
        """The blobs of `boundary` through which gradients flow back. Labels are not among them."""
        return [self._value(i).name for i in self._boundary if self._value(i).needs_grad]

    @property
    def input_shapes(self) -> dict[str, Shape]:
        """The shape of each blob of `inputs` for the rows of the present pass."""
        return {name: self._value(i).shape for name, i in self._inputs.items()}

    def shape(self, name: str) -> Shape:
        """Return the shape of blob `name` (its last value) for the rows of the present pass."""
        return self._value(self._index(name)).shape

    def initial_blobs(self, layers: Iterable[str] | None = None) -> dict[str, tuple[Array, ...]]:
        """Return the first parameters of this part, or of some of its layers. They are the same in
        every part."""
        return {
            layer: tuple(
                self.ops.asarray(p.initial(self.seed, self.dtype)) for p in self.params[layer]
            )
            for layer in (self.params if layers is None else layers)
        }

    @property
    def memory_plan(self) -> MemoryPlan:
        """The places of all arrays in a pass with the present rows, if memory is reused. No memory
        is allocated."""
        sent, received = (
            frozenset(node.index for node in nodes) for nodes in (self._senders, self._receivers)
        )
        given = frozenset(self._boundary if self.part in ("conv", "link") else ())
        return Planner(
            self.wiring, self.nodes, self.phase == "TRAIN", self.dtype, sent, received, given
        ).plan()

    @property
    def scratch(self) -> int:
        """The most bytes of scratch memory that the backend needs for one operation."""
        return max((self._scratch_of(node) for node in self.nodes), default=0)

    def _scratch_of(self, node: Node) -> int:
        training = self.phase == "TRAIN" and node.runs_back
        return node.layer.scratch([self._value(i).shape for i in node.bottoms], training)

    def cut_units(self, cut: Callable[[int], Sequence[slice]]) -> None:
        """Let every InnerProduct compute the groups of units in `cut(its units)` separately (see
        InnerProduct.unit_parts)."""
        for node in self.nodes:
            if isinstance(node.layer, InnerProduct):
                node.layer.unit_parts = cut(node.layer.top_shape[-1])

    def row_shape(self, name: str) -> Shape:
        """Return the shape of one row of input or boundary blob `name`."""
        shape = self.input_shapes[name] if name in self._inputs else self.boundary_shapes[name]
        return shape[1:] if self.streams is None else (*shape[:1], *shape[2:])

    def _check_streams(self, batch: int | None) -> None:
        """Raise NetError if a blob crosses the cut without an axis of streams."""
        if self.streams is None or self.part == "all":
            return
        expected = (self.streams.steps, batch or self.streams.number)
        for i in self._boundary:
            value = self._value(i)
            if value.shape[:2] != expected:
                raise NetError(
                    f"net '{self.spec.name}': blob '{value.name}' crosses the cut with shape "
                    f"{value.shape}, expected {expected} first: steps and streams"
                )

    def _value(self, i: int) -> Value:
        return self.wiring.values[i]

    def _index(self, name: str) -> int:
        if name not in self._names:
            raise NetError(
                f"blob '{name}': this part has no such blob{did_you_mean(name, self._names)}"
            )
        return self._names[name]


def _check_choice(key: str, found: str, known: Collection[str]) -> None:
    if found not in known:
        raise NetError(f"{key}: found '{found}', expected one of {', '.join(known)}")
