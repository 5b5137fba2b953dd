"""A net that runs: the whole, its conv phase or its FC phase, stage by stage, forward and backward.

What lives here: the arrays of one pass and the order in which layers touch them. What never: updates,
messages, data.

One pass: `begin`, `feed` every input, `load` parameters and `forward` each stage, then `backward` the
stages reversed.
Arrays are handed over by reference. Parameter gradients and what crosses the cut are new in every pass, so
they may
travel; every other array is valid until the next pass.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from nets.errors import NetError, did_you_mean
from nets.layers import Run, Setup, Values, make_layer
from nets.layers.base import Shape
from nets.spec import NetSpec
from nets.wiring import Node, Value, wants_gradient, wire
from ops import Array, Backend, OpsError

PARTS = ("all", "conv", "fc")


@dataclass(frozen=True, eq=False)
class Stage:
    """Consecutive layers with at most one that has parameters; `layer` is its name, or None."""

    index: int
    layer: str | None
    layers: tuple[str, ...]
    nodes: tuple[Node, ...] = field(repr=False)


class Net:
    """The layers of one phase ("TRAIN" or "TEST") and one `part` of a net; NetError lists every mistake.

    `batch` is the group's whole batch (default: the prototxt's), `input_shape` the data source's (C, H, W).
    The FC
    phase ("fc") is every InnerProduct and what depends on one, and the losses; the conv phase ("conv") is
    the rest.
    """

    def __init__(
        self,
        spec: NetSpec,
        phase: str,
        *,
        ops: Backend,
        part: str = "all",
        batch: int | None = None,
        input_shape: tuple[int, int, int] | None = None,
        seed: int = 0,
        dtype: Any = np.float32,
    ) -> None:
        if part not in PARTS:
            raise NetError(f"part: found '{part}', expected one of {', '.join(PARTS)}")
        self.spec, self.phase, self.part, self.ops, self.seed = spec.for_phase(phase), phase, part, ops, seed
        self.dtype = np.dtype(dtype)
        self._input_shape = input_shape
        setup = Setup(phase, batch, input_shape)
        self._wiring = wire(self.spec.layers, setup, lambda layer: make_layer(layer, ops, dtype))
        self._nodes = [node for node in self._wiring.nodes if self._takes(node)]
        self._find_borders()
        self._allow_in_place()
        self._senders = [node for i in self._boundary for node in self._owners(i)]
        self.stages = _stages(self._nodes)
        self.params = {n.layer.name: tuple(n.layer.params) for n in self._nodes if n.layer.params}
        self.batch = self._rows = self._first_rows()
        self._arrays: dict[int, Array] = {}
        self._grads: dict[int, Array] = {}
        self._blobs: dict[str, Sequence[Array]] = {}
        self._run = Run(phase, seed, 0, 0, self.batch, self.batch)

    def __repr__(self) -> str:
        size = sum(int(np.prod(p.shape)) for params in self.params.values() for p in params)
        return (
            f"<Net {self.spec.name} {self.phase} part={self.part} batch={self.batch} "
            f"stages={len(self.stages)} parameters={size}>"
        )

    # what the net is

    @property
    def boundary_shapes(self) -> dict[str, Shape]:
        """The shape of each blob of `boundary` for the rows of the present pass."""
        return {self._value(i).name: self._value(i).shape for i in self._boundary}

    @property
    def boundary_grads(self) -> list[str]:
        """The blobs of `boundary` through which gradients flow back (labels are not among them)."""
        return [self._value(i).name for i in self._boundary if self._value(i).needs_grad]

    @property
    def input_shapes(self) -> dict[str, Shape]:
        """The shape of each blob of `inputs` for the rows of the present pass."""
        return {name: self._value(i).shape for name, i in self._inputs.items()}

    def shape(self, name: str) -> Shape:
        """Return the shape of blob `name` (its last value) for the rows of the present pass."""
        return self._value(self._index(name)).shape

    def initial_blobs(self) -> dict[str, tuple[Array, ...]]:
        """Return the first parameters of this part, the same numbers whatever the part."""
        return {
            layer: tuple(self.ops.asarray(p.initial(self.seed, self.dtype)) for p in params)
            for layer, params in self.params.items()
        }

    # one pass

    def begin(self, step: int, rows: tuple[int, int] | None = None) -> None:
        """Start a pass for step `step` over `rows` = [low, high) of the whole batch (default: all)."""
        low, high = rows or (0, self.batch)
        if not 0 <= low < high <= self.batch:
            raise NetError(f"rows: found [{low}, {high}), expected a part of [0, {self.batch})")
        if high - low != self._rows:
            self._wiring.reshape(Setup(self.phase, high - low, self._input_shape))
            self._rows = high - low
        self._run = Run(self.phase, self.seed, step, low, high, self.batch)
        self._arrays, self._grads, self._blobs = {}, {}, {}
        for node in self._senders:
            node.layer.forget("top")
        for i in self._boundary:
            for reader in self._value(i).consumers:
                self._wiring.nodes[reader].layer.forget("bottom")

    def feed(self, name: str, array: Any) -> None:
        """Give the input blob `name`; converted to the net's dtype if it has another, else kept by
        reference.
        """
        if name not in self._inputs:
            near = did_you_mean(name, self._inputs)
            raise NetError(f"input '{name}': the net has no such input{near}, it has {', '.join(self._inputs)}")
        given = self.ops.asarray(array, self.dtype)
        expected = self._value(self._inputs[name]).shape
        if tuple(given.shape) != expected:
            raise NetError(f"input '{name}': found shape {tuple(given.shape)}, expected {expected}")
        self._arrays[self._inputs[name]] = given

    def load(self, layer: str, blobs: Sequence[Array]) -> None:
        """Give a layer's parameters for this pass, by reference; they are never written to."""
        if layer not in self.params:
            near = did_you_mean(layer, self.params)
            raise NetError(f"layer '{layer}': no layer of this part has parameters and that name{near}")
        found = [tuple(blob.shape) for blob in blobs]
        expected = [param.shape for param in self.params[layer]]
        if found != expected:
            raise NetError(f"layer '{layer}': found parameters of shapes {found}, expected {expected}")
        self._blobs[layer] = tuple(blobs)

    def forward(self, stage: Stage) -> None:
        """Run the layers of `stage`; its inputs and parameters must have been given."""
        for node in stage.nodes:
            bottoms = [self._given(i) for i in node.bottoms]
            try:
                tops = node.layer.forward(bottoms, self._parameters(node), self._run)
            except OpsError as error:
                raise node.layer.error("", str(error)) from None
            self._arrays.update(zip(node.tops, tops, strict=True))

    def backward(self, stage: Stage, out: Sequence[Array] | None = None) -> tuple[Array, ...]:
        """Run `stage` backward and return its parameters' gradients, newly allocated or written to `out`."""
        result: tuple[Array, ...] = ()
        for node in reversed(stage.nodes):
            gradients = self._backward_node(node, out if node.layer.params else None)
            result = gradients or result
        return result

    def blob(self, name: str) -> Array:
        """Return blob `name` of this pass (its last value)."""
        return self._given(self._index(name))

    def grad(self, name: str) -> Array:
        """Return the gradient of boundary or input blob `name`, once backward has reached it; zeros if none
        did.
        """
        i = self._inputs[name] if name in self._inputs else self._index(name)
        found = self._grads.get(i)
        return self.ops.zeros(self._value(i).shape, self.dtype) if found is None else found

    def set_grad(self, name: str, array: Any) -> None:
        """Give the gradient of boundary blob `name` to a conv part, before its backward; by reference."""
        if name not in self.boundary_grads:
            expected = ", ".join(self.boundary_grads) or "none"
            raise NetError(f"gradient of '{name}': no gradient crosses here, expected one of: {expected}")
        given = self.ops.asarray(array, self.dtype)
        index = next(i for i in self._boundary if self._value(i).name == name)
        if tuple(given.shape) != self._value(index).shape:
            expected_shape = self._value(index).shape
            raise NetError(f"gradient of '{name}': found shape {tuple(given.shape)}, expected {expected_shape}")
        self._accumulate(index, given)

    def scalars(self) -> dict[str, float]:
        """Return every loss and accuracy computed in this pass, and their weighted total under "loss"."""
        found: dict[str, float] = {}
        total, losses = 0.0, 0
        for node in self._nodes:
            if node.layer.scores and node.tops[0] in self._arrays:
                value = float(self.ops.to_host(self._arrays[node.tops[0]]))
                found[self._value(node.tops[0]).name] = value
                if node.layer.differentiable:
                    total, losses = total + node.layer.loss_weight * value, losses + 1
        return found | ({"loss": total} if losses else {})

    def run(self, inputs: Mapping[str, Any], blobs: Mapping[str, Sequence[Array]], step: int = 0) -> dict[str, float]:
        """Run the whole part forward on the whole batch and return `scalars()`."""
        self.begin(step)
        for name, array in inputs.items():
            self.feed(name, array)
        for stage in self.stages:
            if stage.layer is not None:
                self.load(stage.layer, blobs[stage.layer])
            self.forward(stage)
        return self.scalars()

    # inside

    def _takes(self, node: Node) -> bool:
        return not node.layer.is_source and (self.part == "all" or node.in_fc == (self.part == "fc"))

    def _find_borders(self) -> None:
        """Set `boundary`, `inputs` and `outputs`."""
        values, nodes = self._wiring.values, self._wiring.nodes
        self._boundary = self._wiring.boundary
        self.boundary = [values[i].name for i in self._boundary]
        if len(set(self.boundary)) < len(self.boundary):
            raise NetError(f"net '{self.spec.name}': two values of one blob cross the cut: {self.boundary}")
        sources = [i for node in nodes if node.layer.is_source for i in node.tops]
        self._inputs = {values[i].name: i for i in (self._boundary if self.part == "fc" else sources)}
        self.inputs = list(self._inputs)
        mine = {node.index for node in self._nodes}
        self._names = {values[i].name: i for i in self._inputs.values()}
        self._names |= {values[i].name: i for node in self._nodes for i in node.tops}
        made = [i for node in self._nodes for i in node.tops]
        self.outputs = [values[i].name for i in made if not mine & set(values[i].consumers)]

    def _allow_in_place(self) -> None:
        """Let a layer write over its bottom where nobody else reads the old value."""
        fed = set(self._inputs.values())
        for node in self._nodes:
            names = (list(node.layer.proto.bottom), list(node.layer.proto.top))
            if not node.layer.in_place_ok or names[0] != names[1] or node.bottoms[0] in fed:
                continue
            bottom = self._value(node.bottoms[0])
            maker = self._wiring.nodes[bottom.producer].layer
            free = maker.top_is_free or maker.in_place
            node.layer.in_place = free and bottom.consumers == [node.index]

    def _owners(self, i: int) -> list[Node]:
        """The layers whose buffers value `i` may be a view of."""
        node = self._wiring.nodes[self._value(i).producer]
        through = node.layer.in_place or not node.layer.top_is_free
        return [node, *(owner for below in node.bottoms if through for owner in self._owners(below))]

    def _first_rows(self) -> int:
        """The batch size: the first axis of the first input."""
        shapes = [self._value(i).shape for i in self._inputs.values()]
        if not shapes:
            raise NetError(f"net '{self.spec.name}': no layer gives data, expected a Data or Input layer")
        return shapes[0][0]

    def _backward_node(self, node: Node, out: Sequence[Array] | None) -> tuple[Array, ...]:
        grads = [self._grads.get(i) for i in node.tops]
        is_loss = node.layer.scores and node.layer.differentiable and node.layer.loss_weight != 0
        if not is_loss and all(grad is None for grad in grads):
            return self._no_gradient(node, out)
        values = Values(
            [self._given(i) for i in node.bottoms],
            [self._given(i) for i in node.tops],
            self._parameters(node),
        )
        wanted = wants_gradient(self._wiring, node)
        bottoms, params = node.layer.backward(grads, values, self._run, wanted, out)
        for i, grad in zip(node.bottoms, bottoms, strict=True):
            if grad is not None:
                self._accumulate(i, grad)
        return params

    def _no_gradient(self, node: Node, out: Sequence[Array] | None) -> tuple[Array, ...]:
        """Return zeros for a layer whose tops no loss depends on."""
        result = tuple(out or (self.ops.empty(p.shape, self.dtype) for p in node.layer.params))
        for array in result:
            array[...] = 0
        return result

    def _accumulate(self, i: int, grad: Array) -> None:
        """Add a gradient to value `i`; the first is kept by reference, the sum of two is a new array."""
        known = self._grads.get(i)
        self._grads[i] = grad if known is None else self.ops.add(known, grad)

    def _value(self, i: int) -> Value:
        return self._wiring.values[i]

    def _index(self, name: str) -> int:
        if name not in self._names:
            raise NetError(f"blob '{name}': this part has no such blob{did_you_mean(name, self._names)}")
        return self._names[name]

    def _given(self, i: int) -> Array:
        if i not in self._arrays:
            what = "fed" if i in self._inputs.values() else "computed"
            raise NetError(f"blob '{self._value(i).name}': read before it was {what} in this pass")
        return self._arrays[i]

    def _parameters(self, node: Node) -> Sequence[Array]:
        if node.layer.params and node.layer.name not in self._blobs:
            raise NetError(f"layer '{node.layer.name}': run before its parameters were loaded in this pass")
        return self._blobs.get(node.layer.name, ())


def _stages(nodes: Sequence[Node]) -> list[Stage]:
    """Cut before every layer with parameters but the first."""
    groups: list[list[Node]] = []
    for node in nodes:
        owned = bool(groups) and any(member.layer.params for member in groups[-1])
        if not groups or (node.layer.params and owned):
            groups.append([])
        groups[-1].append(node)
    stages = []
    for index, group in enumerate(groups):
        owner = next((node.layer.name for node in group if node.layer.params), None)
        stages.append(Stage(index, owner, tuple(node.layer.name for node in group), tuple(group)))
    return stages
