"""Convolution, deconvolution, pooling, LRN, dense layers."""

from __future__ import annotations

import numpy as np

from ops import ConvGeometry, PoolGeometry
from tests.ops import naive
from tests.ops.cases.case import Arrays, Case, Random, normal

CONV = [  # images, channels, outputs, height, width, geometry
    (1, 1, 20, 9, 9, ConvGeometry((5, 5))),
    (7, 3, 4, 6, 5, ConvGeometry((3, 2), stride=(2, 1), pad=(1, 0))),
    (13, 20, 5, 3, 4, ConvGeometry((1, 1))),
    (2, 3, 6, 7, 5, ConvGeometry((1, 1), stride=(2, 2))),
    (2, 2, 3, 5, 4, ConvGeometry((1, 1), pad=(1, 2))),
    (3, 6, 9, 7, 7, ConvGeometry((3, 3), pad=(2, 1), dilation=(2, 1), groups=3)),
    (2, 50, 4, 4, 4, ConvGeometry((2, 3), stride=(3, 2), pad=(3, 3), groups=2)),
    (1, 4, 4, 8, 8, ConvGeometry((3, 3), stride=(2, 2), dilation=(3, 2), pad=(4, 4), groups=4)),
    (2, 1, 1, 2, 1, ConvGeometry((5, 5), pad=(4, 4))),
    (2, 18, 18, 8, 7, ConvGeometry((3, 3), stride=(2, 1), pad=(1, 1), groups=18)),
]


def conv(n: int, c: int, k: int, h: int, w: int, g: ConvGeometry) -> Case:
    shape = g.output_shape((n, c, h, w), k)

    def backward(b, a, dy, o):
        dw, db = b.conv_backward_weights(
            a["x"], dy, g, a["w"].shape, bias=True, out_w=o[1], out_b=o[2]
        )
        return b.conv_backward_data(dy, a["w"], g, a["x"].shape, out=o[0]), dw, db

    return Case(
        f"convolution {n}x{c}x{h}x{w} to {k}, {g}",
        normal(n, c, h, w, w=(k, c // g.groups, *g.kernel), b=(k,)),
        lambda b, a, o: (b.conv_forward(a["x"], a["w"], a["b"], g, out=o[0]),),
        lambda a: (naive.conv_forward(a["x"], a["w"], a["b"], shape, g),),
        backward,
        ("x", "w", "b"),
    )


DEPTHWISE = [  # images, channels, outputs for each channel, height, width, geometry
    (7, 5, 1, 6, 5, ConvGeometry((3, 3), pad=(1, 1), groups=5)),
    (3, 17, 1, 7, 10, ConvGeometry((5, 5), stride=(2, 2), pad=(2, 2), groups=17)),
    (2, 4, 1, 9, 8, ConvGeometry((3, 5), stride=(2, 3), pad=(1, 2), groups=4)),
    (3, 3, 2, 7, 7, ConvGeometry((3, 2), stride=(1, 2), pad=(2, 0), dilation=(2, 3), groups=3)),
    (2, 1, 3, 2, 1, ConvGeometry((5, 5), pad=(4, 4), groups=1)),
]


def depthwise(n: int, c: int, m: int, h: int, w: int, g: ConvGeometry) -> list[Case]:
    k = m * c
    shape = g.output_shape((n, c, h, w), k)

    def backward(b, a, dy, o):
        dw, db = b.depthwise_backward_weights(
            a["x"], dy, g, a["w"].shape, bias=True, out_w=o[1], out_b=o[2]
        )
        return b.depthwise_backward_data(dy, a["w"], g, a["x"].shape, out=o[0]), dw, db

    def reference(a):
        return naive.conv_forward(a["x"], a["w"], a["b"], shape, g)

    name = f"depthwise filter {n}x{c}x{h}x{w} to {k}, {g}"
    arrays = normal(n, c, h, w, w=(k, 1, *g.kernel), b=(k,))
    return [
        Case(
            name,
            arrays,
            lambda b, a, o: (b.depthwise_forward(a["x"], a["w"], a["b"], g, out=o[0]),),
            lambda a: (reference(a),),
            backward,
            ("x", "w", "b"),
        ),
        Case(
            f"{name}, rectified",
            arrays,
            lambda b, a, o: (
                b.depthwise_forward(a["x"], a["w"], a["b"], g, out=o[0], rectify=True),
            ),
            lambda a: (np.maximum(reference(a), 0),),
        ),
    ]


DECONV = [
    (1, 1, 1, 3, 2, ConvGeometry((4, 4), stride=(2, 2), pad=(1, 1))),
    (7, 4, 6, 2, 3, ConvGeometry((3, 2), stride=(1, 3), pad=(0, 1), groups=2)),
    (2, 3, 3, 4, 3, ConvGeometry((2, 3), stride=(3, 1), dilation=(2, 1), groups=3)),
    (13, 2, 5, 1, 1, ConvGeometry((1, 1))),
]


def deconvolved(a: Arrays, g: ConvGeometry) -> np.ndarray:
    """The definition of deconvolution: every input pixel adds its weights to the output, `stride`
    apart."""
    x = a["x"]
    w = a["w"]
    (n, c, high, wide), (kh, kw) = x.shape, g.kernel
    k = w.shape[1] * g.groups
    sizes = [
        (s - 1) * g.stride[i] + g.dilation[i] * (g.kernel[i] - 1) + 1
        for i, s in enumerate((high, wide))
    ]
    padded = np.zeros((n, k, *sizes))
    per = c // g.groups
    for ci, ko, p, q, i, j in np.ndindex(c, w.shape[1], high, wide, kh, kw):
        row = p * g.stride[0] + i * g.dilation[0]
        column = q * g.stride[1] + j * g.dilation[1]
        padded[:, ci // per * w.shape[1] + ko, row, column] += x[:, ci, p, q] * w[ci, ko, i, j]
    inner = padded[:, :, g.pad[0] : sizes[0] - g.pad[0], g.pad[1] : sizes[1] - g.pad[1]]
    return inner + a["b"][:, None, None]


def deconv(n: int, c: int, k: int, h: int, w: int, g: ConvGeometry) -> Case:
    def backward(b, a, dy, o):
        dw, db = b.deconv_backward_weights(
            a["x"], dy, g, a["w"].shape, bias=True, out_w=o[1], out_b=o[2]
        )
        return b.deconv_backward_data(dy, a["w"], g, a["x"].shape, out=o[0]), dw, db

    return Case(
        f"deconvolution {n}x{c}x{h}x{w} to {k}, {g}",
        normal(n, c, h, w, w=(c, k // g.groups, *g.kernel), b=(k,)),
        lambda b, a, o: (b.deconv_forward(a["x"], a["w"], a["b"], g, out=o[0]),),
        lambda a: (deconvolved(a, g),),
        backward,
        ("x", "w", "b"),
    )


WINDOWS = [  # height, width, kernel, stride, pad
    (6, 8, (2, 2), (2, 2), (0, 0)),
    (7, 8, (3, 3), (2, 2), (0, 0)),
    (6, 5, (3, 2), (1, 2), (1, 1)),
    (5, 5, (3, 3), (2, 2), (1, 1)),
    (4, 3, (4, 3), (1, 1), (0, 0)),
    (3, 7, (1, 1), (2, 3), (0, 0)),
    (2, 3, (3, 4), (3, 2), (2, 3)),
    (2, 1, (3, 5), (2, 1), (0, 4)),
    (13, 12, (9, 8), (2, 1), (4, 3)),
    (12, 11, (6, 7), (1, 1), (0, 0)),
]


def unequal(n: int, c: int, h: int, w: int):
    """Whole numbers without repetition, so that no two are close to a tie."""
    return lambda r: {
        "x": r.permutation(n * c * h * w).reshape(n, c, h, w) * (9.0 / (n * c * h * w)) + 0.1
    }


def ties(n: int, c: int, h: int, w: int):
    return lambda r: {"x": r.integers(-3, 3, (n, c, h, w)).astype(np.float64)}


def pool(h: int, w: int, g: PoolGeometry) -> list[Case]:
    n = 3
    c = 4

    def backward(b, a, dy, o):
        return (b.pool_backward(dy, g, a["x"].shape, b.pool_forward(a["x"], g)[1], out=o[0]),)

    def forward(b, a, o):
        y, place = b.pool_forward(a["x"], g, out=o[0], argmax=o[1])
        return (y, place) if g.mode == "MAX" else (y,)

    def reference(a):
        y, place = naive.pool(a["x"], g)
        return (y, place) if g.mode == "MAX" else (y,)

    def rectified(b, a, o):
        y, place = b.pool_forward(a["x"], g, out=o[0], argmax=o[1], rectify=True)
        return (y, place) if g.mode == "MAX" else (y,)

    def rectified_reference(a):
        y, place = naive.pool(a["x"], g)
        return (
            (np.maximum(y, 0), np.where(y > 0, place, -1))
            if g.mode == "MAX"
            else (np.maximum(y, 0),)
        )

    def backward_rectified(b, a, dy, o):
        return (
            b.pool_backward(
                dy, g, a["x"].shape, b.pool_forward(a["x"], g, rectify=True)[1], out=o[0]
            ),
        )

    def around_zero(r):
        # some windows have no positive pixel, and no pixel is 0
        return {"x": unequal(n, c, h, w)(r)["x"] - 7.001}

    name = f"pooling {h}x{w}, {g}"
    back = backward_rectified if g.mode == "MAX" else None
    cases = [
        Case(name, unequal(n, c, h, w), forward, reference, backward),
        Case(f"{name}, with ties", ties(n, c, h, w), forward, reference),
        Case(f"{name}, rectified", around_zero, rectified, rectified_reference, back),
        Case(f"{name}, rectified, with ties", ties(n, c, h, w), rectified, rectified_reference),
    ]
    if g.mode == "MAX":
        cases.append(
            Case(
                f"{name}, without places", ties(n, c, h, w),
                lambda b, a, o: (b.pool_forward(a["x"], g, out=o[0], argmax=False)[0],),
                lambda a: naive.pool(a["x"], g)[:1],
            )
        )  # fmt: skip
        cases.append(
            Case(
                f"{name}, rectified, without places",
                ties(n, c, h, w),
                lambda b, a, o: (
                    b.pool_forward(a["x"], g, out=o[0], argmax=False, rectify=True)[0],
                ),
                lambda a: (np.maximum(naive.pool(a["x"], g)[0], 0),),
            )
        )
    return cases


def stochastic(h: int, w: int, g: PoolGeometry) -> list[Case]:
    shape = (2, 3, h, w)
    out_shape = g.output_shape(shape)

    def arrays(r: Random) -> Arrays:
        # values like those after a ReLU, including windows full of zeros
        x = np.maximum(r.integers(-2, 4, shape), 0).astype(np.float64)
        # the sums are exact, and some tie with the goal
        return {"x": x, "u": r.integers(0, 16, out_shape) / 16}

    def windows(x):
        for at in np.ndindex(out_shape):
            top = at[2] * g.stride[0]
            left = at[3] * g.stride[1]
            plane = x[at[0], at[1]]
            yield at, top, left, plane[top : top + g.kernel[0], left : left + g.kernel[1]]

    def averaged(a):
        y = np.zeros(out_shape)
        for at, _, _, window in windows(a["x"]):
            y[at] = (window**2).sum() / window.sum() if window.sum() > 0 else 0
        return (y,)

    def sampled(a):
        y = np.zeros(out_shape)
        place = np.zeros(out_shape, np.int32)
        for at, top, left, window in windows(a["x"]):
            goal = a["u"][at] * window.sum()
            running = 0.0
            for i, j in np.ndindex(window.shape):
                running += window[i, j]
                if running >= goal:
                    y[at], place[at] = window[i, j], (top + i) * w + left + j
                    break
        return y, place

    def backward(b, a, dy, o):
        place = b.pool_forward(a["x"], g, uniforms=a["u"])[1]
        return (b.pool_backward(dy, g, a["x"].shape, place, out=o[0]),)

    def sample(b, a, o):
        return b.pool_forward(a["x"], g, out=o[0], argmax=o[1], uniforms=a["u"])

    return [
        Case(
            f"{g} in the test phase",
            arrays,
            lambda b, a, o: b.pool_forward(a["x"], g, out=o[0])[:1],
            averaged,
        ),
        Case(f"{g} in training", arrays, sample, sampled),
        Case(
            f"{g} gradient",
            lambda r: {**unequal(*shape)(r), "u": r.random(out_shape)},
            sample,
            sampled,
            backward,
        ),
    ]


def adaptive(h: int, w: int, high: int, wide: int) -> Case:
    shape = (2, 3, h, w)

    def reference(a):
        y = np.zeros((2, 3, high, wide))
        for n, c, p, q in np.ndindex(y.shape):
            rows = range(int(np.floor(p * h / high)), int(np.ceil((p + 1) * h / high)))
            columns = range(int(np.floor(q * w / wide)), int(np.ceil((q + 1) * w / wide)))
            values = [float(a["x"][n, c, i, j]) for i in rows for j in columns]
            y[n, c, p, q] = sum(values) / len(values)
        return (y,)

    return Case(
        f"adaptive pooling {h}x{w} to {high}x{wide}", normal(*shape),
        lambda b, a, o: (b.adaptive_pool_forward(a["x"], (high, wide), out=o[0]),), reference,
        lambda b, a, dy, o: (b.adaptive_pool_backward(dy, shape, out=o[0]),),
    )  # fmt: skip


def lrn(shape: tuple[int, ...], **options) -> Case:
    size = options["size"]
    region = options["region"]
    back = {name: value for name, value in options.items() if name != "k"}

    def reference(a):
        x = a["x"]
        r = size // 2
        scale = np.zeros(shape)
        for n, c, h, w in np.ndindex(shape):
            if region == "ACROSS_CHANNELS":
                window = x[n, max(0, c - r) : c + r + 1, h, w]
                share = options["alpha"] / size
                k = options["k"]
            else:
                window = x[n, c, max(0, h - r) : h + r + 1, max(0, w - r) : w + r + 1]
                share = options["alpha"] / size**2
                k = 1.0
            scale[n, c, h, w] = k + share * sum(float(v) ** 2 for v in window.flat)
        return x / scale ** options["beta"], scale

    def backward(b, a, dy, o):
        y, scale = b.lrn_forward(a["x"], **options)
        return (b.lrn_backward(dy, a["x"], y, scale, **back, out=o[0]),)

    return Case(
        f"LRN {shape} {options}",
        normal(*shape),
        lambda b, a, o: b.lrn_forward(a["x"], **options, out=o[0], scale=o[1]),
        reference,
        backward,
    )


def flatten(*shape: int) -> Case:
    """A flattened array, every index counted by hand."""
    length = int(np.prod(shape[1:]))

    def reference(a):
        y = np.zeros((shape[0], length))
        for n, *at in np.ndindex(shape):
            place = 0
            for size, index in zip(shape[1:], at, strict=True):
                place = place * size + index
            y[n, place] = a["x"][(n, *at)]
        return (y,)

    return Case(
        f"flatten {shape}",
        normal(*shape),
        lambda b, a, o: (b.flatten(a["x"], out=o[0]),),
        reference,
        lambda b, a, dy, o: (b.unflatten(dy, shape, out=o[0]),),
    )


def copy(*shape: int) -> Case:
    """A copy into a slice of a larger array, which leaves the neighbours of the slice unchanged."""

    def forward(b, a, o):
        wide = b.zeros((shape[0], shape[1] + 5, *shape[2:]), a["x"].dtype)
        b.copy(a["x"], wide[:, 2:-3])
        return (wide,)

    def reference(a):
        return (np.pad(a["x"], [(0, 0), (2, 3)] + [(0, 0)] * (len(shape) - 2)),)

    return Case(f"copy {shape}", normal(*shape), forward, reference, no_out=(0,))


def dense(n: int, d: int, k: int) -> Case:
    def backward(b, a, dy, o):
        dw, db = b.dense_backward_weights(a["x"], dy, bias=True, out_w=o[1], out_b=o[2])
        return b.dense_backward_data(dy, a["w"], out=o[0]), dw, db

    def reference(a):
        return (
            [
                [
                    sum(p * q for p, q in zip(r, s, strict=True)) + t
                    for s, t in zip(a["w"], a["b"], strict=True)
                ]
                for r in a["x"]
            ],
        )

    return Case(
        f"dense {n}x{d} to {k}",
        normal(n, d, w=(k, d), b=(k,)),
        lambda b, a, o: (b.dense_forward(a["x"], a["w"], a["b"], out=o[0]),),
        reference,
        backward,
        ("x", "w", "b"),
    )


CASES = [
    *(conv(*case) for case in CONV),
    *(c for case in DEPTHWISE for c in depthwise(*case)),
    *(deconv(*case) for case in DECONV),
    *(
        c
        for h, w, k, s, p in WINDOWS
        for mode in ("MAX", "AVE")
        for c in pool(h, w, PoolGeometry(k, s, p, mode))
    ),
    *(
        c
        for h, w, k, s, p in (
            (7, 9, (2, 2), (2, 2), (0, 0)),
            (31, 6, (2, 3), (2, 2), (0, 0)),
            (6, 8, (3, 3), (2, 2), (1, 1)),
            (5, 9, (1, 2), (3, 4), (0, 0)),
        )
        for mode in ("MAX", "AVE")
        for c in pool(h, w, PoolGeometry(k, s, p, mode, whole=True))
    ),
    *(
        c
        for k, s in (((2, 2), (2, 2)), ((3, 2), (2, 1)))
        for c in stochastic(6, 5, PoolGeometry(k, s, mode="STOCHASTIC"))
    ),
    *(adaptive(*s) for s in ((7, 5, 3, 2), (6, 4, 3, 4), (5, 5, 1, 1), (2, 3, 4, 5))),
    lrn((7, 13, 2, 3), size=5, alpha=0.3, beta=0.75, k=1.0, region="ACROSS_CHANNELS"),
    lrn((1, 3, 4, 1), size=9, alpha=1.0, beta=0.5, k=2.0, region="ACROSS_CHANNELS"),
    lrn((2, 3, 7, 5), size=3, alpha=0.7, beta=0.75, k=5.0, region="WITHIN_CHANNEL"),
    lrn((1, 1, 2, 9), size=5, alpha=0.7, beta=0.6, k=1.0, region="WITHIN_CHANNEL"),
    *(
        flatten(*s)
        for s in ((7, 3, 4, 5), (2, 50, 4, 4), (3, 17, 6, 6), (1, 97, 1, 1), (13, 5), (2, 16, 4, 8))
    ),
    *(copy(*s) for s in ((7, 3, 4, 5), (1, 20, 3, 3), (13, 7))),
    *(dense(*case) for case in ((1, 50, 3), (13, 7, 20), (7, 1, 1))),
]
