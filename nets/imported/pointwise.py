"""Converters of operators that treat each number by itself."""

from __future__ import annotations

import math
from typing import Any

from nets.imported.converters import converts
from nets.imported.layers_made import Step, Unsupported, Value

LARGEST = 3.4e38
# operators without options, and the layer that computes each
PLAIN = {
    "Relu": "ReLU",
    "Sigmoid": "Sigmoid",
    "Tanh": "TanH",
    "HardSwish": "HardSwish",
    "SiLU": "SiLU",
    "Softplus": "BNLL",
    "Abs": "AbsVal",
    "Exp": "Exp",
    "Log": "Log",
}
POWERS = {"Sqrt": 0.5, "Reciprocal": -1.0}


@converts(*PLAIN)
def _plain(step: Step) -> None:
    step.give(step.like(PLAIN[step.node.kind], step.value()))


@converts("Mish")
def _mish(step: Step) -> None:
    x = step.value()
    soft = step.like("BNLL", x, "softplus")
    gate = step.like("TanH", soft, "tanh")
    options = {"operation": "PROD"}
    y = step.add("Eltwise", [x.blob, gate.blob], x.sizes, eltwise_param=options)
    step.give(Value(y.blob, x.sizes, x.order))


@converts("Identity", "Cast", "CastLike")
def _same(step: Step) -> None:
    if step.node.kind == "Cast" and step.attribute("to") not in (1, 10, 11):
        raise Unsupported("it turns computed numbers into whole numbers")
    step.give(step.value())


@converts("Dropout")
def _dropout(step: Step) -> None:
    x = step.value()
    given = step.fixed(1)
    ratio = 0.5 if given is None else float(given.array.ravel()[0])
    if len(step.node.outputs) > 1 and step.made.readers[step.node.outputs[1]]:
        raise Unsupported("its mask is read")
    if not 0 < ratio < 1:
        step.give(x)
        return
    step.give(step.like("Dropout", x, dropout_param={"dropout_ratio": ratio}))


@converts("LeakyRelu")
def _leaky(step: Step) -> None:
    slope = {"negative_slope": float(step.attribute("alpha", 0.01))}
    step.give(step.like("ReLU", step.value(), relu_param=slope))


@converts("Elu")
def _elu(step: Step) -> None:
    alpha = {"alpha": float(step.attribute("alpha", 1.0))}
    step.give(step.like("ELU", step.value(), elu_param=alpha))


@converts("Gelu")
def _gelu(step: Step) -> None:
    tanh = step.attribute("approximate", "none") == "tanh"
    kind = {"approximate": "TANH" if tanh else "ERF"}
    step.give(step.like("GELU", step.value(), gelu_param=kind))


@converts("PRelu")
def _prelu(step: Step) -> None:
    x = step.plain()
    slope = step.array(1)
    if slope.size == 1:
        y = step.add(
            "PReLU", [x.blob], x.sizes, [slope.reshape(())], prelu_param={"channel_shared": True}
        )
    elif slope.size == x.sizes[1] and slope.shape[:1] == x.sizes[1:2]:
        y = step.add("PReLU", [x.blob], x.sizes, [slope.ravel()])
    else:
        raise Unsupported(f"its slope has shape {slope.shape}, expected one number per channel")
    step.give(y)


@converts("Clip")
def _clip(step: Step) -> None:
    x = step.value()
    low, high = (_limit(step, at, default) for at, default in ((1, -LARGEST), (2, LARGEST)))
    if low == 0 and high == LARGEST:
        step.give(step.like("ReLU", x))
    else:
        step.give(step.like("Clip", x, clip_param={"min": low, "max": high}))


def _limit(step: Step, at: int, default: float) -> float:
    found = step.fixed(at)
    number = default if found is None else float(found.array.ravel()[0])
    return max(-LARGEST, min(LARGEST, number))


@converts("HardSigmoid")
def _hard_sigmoid(step: Step) -> None:
    x = step.value()
    alpha, beta = float(step.attribute("alpha", 0.2)), float(step.attribute("beta", 0.5))
    if math.isclose(alpha, 1 / 6, rel_tol=1e-4) and beta == 0.5:
        step.give(step.like("HardSigmoid", x))
        return
    line = step.like("Power", x, "line", power_param={"scale": alpha, "shift": beta})
    step.give(step.like("Clip", line, clip_param={"min": 0.0, "max": 1.0}))


@converts("Neg")
def _neg(step: Step) -> None:
    step.give(power(step, step.value(), scale=-1.0))


@converts(*POWERS)
def _root(step: Step) -> None:
    step.give(power(step, step.value(), power=POWERS[step.node.kind]))


@converts("Softmax", "LogSoftmax")
def _softmax(step: Step) -> None:
    x = step.value()
    axis = {"axis": x.axis(int(step.attribute("axis", -1)))}
    if axis["axis"] == 0:
        raise Unsupported("it sums over the rows of the batch")
    soft = step.like("Softmax", x, softmax_param=axis)
    step.give(step.like("Log", soft, "log") if step.node.kind == "LogSoftmax" else soft)


def power(step: Step, x: Value, part: str = "", **options: Any) -> Value:
    """Return (shift + scale * x) ^ power."""
    return step.like("Power", x, part, power_param=options)
