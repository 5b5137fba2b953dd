"""An ONNX graph as it grows, and which function converts which type of layer.

Values are called by their blobs; a blob that a layer writes in place has several, and all but the
last get a number.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from nets.files.extras import need
from nets.graph.wiring import Node
from nets.layers import Layer
from nets.layers.base import Shape

OPSET = 17  # of 2022
IR = 8


class Builder:
    """Nodes and constants of one graph. `shapes`: of each value by its name, -1 where it follows
    the rows."""

    def __init__(self) -> None:
        self.onnx = need("onnx", "an .onnx file")
        self.nodes: list[Any] = []
        self.constants: dict[str, NDArray[Any]] = {}
        self.shapes: dict[str, Shape] = {}
        self._names: set[str] = set()

    def __repr__(self) -> str:
        return f"<ONNX graph of {len(self.nodes)} nodes>"

    def named(self, wish: str) -> str:
        """A name that nobody has."""
        name = wish
        number = 1
        while name in self._names:
            number += 1
            name = f"{wish}_{number}"
        self._names.add(name)
        return name

    def constant(self, array: Any, wish: str = "constant") -> str:
        """An initializer: float32, or int64 for whole numbers."""
        values = np.asarray(array)
        values = values.astype(np.int64 if values.dtype.kind in "iu" else np.float32)
        name = self.named(wish)
        self.constants[name] = np.ascontiguousarray(values).reshape(values.shape)
        return name

    def add(self, kind: str, *inputs: str, to: str = "", **attributes: Any) -> str:
        """An operator with one output, called `to` where that is wanted; its name."""
        output = to or self.named(f"{kind.lower()}")
        self.nodes.append(self.onnx.helper.make_node(kind, list(inputs), [output], **attributes))
        return output

    def reshaped(self, x: str, shape: Sequence[int], to: str = "") -> str:
        """x in this shape, in which at most one size is open (-1)."""
        return self.add("Reshape", x, self.constant(np.array(shape, np.int64), "shape"), to=to)


class Step:
    """One layer while it is converted: `x`, the names of its bottoms, `y`, those of its tops,
    `blobs`, its parameters as arrays; `inside` and `outside` are the shapes of bottoms and tops, -1
    where a size follows the rows."""

    def __init__(
        self,
        builder: Builder,
        node: Node,
        x: Sequence[str],
        y: Sequence[str],
        blobs: Sequence[NDArray[Any]],
    ) -> None:
        self.graph = builder
        self.layer = node.layer
        self.x = list(x)
        self.y = list(y)
        self.blobs = list(blobs)
        self.inside = [builder.shapes[name] for name in x]
        self.outside = [builder.shapes[name] for name in y]

    def __repr__(self) -> str:
        return f"<layer {self.layer.name}: {self.x} -> {self.y}>"

    def add(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """An operator within the layer."""
        return self.graph.add(kind, *inputs, **attributes)

    def cast(self, x: str, whole: bool = False, to: str = "") -> str:
        """x as float32, or as whole numbers. (The operator's attribute is called `to`, too.)"""
        kind = self.graph.onnx.TensorProto.INT64 if whole else self.graph.onnx.TensorProto.FLOAT
        output = to or self.graph.named("cast")
        self.graph.nodes.append(self.graph.onnx.helper.make_node("Cast", [x], [output], to=kind))
        return output

    def top(self, kind: str, *inputs: str, **attributes: Any) -> None:
        """The operator that makes the first top."""
        self.graph.add(kind, *inputs, to=self.y[0], **attributes)

    def constant(self, array: Any, what: str = "constant") -> str:
        """A number or an array of the layer."""
        return self.graph.constant(array, f"{self.layer.name}.{what}")

    def parameter(self, at: int, array: NDArray[Any] | None = None) -> str:
        """Parameter number `at`, or what is made of it, called as in a checkpoint."""
        return self.graph.constant(
            self.blobs[at] if array is None else array, f"{self.layer.name}.{at}"
        )

    def refused(self, why: str, key: str = "type") -> Exception:
        """The error that says why this layer cannot be converted, with its line."""
        return self.layer.error(key, f"'{self.layer.proto.type}' has no counterpart in ONNX: {why}")


Converter: TypeAlias = Callable[[Step, Any], None]
CONVERTERS: dict[str, Converter] = {}


def converts(*types: str) -> Callable[[Converter], Converter]:
    """Register a function that converts layers of these types."""

    def register(converter: Converter) -> Converter:
        for name in types:
            CONVERTERS[name] = converter
        return converter

    return register


def convert(step: Step) -> None:
    """Add the operators of one layer. NetError if there are none for it."""
    layer: Layer = step.layer
    converter = CONVERTERS.get(layer.proto.type)
    if converter is None:
        raise step.refused("nobody here knows how to compose it of ONNX's operators")
    converter(step, layer)
