"""Converters of layers that treat each number separately, and of sums of several blobs."""

from __future__ import annotations

import math
from functools import reduce
from typing import Any

from nets.layers.combine import Eltwise
from nets.layers.elementwise import ELU, Clip, Exp, Log, Power, ReLU
from nets.layers.gates import GELU, Swish
from nets.onnx.graph_builder import Step, converts

ROOT = math.sqrt(2 / math.pi)
CUBIC = 0.044715

PLAIN = {
    "Sigmoid": "Sigmoid",
    "TanH": "Tanh",
    "BNLL": "Softplus",
    "AbsVal": "Abs",
    "Dropout": "Identity",
    "StochasticDepth": "Identity",
    "HardSwish": "HardSwish",
}


@converts(*PLAIN)
def _plain(step: Step, layer: Any) -> None:
    step.top(PLAIN[layer.proto.type], step.x[0])


@converts("ReLU")
def _relu(step: Step, layer: ReLU) -> None:
    if layer.slope:
        step.top("LeakyRelu", step.x[0], alpha=layer.slope)
    else:
        step.top("Relu", step.x[0])


@converts("ELU")
def _elu(step: Step, layer: ELU) -> None:
    step.top("Elu", step.x[0], alpha=layer.alpha)


@converts("Power")
def _power(step: Step, layer: Power) -> None:
    step.top("Pow", _line(step, layer), step.constant(layer.power))


@converts("Exp")
def _exp(step: Step, layer: Exp) -> None:
    factor = 1.0 if layer.base == -1 else math.log(layer.base)
    step.top("Exp", step.add("Mul", _line(step, layer), step.constant(factor)))


@converts("Log")
def _log(step: Step, layer: Log) -> None:
    factor = 1.0 if layer.base == -1 else 1 / math.log(layer.base)
    step.top("Mul", step.add("Log", _line(step, layer)), step.constant(factor))


@converts("Threshold")
def _threshold(step: Step, layer: Any) -> None:
    limit = step.constant(float(layer.proto.threshold_param.threshold))
    step.cast(step.add("Greater", step.x[0], limit), to=step.y[0])


@converts("Clip")
def _clip(step: Step, layer: Clip) -> None:
    step.top("Clip", step.x[0], step.constant(layer.least), step.constant(layer.most))


@converts("Swish", "SiLU")
def _swish(step: Step, layer: Swish) -> None:
    step.top(
        "Mul", step.x[0], step.add("Sigmoid", step.add("Mul", step.x[0], step.constant(layer.beta)))
    )


@converts("GELU")
def _gelu(step: Step, layer: GELU) -> None:
    """ONNX has an operator of this name from opset 20 on."""
    x = step.x[0]
    if layer.tanh:
        cube = step.add("Mul", step.add("Mul", step.add("Mul", x, x), x), step.constant(CUBIC))
        inner = step.add("Mul", step.add("Add", x, cube), step.constant(ROOT))
        risen = step.add("Tanh", inner)
    else:
        risen = step.add("Erf", step.add("Mul", x, step.constant(math.sqrt(0.5))))
    gate = step.add("Mul", step.add("Add", risen, step.constant(1.0)), step.constant(0.5))
    step.top("Mul", x, gate)


@converts("HardSigmoid")
def _hard_sigmoid(step: Step, layer: Any) -> None:
    step.top("HardSigmoid", step.x[0], alpha=1 / 6, beta=0.5)


@converts("PReLU")
def _prelu(step: Step, layer: Any) -> None:
    slope = step.blobs[0]
    step.top(
        "PRelu", step.x[0], step.parameter(0, slope.reshape(-1, *(1,) * (len(step.inside[0]) - 2)))
    )


@converts("Eltwise")
def _eltwise(step: Step, layer: Eltwise) -> None:
    kind = {"SUM": "Add", "PROD": "Mul", "MAX": "Max"}[layer.operation]
    parts = (
        [
            step.add("Mul", name, step.constant(coeff))
            for name, coeff in zip(step.x, layer.coeffs, strict=True)
        ]
        if layer.coeffs
        else step.x
    )
    last = reduce(lambda a, b: step.add(kind, a, b), parts[:-1])
    step.top(kind, last, parts[-1])


def _line(step: Step, layer: Power | Exp | Log) -> str:
    """Return shift + scale * x."""
    scaled = step.add("Mul", step.x[0], step.constant(layer.scale))
    return step.add("Add", scaled, step.constant(layer.shift))
