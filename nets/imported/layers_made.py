"""The layers that a graph becomes, with their weights, and the values between them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from nets.imported.folding import ROWS
from nets.imported.model_file import Graph, Node
from nets.schema import caffe_pb2 as caffe

Shape: TypeAlias = tuple[int, ...]
MSRA = {"type": "msra"}
ONE = {"type": "constant", "value": 1.0}


class Unsupported(Exception):
    """A node that no layer computes, with the reason."""


@dataclass(frozen=True)
class Value:
    """A value that depends on the image: a blob, whose first size is ROWS.

    `order`: axis i of the value is axis order[i] of the blob, so that a Transpose needs no layer
    where the next layer can take another axis.
    """

    blob: str
    sizes: Shape
    order: Shape

    @classmethod
    def plain(cls, blob: str, sizes: Sequence[int]) -> Value:
        """Return the value that is a blob itself."""
        return cls(blob, tuple(sizes), tuple(range(len(sizes))))

    @property
    def shape(self) -> Shape:
        """The shape of the value in the graph."""
        return tuple(self.sizes[axis] for axis in self.order)

    @property
    def is_plain(self) -> bool:
        """Whether the value is the blob itself."""
        return self.order == tuple(range(len(self.order)))

    def axis(self, axis: int) -> int:
        """Return the axis of the blob that is `axis` of the value. Raises Unsupported if there is
        no such axis."""
        if not -len(self.order) <= axis < len(self.order):
            raise Unsupported(f"found axis {axis} of a value of shape {shown(self.shape)}")
        return self.order[axis]


@dataclass(frozen=True)
class Fixed:
    """A constant of the graph. `learned`: it is a parameter, or computed from one; the name of the
    parameter, "" for other constants."""

    array: NDArray[Any]
    learned: str = ""


@dataclass
class Made:
    """The layers so far, in the order of the graph, and the weights of each."""

    graph: Graph
    layers: list[caffe.LayerParameter] = field(default_factory=list)
    weights: dict[str, list[NDArray[Any]]] = field(default_factory=dict)
    values: dict[str, Value | Fixed] = field(default_factory=dict)
    readers: Counter[str] = field(default_factory=Counter)  # how many nodes read each value
    kinds: dict[str, str] = field(default_factory=dict)  # of the node that made each value
    computed: list[str] = field(default_factory=list)  # parameters that other arrays replace
    names: set[str] = field(default_factory=lambda: {"data", "label", "loss", "accuracy"})

    @classmethod
    def begun(cls, graph: Graph) -> Made:
        """Return no layers, and the value of the image."""
        made = cls(graph)
        made.readers.update(graph.outputs)
        for node in graph.nodes:
            made.readers.update(node.inputs)
        made.values[graph.input] = Value.plain("data", (ROWS, *graph.shape))
        return made

    def named(self, wish: str) -> str:
        """Return a name for a layer that is not yet used."""
        name = wish
        number = 1
        while name in self.names:
            number += 1
            name = f"{wish}_{number}"
        self.names.add(name)
        return name

    def add(
        self,
        kind: str,
        wish: str,
        bottoms: Sequence[str],
        weights: Sequence[NDArray[Any]] = (),
        *,
        tops: int = 1,
        fixed: bool = False,
        **blocks: Any,
    ) -> list[str]:
        """Add a layer and return its tops. `fixed`: its weights are not learned."""
        name = self.named(wish)
        made = [name] if tops == 1 else [self.named(f"{name}/{at}") for at in range(tops)]
        layer = caffe.LayerParameter(name=name, type=kind, bottom=bottoms, top=made, **blocks)
        if fixed:
            layer.param.extend(caffe.ParamSpec(lr_mult=0, decay_mult=0) for _ in weights)
        self.layers.append(layer)
        if weights:
            self.weights[name] = [np.ascontiguousarray(each, np.float32) for each in weights]
        return made

    def maker(self, blob: str) -> caffe.LayerParameter | None:
        """Return the layer that makes a blob."""
        return next((layer for layer in reversed(self.layers) if blob in layer.top), None)


class Step:
    """The conversion of one node."""

    def __init__(self, made: Made, node: Node) -> None:
        self.made = made
        self.node = node
        self.inputs = [made.values[name] if name else None for name in node.inputs]
        learned = [each.learned for each in self.inputs if isinstance(each, Fixed) and each.learned]
        self.name = _stem(learned[0] if learned else "", node)

    def __repr__(self) -> str:
        return f"<{self.node.kind} {self.name}>"

    @property
    def opset(self) -> int:
        """The version of the operators."""
        return self.made.graph.opset

    def attribute(self, name: str, default: Any = None) -> Any:
        """Return an attribute of the node. Raises Unsupported if it has no default and is
        missing."""
        found = self.node.attributes.get(name, default)
        if found is None:
            raise Unsupported(f"attribute '{name}' is missing")
        return found

    def value(self, at: int = 0) -> Value:
        """Return input `at`, which must depend on the image."""
        found = self.inputs[at] if at < len(self.inputs) else None
        if not isinstance(found, Value):
            raise Unsupported(f"input {at} is {'a constant' if found else 'missing'}")
        return found

    def plain(self, at: int = 0) -> Value:
        """Return input `at` with its axes in the order of the graph, by a Permute if needed."""
        return self.straight(self.value(at))

    def image(self, at: int = 0) -> Value:
        """Return input `at` if it is an image (N, C, H, W)."""
        found = self.plain(at)
        if len(found.sizes) != 4:
            raise Unsupported(f"found shape {shown(found.shape)}, expected images (N, C, H, W)")
        return found

    def fixed(self, at: int) -> Fixed | None:
        """Return input `at`, which must be a constant; None if it is left out."""
        found = self.inputs[at] if at < len(self.inputs) else None
        if isinstance(found, Value):
            raise Unsupported(f"input {at} depends on the image, expected a constant")
        return found

    def array(self, at: int) -> NDArray[Any]:
        """Return the numbers of input `at`, a constant that must be there."""
        found = self.fixed(at)
        if found is None:
            raise Unsupported(f"input {at} is missing")
        return found.array

    @property
    def constants(self) -> list[NDArray[Any]]:
        """All inputs that are constants, with an empty array for the image and for a missing
        one."""
        empty = np.empty(0)
        return [each.array if isinstance(each, Fixed) else empty for each in self.inputs]

    def add(
        self,
        kind: str,
        bottoms: Sequence[str],
        sizes: Sequence[int],
        weights: Sequence[NDArray[Any]] = (),
        *,
        part: str = "",
        fixed: bool = False,
        **blocks: Any,
    ) -> Value:
        """Add a layer with one top of these sizes. `part`: the part of the node that it
        computes."""
        wish = f"{self.name}/{part}" if part else self.name
        top = self.made.add(kind, wish, bottoms, weights, fixed=fixed, **blocks)[0]
        return Value.plain(top, sizes)

    def like(self, kind: str, x: Value, part: str = "", **blocks: Any) -> Value:
        """Add a layer that computes each number by itself."""
        return replace(self.add(kind, [x.blob], x.sizes, part=part, **blocks), order=x.order)

    def straight(self, x: Value) -> Value:
        """Return a value whose blob has the axes in the order of the graph."""
        if x.is_plain:
            return x
        if x.order[0] != 0:
            raise Unsupported("the rows of the batch are not the first axis")
        order = {"order": list(x.order)}
        return self.add("Permute", [x.blob], x.shape, part="permute", permute_param=order)

    def reshaped(self, x: Value, shape: Sequence[int], part: str = "reshape") -> Value:
        """Return x in another shape, whose first size is ROWS."""
        if tuple(shape) == x.shape:
            return x
        x = self.straight(x)
        if shape[0] != ROWS or x.sizes[0] != ROWS:
            raise Unsupported(
                f"it turns {shown(x.shape)} into {shown(shape)}: it joins or cuts the rows"
            )
        if len(shape) == 2:
            return self.add("Flatten", [x.blob], shape, part=part)
        dims = {"dim": [0, *shape[1:]]}
        return self.add("Reshape", [x.blob], shape, part=part, reshape_param={"shape": dims})

    def tiled(self, x: Value, axis: int, count: int) -> Value:
        """Return x with `count` numbers along an axis that has one."""
        if x.sizes[axis] == count:
            return x
        if count == ROWS:
            raise Unsupported("it repeats one row for the whole batch")
        sizes = (*x.sizes[:axis], count, *x.sizes[axis + 1 :])
        options = {"axis": axis, "tiles": count}
        return self.add("Tile", [x.blob], sizes, part="tile", tile_param=options)

    def give(self, *results: Value | Fixed) -> None:
        """Give the outputs of the node."""
        self.made.values.update(zip(self.node.outputs, results, strict=False))
        self.made.kinds.update(dict.fromkeys(self.node.outputs, self.node.kind))

    def takes_only(self, at: int, *kinds: str) -> bool:
        """Whether a node of one of these kinds made input `at`, and no other node reads it."""
        name = self.node.inputs[at]
        return self.made.readers[name] == 1 and self.made.kinds.get(name) in kinds


def shown(shape: Sequence[int]) -> str:
    """Return a shape for people, with N for the rows."""
    return f"({', '.join('N' if size == ROWS else str(size) for size in shape)})"


def _stem(learned: str, node: Node) -> str:
    """Return a layer's name: that of its parameters' module, or the node's."""
    stem, _, last = learned.rpartition(".")
    if stem and last in ("weight", "bias", "gamma", "beta", "kernel"):
        return stem
    return node.name.strip("/") or node.kind
