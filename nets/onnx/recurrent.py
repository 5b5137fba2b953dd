"""Converters of Caffe's recurrent layers.

ONNX's LSTM has no `cont`, which starts a new sequence at any step. Therefore the steps are the body
of a Scan, written with single operators. One product before the Scan computes the input's part of
all gates.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nets.layers.recurrent import LSTM, RNN, Recurrent
from nets.onnx.graph_builder import Step, converts


class Body:
    """The graph of one step, from its inputs to its outputs."""

    def __init__(self, step: Step, inputs: dict[str, tuple[int, ...]]) -> None:
        self._step = step
        self._inputs = inputs
        self.nodes = list[Any]()

    def add(self, kind: str, *inputs: str, to: str = "", **attributes: Any) -> str:
        """Add an operator of the body."""
        output = to or self._step.graph.named(f"{kind.lower()}")
        self.nodes.append(
            self._step.graph.onnx.helper.make_node(kind, list(inputs), [output], **attributes)
        )
        return output

    def graph(self, outputs: dict[str, tuple[int, ...]]) -> Any:
        """Return the body as an attribute."""
        helper = self._step.graph.onnx.helper
        kind = self._step.graph.onnx.TensorProto.FLOAT
        made = [
            [helper.make_tensor_value_info(name, kind, shape) for name, shape in values.items()]
            for values in (self._inputs, outputs)
        ]
        return helper.make_graph(self.nodes, f"{self._step.layer.name} step", *made)


@converts("LSTM")
def _lstm(step: Step, layer: LSTM) -> None:
    rows = layer.rows
    hidden = layer.hidden
    names = _names(step, "h", "c", "gates", "cont", "h new", "c new", "h out")
    h, c, gates, cont, h_new, c_new, out = names
    state = (rows, hidden)
    body = Body(step, {h: state, c: state, gates: (rows, 4 * hidden), cont: (rows, 1)})
    total = body.add("Add", gates, body.add("MatMul", body.add("Mul", h, cont), _turned(step)))
    parts = _names(step, "i", "f", "o", "g")
    sizes = step.constant(np.full(4, hidden), "sizes")
    body.nodes.append(step.graph.onnx.helper.make_node("Split", [total, sizes], parts, axis=1))
    i, f, o = (body.add("Sigmoid", part) for part in parts[:3])
    kept = body.add("Mul", body.add("Mul", f, c), cont)
    body.add("Add", kept, body.add("Mul", i, body.add("Tanh", parts[3])), to=c_new)
    body.add("Mul", o, body.add("Tanh", c_new), to=h_new)
    body.add("Identity", h_new, to=out)
    _scan(step, layer, body.graph({h_new: state, c_new: state, out: state}), step.y[0])


@converts("RNN")
def _rnn(step: Step, layer: RNN) -> None:
    rows = layer.rows
    hidden = layer.hidden
    h, gates, cont, h_new, out = _names(step, "h", "gates", "cont", "h new", "h out")
    body = Body(step, {h: (rows, hidden), gates: (rows, hidden), cont: (rows, 1)})
    body.add(
        "Tanh",
        body.add("Add", gates, body.add("MatMul", body.add("Mul", h, cont), _turned(step, -3))),
        to=h_new,
    )
    body.add("Identity", h_new, to=out)
    states = step.graph.named(f"{step.layer.name}.states")
    _scan(step, layer, body.graph({h_new: (rows, hidden), out: (rows, hidden)}), states)
    product = step.add("MatMul", states, step.constant(step.blobs[-2].T, "weight_o"))
    step.top("Tanh", step.add("Add", product, step.constant(step.blobs[-1], "bias_o")))


def _scan(step: Step, layer: Recurrent, body: Any, outputs: str) -> None:
    """Run the body over all steps of time. Its inputs are the states before the first step, then
    the gate inputs and cont of each step."""
    rows = layer.rows
    hidden = layer.hidden
    given = layer.exposed
    if given:
        starts = [step.graph.reshaped(name, (rows, hidden)) for name in step.x[-layer.states :]]
    else:
        starts = [
            step.constant(np.zeros((rows, hidden), np.float32), "start")
            for _ in range(layer.states)
        ]
    ends = _names(step, *(f"end {at}" for at in range(layer.states)))
    cont = step.graph.reshaped(step.x[1], (-1, rows, 1))
    inputs = [*starts, _gate_inputs(step, layer), cont]
    helper = step.graph.onnx.helper
    step.graph.nodes.append(
        helper.make_node("Scan", inputs, [*ends, outputs], body=body, num_scan_inputs=2)
    )
    for name, end in zip(step.y[1:], ends, strict=False):
        step.graph.reshaped(end, (1, rows, hidden), to=name)


def _gate_inputs(step: Step, layer: Recurrent) -> str:
    """Return the input's part of the inputs of every gate, for all steps (T, N, G)."""
    x = step.graph.reshaped(step.x[0], (-1, layer.rows, layer.width))
    found = step.add(
        "Add", step.add("MatMul", x, step.parameter(0, step.blobs[0].T)), step.parameter(1)
    )
    if not layer.static:
        return found
    static = step.graph.reshaped(step.x[2], (layer.rows, layer.static))
    return step.add("Add", found, step.add("MatMul", static, step.parameter(2, step.blobs[2].T)))


def _turned(step: Step, at: int = -1) -> str:
    """Return the state's weights, with the inputs first."""
    return step.constant(step.blobs[at].T, "weight_h")


def _names(step: Step, *names: str) -> list[str]:
    return [step.graph.named(f"{step.layer.name}.{name}") for name in names]
