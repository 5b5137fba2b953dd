"""A builder of ONNX graphs, and the registry of functions that convert layer types.

A value has the name of its blob. If a layer writes a blob in place, the blob has several values,
and all but the last get a number.
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

OPSET = 17  # released in 2022
IR = 8


class Builder:
    """The nodes and constants of one graph. `shapes`: the shape of each value by its name; -1 is a
    size that follows the rows."""

    def __init__(self) -> None:
        self.onnx = need("onnx", "an .onnx file")
        self.nodes: list[Any] = []
        self.constants: dict[str, NDArray[Any]] = {}
        self.shapes: dict[str, Shape] = {}
        self._names: set[str] = set()

    def __repr__(self) -> str:
        return f"<ONNX graph of {len(self.nodes)} nodes>"

    def named(self, wish: str) -> str:
        """Return a name that is not yet used."""
        name = wish
        number = 1
        while name in self._names:
            number += 1
            name = f"{wish}_{number}"
        self._names.add(name)
        return name

    def constant(self, array: Any, wish: str = "constant") -> str:
        """Add an initializer: float32, or int64 for whole numbers. Returns its name."""
        values = np.asarray(array)
        values = values.astype(np.int64 if values.dtype.kind in "iu" else np.float32)
        name = self.named(wish)
        self.constants[name] = np.ascontiguousarray(values).reshape(values.shape)
        return name

    def add(self, kind: str, *inputs: str, to: str = "", **attributes: Any) -> str:
        """Add an operator with one output, named `to` if given. Returns the output's name."""
        output = to or self.named(f"{kind.lower()}")
        self.nodes.append(self.onnx.helper.make_node(kind, list(inputs), [output], **attributes))
        return output

    def reshaped(self, x: str, shape: Sequence[int], to: str = "") -> str:
        """Give x this shape, in which at most one size is open (-1)."""
        return self.add("Reshape", x, self.constant(np.array(shape, np.int64), "shape"), to=to)


class Step:
    """The conversion of one layer.

    `x` are the names of its bottoms, `y` the names of its tops, `blobs` its parameters as arrays.
    `inside` and `outside` are the shapes of bottoms and tops; -1 is a size that follows the rows.
    """

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
        """Add an operator within the layer."""
        return self.graph.add(kind, *inputs, **attributes)

    def cast(self, x: str, whole: bool = False, to: str = "") -> str:
        """Convert x to float32, or to whole numbers. (The operator's attribute is also called
        `to`.)"""
        kind = self.graph.onnx.TensorProto.INT64 if whole else self.graph.onnx.TensorProto.FLOAT
        output = to or self.graph.named("cast")
        self.graph.nodes.append(self.graph.onnx.helper.make_node("Cast", [x], [output], to=kind))
        return output

    def top(self, kind: str, *inputs: str, **attributes: Any) -> None:
        """Add the operator that makes the first top."""
        self.graph.add(kind, *inputs, to=self.y[0], **attributes)

    def constant(self, array: Any, what: str = "constant") -> str:
        """Add a number or an array of the layer."""
        return self.graph.constant(array, f"{self.layer.name}.{what}")

    def parameter(self, at: int, array: NDArray[Any] | None = None) -> str:
        """Add parameter number `at`, or an array made from it, under its name in a checkpoint."""
        return self.graph.constant(
            self.blobs[at] if array is None else array, f"{self.layer.name}.{at}"
        )

    def refused(self, why: str, key: str = "type") -> Exception:
        """Return the error with the reason why this layer cannot be converted, and its line."""
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
    """Add the operators of one layer. Raises NetError if its type has no converter."""
    layer: Layer = step.layer
    converter = CONVERTERS.get(layer.proto.type)
    if converter is None:
        raise step.refused("no composition of ONNX's operators is known for it")
    converter(step, layer)
