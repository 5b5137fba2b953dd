"""The reference of the ops tests: definitions as plain float64 loops that use no code of ops."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ops import Array, ConvGeometry, PoolGeometry


def conv_terms(
    in_shape: tuple[int, ...], out_shape: tuple[int, ...], g: ConvGeometry
) -> Iterator[tuple[int, ...]]:
    """Every (k, p, q, c, c within group, i, j, h, w) whose product is a term of a convolution."""
    outputs = out_shape[1]
    channels = in_shape[1]
    k_per = outputs // g.groups
    c_per = channels // g.groups
    for k, p, q, c, i, j in np.ndindex(outputs, *out_shape[2:], c_per, *g.kernel):
        h = p * g.stride[0] - g.pad[0] + i * g.dilation[0]
        w = q * g.stride[1] - g.pad[1] + j * g.dilation[1]
        if 0 <= h < in_shape[2] and 0 <= w < in_shape[3]:
            yield k, p, q, k // k_per * c_per + c, c, i, j, h, w


def conv_forward(
    x: Array, w: Array, b: Array, out_shape: tuple[int, ...], g: ConvGeometry
) -> Array:
    x = x.astype(np.float64)
    w = w.astype(np.float64)
    y = np.zeros(out_shape) + b.astype(np.float64)[None, :, None, None]
    for k, p, q, c, cg, i, j, h, v in conv_terms(x.shape, out_shape, g):
        y[:, k, p, q] += x[:, c, h, v] * w[k, cg, i, j]
    return y


def pool_size(size: int, kernel: int, stride: int, pad: int, whole: bool = False) -> int:
    """Caffe's pooled size, with its float ceiling (or floor) and its clip."""
    rounded = np.floor if whole else np.ceil
    outputs = int(rounded((size + 2 * pad - kernel) / stride)) + 1
    while (outputs - 1) * stride >= size + pad:
        outputs -= 1
    return outputs


def pool(x: Array, g: PoolGeometry) -> tuple[Array, Array]:
    """Caffe's loop. Returns values and, for MAX, the flat index of the first maximum."""
    n, c, height, width = x.shape
    high, wide = (
        pool_size(x.shape[2 + a], g.kernel[a], g.stride[a], g.pad[a], g.whole) for a in (0, 1)
    )
    y = np.zeros((n, c, high, wide))
    place = np.full((n, c, high, wide), -1)
    for a, b, p, q in np.ndindex(y.shape):
        h0 = p * g.stride[0] - g.pad[0]
        w0 = q * g.stride[1] - g.pad[1]
        h1 = min(h0 + g.kernel[0], height + g.pad[0])
        w1 = min(w0 + g.kernel[1], width + g.pad[1])
        area = (h1 - h0) * (w1 - w0)
        best = -np.inf
        total = 0.0
        for h in range(max(h0, 0), min(h1, height)):
            for w in range(max(w0, 0), min(w1, width)):
                total += float(x[a, b, h, w])
                if x[a, b, h, w] > best:
                    best, place[a, b, p, q] = float(x[a, b, h, w]), h * width + w
        y[a, b, p, q] = best if g.mode == "MAX" else total / area
    return y, place


def philox(counter: tuple[int, ...], key: tuple[int, int]) -> tuple[int, ...]:
    """Philox4x32-10, written from the paper's figure. Counter and result are four numbers of 32
    bits."""
    low = 2**32 - 1
    for _ in range(10):
        first = counter[0] * 0xD2511F53
        second = counter[2] * 0xCD9E8D57
        counter = (
            second >> 32 ^ counter[1] ^ key[0],
            second & low,
            first >> 32 ^ counter[3] ^ key[1],
            first & low,
        )
        key = ((key[0] + 0x9E3779B9) & low, (key[1] + 0xBB67AE85) & low)
    return counter
