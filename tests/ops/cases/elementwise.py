"""Activations, smooth functions, dropout, scale and bias, sums and products."""

from __future__ import annotations

import math

import numpy as np

from tests.ops.cases.case import Case, away, each, normal, sigmoid
from tests.ops.naive import philox

SHAPE = (7, 3, 2, 5)


def single(name, function, forward, backward=None, arrays=None, **options) -> Case:
    """A case of one array: forward(b, x, out=...), backward(b, dy, x, y, out=...)."""
    return Case(
        f"{name} {options or ''}".strip(),
        arrays or away(*SHAPE),
        lambda b, a, o: (forward(b)(a["x"], **options, out=o[0]),),
        lambda a: (each(function, a["x"]),),
        backward
        and (lambda b, a, dy, o: (backward(b, dy, a["x"], forward(b)(a["x"], **options), o[0]),)),
    )


def positive(r):
    return {"x": r.random(SHAPE) + 0.1}


def relu(slope: float) -> Case:
    return single(
        "relu", lambda v: max(v, 0) + slope * min(v, 0), lambda b: b.relu_forward,
        lambda b, dy, x, y, out: b.relu_backward(dy, x, slope, out=out), negative_slope=slope,
    )  # fmt: skip


def clip(least: float, most: float) -> Case:
    return single(
        "clip", lambda v: min(max(v, least), most), lambda b: b.clip_forward,
        lambda b, dy, x, y, out: b.clip_backward(dy, x, least, most, out=out), wide,
        least=least, most=most,
    )  # fmt: skip


def elu(alpha: float) -> Case:
    return single(
        "elu", lambda v: v if v > 0 else alpha * math.expm1(v), lambda b: b.elu_forward,
        lambda b, dy, x, y, out: b.elu_backward(dy, x, y, alpha, out=out), alpha=alpha,
    )  # fmt: skip


def power(p: float, scale: float, shift: float) -> Case:
    options = {"power": p, "scale": scale, "shift": shift}
    return single(
        "power", lambda v: (shift + scale * v) ** p, lambda b: b.power_forward,
        lambda b, dy, x, y, out: b.power_backward(dy, x, **options, out=out), positive, **options,
    )  # fmt: skip


def exponential(base: float, scale: float, shift: float) -> Case:
    number = math.e if base == -1 else base
    options = {"base": base, "scale": scale, "shift": shift}
    return single(
        "exp", lambda v: number ** (shift + scale * v), lambda b: b.exp_forward,
        lambda b, dy, x, y, out: b.exp_backward(dy, y, base=base, scale=scale, out=out), **options,
    )  # fmt: skip


def logarithm(base: float, scale: float, shift: float) -> Case:
    number = math.e if base == -1 else base
    options = {"base": base, "scale": scale, "shift": shift}
    return single(
        "log", lambda v: math.log(shift + scale * v, number), lambda b: b.log_forward,
        lambda b, dy, x, y, out: b.log_backward(dy, x, **options, out=out), positive, **options,
    )  # fmt: skip


def swish(beta: float) -> Case:
    return single(
        "swish", lambda v: v * sigmoid(beta * v), lambda b: b.swish_forward,
        lambda b, dy, x, y, out: b.swish_backward(dy, x, beta, out=out), beta=beta,
    )  # fmt: skip


def gelu(tanh: bool) -> Case:
    def exact(v):
        return v * math.erfc(-v * math.sqrt(0.5)) / 2

    def near(v):
        return v / 2 * (1 + math.tanh(math.sqrt(2 / math.pi) * (v + 0.044715 * v**3)))

    return single(
        "gelu", near if tanh else exact, lambda b: b.gelu_forward,
        lambda b, dy, x, y, out: b.gelu_backward(dy, x, tanh=tanh, out=out), wide, tanh=tanh,
    )  # fmt: skip


def hard_sigmoid(v: float) -> float:
    return min(max((v + 3) / 6, 0.0), 1.0)


def wide(r):
    """Numbers on both sides of -3 and 3, the kinks of hard_sigmoid, and away from them."""
    x = 4 * r.standard_normal(SHAPE)
    return {"x": np.where(abs(abs(x) - 3) < 0.05, 1.0, x)}


def prelu(slope_shape: tuple[int, ...]) -> Case:
    def backward(b, a, dy, o):
        dx = b.prelu_backward_data(dy, a["x"], a["slope"], out=o[0])
        return dx, b.prelu_backward_slope(dy, a["x"], slope_shape, out=o[1])

    def reference(a):
        slope = np.broadcast_to(a["slope"].reshape((-1, 1, 1)), SHAPE)
        return (each(lambda v, s: v if v > 0 else s * v, a["x"], slope),)

    return Case(
        f"prelu with slopes {slope_shape}",
        away(*SHAPE, slope=slope_shape),
        lambda b, a, o: (b.prelu_forward(a["x"], a["slope"], out=o[0]),),
        reference,
        backward,
        ("x", "slope"),
    )


def dropout(shape: tuple[int, ...], first: int) -> Case:
    key, (_, c, *image) = 0x299F31D0_A4093822, shape

    def kept(row: int, channel: int, *pixel: int) -> bool:
        place = channel * image[0] + pixel[0] if len(pixel) == 1 else channel
        if len(pixel) == 2:
            place = (pixel[0] * image[1] + pixel[1]) * c + channel
        counter = (place // 4, first + row, 0, 0)
        return philox(counter, (key & 0xFFFFFFFF, key >> 32))[place % 4] >= 0.3 * 2**32

    def reference(a):
        x = a["x"]
        return (
            np.array([x[at] / 0.7 if kept(*at) else 0.0 for at in np.ndindex(shape)]).reshape(
                shape
            ),
        )

    return Case(
        f"dropout of {shape}, row 0 is {first}",
        normal(*shape),
        lambda b, a, o: (b.dropout(a["x"], 0.3, key, first, out=o[0]),),
        reference,
        lambda b, a, dy, o: (b.dropout(dy, 0.3, key, first, out=o[0]),),
    )


def drop_rows(shape: tuple[int, ...], first: int) -> Case:
    key = 0x299F31D0_A4093822

    def kept(row: int) -> bool:
        return philox((0, first + row, 0, 0), (key & 0xFFFFFFFF, key >> 32))[0] >= 0.3 * 2**32

    def reference(a):
        return (np.array([x / 0.7 if kept(n) else 0 * x for n, x in enumerate(a["x"])]),)

    return Case(
        f"dropped rows of {shape}, row 0 is {first}",
        normal(*shape),
        lambda b, a, o: (b.drop_rows(a["x"], 0.3, key, first, out=o[0]),),
        reference,
        lambda b, a, dy, o: (b.drop_rows(dy, 0.3, key, first, out=o[0]),),
    )


def lined_up(part, axis):
    """`part` broadcast over SHAPE by index arithmetic."""
    full = np.zeros(SHAPE)
    for at in np.ndindex(SHAPE):
        full[at] = part[at[axis : axis + part.ndim]]
    return full


def scale(shape: tuple[int, ...], axis: int) -> Case:
    start = axis % len(SHAPE)

    def backward(b, a, dy, o):
        dg, db = b.scale_backward_weights(
            a["x"], dy, shape, axis, bias=True, out_gamma=o[1], out_beta=o[2]
        )
        return b.scale_backward_data(dy, a["g"], axis, out=o[0]), dg, db

    return Case(
        f"scale {shape} from axis {axis}",
        normal(*SHAPE, g=shape, c=shape),
        lambda b, a, o: (b.scale_forward(a["x"], a["g"], a["c"], axis, out=o[0]),),
        lambda a: (a["x"] * lined_up(a["g"], start) + lined_up(a["c"], start),),
        backward,
        ("x", "g", "c"),
    )


def bias(shape: tuple[int, ...], axis: int) -> Case:
    return Case(
        f"bias {shape} from axis {axis}", normal(*SHAPE, c=shape),
        lambda b, a, o: (b.bias_forward(a["x"], a["c"], axis, out=o[0]),),
        lambda a: (a["x"] + lined_up(a["c"], axis),),
        lambda b, a, dy, o: (b.bias_backward(dy, shape, axis, out=o[0]),), ("c",),
    )  # fmt: skip


def caffe_winner(*values: float) -> int:
    best = 0 if values[0] > values[1] else 1
    for k in range(2, len(values)):
        best = k if values[k] > values[best] else best
    return best


def eltwise(operation: str, coeffs=None, tied: bool = False) -> Case:
    names = ("x", "p", "q")
    options = {"operation": operation, "coeffs": coeffs}

    def arrays(r):
        if tied:
            return {name: r.integers(0, 3, SHAPE).astype(np.float64) for name in names}
        return {name: r.standard_normal(SHAPE) for name in names}

    def combine(*values):
        if operation == "PROD":
            return math.prod(values)
        if operation == "MAX":
            return max(values)
        return sum(v * c for v, c in zip(values, coeffs or (1, 1, 1), strict=True))

    def reference(a):
        inputs = [a[name] for name in names]
        y = each(combine, *inputs)
        return (y, each(caffe_winner, *inputs)) if operation == "MAX" else (y,)

    def forward(b, a, o):
        y, which = b.eltwise_forward([a[n] for n in names], **options, out=o[0], which=o[1])
        return (y, which) if operation == "MAX" else (y,)

    def backward(b, a, dy, o):
        inputs = [a[n] for n in names]
        which = b.eltwise_forward(inputs, **options)[1]
        return tuple(
            b.eltwise_backward(dy, inputs, **options, which=which, outs=[o[0], o[1], o[2]])
        )

    name = f"eltwise {operation} {coeffs or ''}{' with ties' if tied else ''}"
    return Case(name, arrays, forward, reference, None if tied else backward, names)


def add() -> Case:
    return Case(
        "add", normal(*SHAPE, p=SHAPE), lambda b, a, o: (b.add(a["x"], a["p"], out=o[0]),),
        lambda a: (each(lambda u, v: u + v, a["x"], a["p"]),),
    )  # fmt: skip


CASES = [
    *map(relu, (0.0, 0.1, 2.0, -0.5)),
    *map(prelu, ((3,), (1,), ())),
    *map(elu, (1.0, 0.3)),
    clip(-3.0, 3.0),
    *map(swish, (1.0, 1.5)),
    *map(gelu, (False, True)),
    single(
        "hard sigmoid",
        hard_sigmoid,
        lambda b: b.hard_sigmoid_forward,
        lambda b, dy, x, y, o: b.hard_sigmoid_backward(dy, x, out=o),
        wide,
    ),
    single(
        "hard swish",
        lambda v: v * hard_sigmoid(v),
        lambda b: b.hard_swish_forward,
        lambda b, dy, x, y, o: b.hard_swish_backward(dy, x, out=o),
        wide,
    ),
    single("threshold", lambda v: float(v > 0.4), lambda b: b.threshold_forward, threshold=0.4),
    single(
        "sigmoid",
        sigmoid,
        lambda b: b.sigmoid_forward,
        lambda b, dy, x, y, o: b.sigmoid_backward(dy, y, out=o),
    ),
    single(
        "tanh",
        math.tanh,
        lambda b: b.tanh_forward,
        lambda b, dy, x, y, o: b.tanh_backward(dy, y, out=o),
    ),
    single(
        "bnll",
        lambda v: math.log1p(math.exp(v)),
        lambda b: b.bnll_forward,
        lambda b, dy, x, y, o: b.bnll_backward(dy, x, out=o),
    ),
    single(
        "absolute",
        abs,
        lambda b: b.absolute_forward,
        lambda b, dy, x, y, o: b.absolute_backward(dy, x, out=o),
    ),
    *(
        power(*p)
        for p in (
            (1.0, 2.0, 0.5),
            (2.0, -1.0, 0.3),
            (-0.75, 0.5, 1.0),
            (3.0, 1.0, 0.0),
            (0.0, 2.0, 1.0),
            (0.5, 0.0, 4.0),
        )
    ),
    *(exponential(*p) for p in ((-1.0, 1.0, 0.0), (2.0, 0.5, 1.0), (0.3, -1.0, 0.2))),
    *(logarithm(*p) for p in ((-1.0, 1.0, 0.0), (10.0, 3.0, 1.0), (0.5, 1.0, 0.1))),
    dropout(SHAPE, 0),
    dropout((3, 8, 2, 2), 5),
    dropout((4, 13), 1),
    dropout((2, 16), 2**31),
    dropout((3, 2, 5), 4),
    drop_rows(SHAPE, 0),
    drop_rows((9, 4), 2**31),
    drop_rows((8, 2, 3), 5),
    *(scale(*p) for p in (((3,), 1), ((3, 2), 1), ((), 0), (SHAPE, 0), ((2, 5), -2), ((7,), 0))),
    *(bias(*p) for p in (((3,), 1), ((2, 5), 2), ((), 1))),
    eltwise("SUM"),
    eltwise("SUM", (1.0, -2.0, 0.5)),
    eltwise("PROD"),
    eltwise("MAX"),
    eltwise("MAX", tied=True),
    add(),
]
