"""Small graphs of ONNX for tests, made operator by operator."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

SEED = 3


class Graph:
    """A graph under construction. Its input is "x", of `shape`; its weights are random."""

    def __init__(self, shape: tuple[Any, ...] = ("N", 3, 8, 8), opset: int = 17) -> None:
        import onnx

        self.onnx = onnx
        self.shape = shape
        self.opset = opset
        self.nodes: list[Any] = []
        self.weights: dict[str, NDArray[Any]] = {}
        self.random = np.random.default_rng(SEED)

    def op(self, kind: str, *inputs: Any, outputs: int = 1, **attributes: Any) -> Any:
        """Add an operator and return its output, or a list of several. An input is the name of a
        value, or an array, which becomes a constant."""
        at = len(self.nodes)
        names = [
            f"{kind.lower()}_{at}" if n == 0 else f"{kind.lower()}_{at}.{n}" for n in range(outputs)
        ]
        given = [each if isinstance(each, str) else self.constant(each) for each in inputs]
        self.nodes.append(self.onnx.helper.make_node(kind, given, names, **attributes))
        return names[0] if outputs == 1 else names

    def constant(self, array: Any, name: str = "") -> str:
        """Add an initializer: float32, or int64 for whole numbers."""
        values = np.asarray(array)
        values = values.astype(np.int64 if values.dtype.kind in "iu" else np.float32)
        name = name or f"c{len(self.weights)}"
        self.weights[name] = values
        return name

    def weight(self, *shape: int, module: str = "", low: float = -1.0) -> str:
        """Add a parameter with random numbers from `low` to 1."""
        name = f"{module or f'm{len(self.weights)}'}.weight"
        return self.constant(self.random.uniform(low, 1, shape), name)

    def conv(self, x: str, inputs: int, outputs: int, kernel: int = 3, **attributes: Any) -> str:
        """Add a convolution that keeps the size."""
        options = {"pads": [kernel // 2] * 4, "kernel_shape": [kernel, kernel]} | attributes
        weight = self.weight(outputs, inputs, kernel, kernel)
        return str(self.op("Conv", x, weight, **options))

    def norm(self, x: str, channels: int) -> str:
        """Add a batch normalisation."""
        arrays = [self.random.uniform(0.5, 1.5, channels) for _ in range(4)]
        return str(self.op("BatchNormalization", x, *arrays))

    def scores(self, x: str, width: int, classes: int = 10, module: str = "fc") -> str:
        """Flatten a value of `width` numbers a row, and add the last product."""
        flat = self.op("Flatten", x)
        weight = self.weight(classes, width, module=module)
        bias = self.constant(self.random.uniform(-1, 1, classes), f"{module}.bias")
        return str(self.op("Gemm", flat, weight, bias, transB=1))

    def model(self, *outputs: str) -> Any:
        """Return the model with these outputs."""
        helper, kind = self.onnx.helper, self.onnx.TensorProto.FLOAT
        graph = helper.make_graph(
            self.nodes,
            "net",
            [helper.make_tensor_value_info("x", kind, list(self.shape))],
            [helper.make_tensor_value_info(name, kind, None) for name in outputs],
            [
                self.onnx.numpy_helper.from_array(array, name)
                for name, array in self.weights.items()
            ],
        )
        opset = [helper.make_opsetid("", self.opset)]
        return helper.make_model(graph, opset_imports=opset, ir_version=8)

    def write(self, path: Path, *outputs: str) -> Path:
        """Write the model to a file."""
        path.write_bytes(self.model(*outputs).SerializeToString())
        return path


def small_net(shape: tuple[Any, ...] = ("N", 1, 8, 8), classes: int = 10) -> tuple[Graph, str]:
    """Return a residual net of two blocks for small images, and its output."""
    graph = Graph(shape)
    x = graph.op("Relu", graph.norm(graph.conv("x", shape[1], 8), 8))
    for _ in range(2):
        y = graph.op("Relu", graph.norm(graph.conv(x, 8, 8), 8))
        y = graph.norm(graph.conv(y, 8, 8), 8)
        x = graph.op("Relu", graph.op("Add", y, x))
    return graph, graph.scores(graph.op("GlobalAveragePool", x), 8, classes)
