"""The contract of an array backend: every operation that training needs, documented once.

Arrays are logically NCHW whatever their strides, and no operation assumes contiguity. Operations are pure:
nothing is kept between calls, and what a backward pass needs is passed in. A destination (`out`) is written
and returned; None allocates. Inputs are all float32 or all float64. A wrong shape or dtype is an OpsError.

The bodies hand the backend's array module to the families; a backend overrides what it does better.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ops import activation, conv, dense, loss, pool, update
from ops.errors import Array, OpsError, Shape
from ops.geometry import ConvGeometry, PoolGeometry


class Backend:
    """Operations over one array module `xp` with NumPy's interface.

    `b_p` images are lowered together by a convolution; None takes the whole batch.
    """

    name: str
    xp: Any

    def __init__(self, b_p: int | None = None) -> None:
        if b_p is not None and (type(b_p) is not int or b_p < 1):
            raise OpsError(f"{self.name} backend: b_p is {b_p!r}, expected an integer of at least 1, or None")
        self.b_p = b_p

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name} b_p={self.b_p}>"

    # arrays

    def asarray(self, host: Any, dtype: Any = None) -> Array:
        """The backend's array of host data (no copy where it already is one)."""
        array: Array = self.xp.asarray(host, dtype)
        return array

    def to_host(self, x: Array) -> Array:
        """A NumPy array of x (no copy where it already is one)."""
        return np.asarray(x)

    def empty(self, shape: Shape, dtype: Any = np.float32) -> Array:
        """A new array, contents undefined."""
        array: Array = self.xp.empty(shape, dtype)
        return array

    def zeros(self, shape: Shape, dtype: Any = np.float32) -> Array:
        """A new array of zeros."""
        array: Array = self.xp.zeros(shape, dtype)
        return array

    # convolution

    def conv_forward(
        self, x: Array, w: Array, b: Array | None, geometry: ConvGeometry, out: Array | None = None
    ) -> Array:
        """x (N, C, H, W), w (K, C/groups, kh, kw), b (K,) or None -> y (N, K, OH, OW)."""
        return conv.forward(self.xp, x, w, b, geometry, self.b_p, out)

    def conv_backward_data(
        self, dy: Array, w: Array, geometry: ConvGeometry, in_shape: Shape, out: Array | None = None
    ) -> Array:
        """dy (N, K, OH, OW), w -> dx of shape `in_shape` (N, C, H, W)."""
        return conv.backward_data(self.xp, dy, w, geometry, in_shape, self.b_p, out)

    def conv_backward_weights(
        self, x: Array, dy: Array, geometry: ConvGeometry, w_shape: Shape, *,
        bias: bool, out_w: Array | None = None, out_b: Array | None = None,
    ) -> tuple[Array, Array | None]:  # fmt: skip
        """x, dy -> dw of shape `w_shape` and db (K,) (None without `bias`), summed over the batch."""
        return conv.backward_weights(self.xp, x, dy, geometry, w_shape, self.b_p, bias, out_w, out_b)

    # pooling

    def pool_forward(
        self, x: Array, geometry: PoolGeometry, out: Array | None = None, argmax: Array | None = None
    ) -> tuple[Array, Array | None]:
        """x (N, C, H, W) -> y (N, C, OH, OW) and the argmax (None for AVE).

        argmax is int32, the flat index into the H * W input plane; the first of equal maxima wins (Caffe).
        """
        return pool.forward(self.xp, x, geometry, out, argmax)

    def pool_backward(
        self, dy: Array, geometry: PoolGeometry, in_shape: Shape,
        argmax: Array | None = None, out: Array | None = None,
    ) -> Array:  # fmt: skip
        """dy (N, C, OH, OW) and the forward pass's argmax (MAX only) -> dx of shape `in_shape`."""
        return pool.backward(self.xp, dy, geometry, in_shape, argmax, out)

    # dense

    def dense_forward(self, x: Array, w: Array, b: Array | None, out: Array | None = None) -> Array:
        """x (N, D), w (O, D), b (O,) or None -> y (N, O)."""
        return dense.forward(self.xp, x, w, b, out)

    def dense_backward_data(self, dy: Array, w: Array, out: Array | None = None) -> Array:
        """dy (N, O), w (O, D) -> dx (N, D)."""
        return dense.backward_data(self.xp, dy, w, out)

    def dense_backward_weights(
        self, x: Array, dy: Array, *, bias: bool, out_w: Array | None = None, out_b: Array | None = None
    ) -> tuple[Array, Array | None]:
        """x (N, D), dy (N, O) -> dw (O, D) and db (O,) (None without `bias`), summed over the batch."""
        return dense.backward_weights(self.xp, x, dy, bias, out_w, out_b)

    # activation

    def relu_forward(self, x: Array, negative_slope: float = 0.0, out: Array | None = None) -> Array:
        """max(x, 0) + negative_slope * min(x, 0); out may be x."""
        return activation.relu_forward(self.xp, x, negative_slope, out)

    def relu_backward(self, dy: Array, y_or_x: Array, negative_slope: float = 0.0, out: Array | None = None) -> Array:
        """dy where y_or_x > 0, else negative_slope * dy; out may be dy. y serves for slopes >= 0."""
        return activation.relu_backward(self.xp, dy, y_or_x, negative_slope, out)

    # loss

    def softmax_forward(self, scores: Array, out: Array | None = None) -> Array:
        """scores (N, C, ...) -> probabilities over axis 1."""
        return loss.softmax_forward(self.xp, scores, out)

    def softmax_loss_forward(
        self, scores: Array, labels: Array, *,
        ignore_label: int | None = None, normalization: str = "VALID", out: Array | None = None,
    ) -> tuple[float, Array]:  # fmt: skip
        """scores (N, C, ...), labels (N, ...) -> (loss, probabilities).

        The summed losses are divided by the number of labels that count (VALID), by that of all (FULL),
        by N (BATCH_SIZE) or by 1 (NONE).
        """
        return loss.loss_forward(self.xp, scores, labels, ignore_label, normalization, out)

    def softmax_loss_backward(
        self, prob: Array, labels: Array, *, loss_weight: float = 1.0,
        ignore_label: int | None = None, normalization: str = "VALID", out: Array | None = None,
    ) -> Array:  # fmt: skip
        """The gradient of the loss by the scores, times loss_weight; zero where ignored. out may be prob."""
        return loss.loss_backward(self.xp, prob, labels, loss_weight, ignore_label, normalization, out)

    def accuracy(self, scores: Array, labels: Array, *, top_k: int = 1, ignore_label: int | None = None) -> float:
        """Share of labels among the top_k scores; ties count against the label. nan where none counts."""
        return loss.accuracy(self.xp, scores, labels, top_k, ignore_label)

    # update

    def sgd_update(
        self, w: Array, g: Array, history: Array, *, rate: float, momentum: float, decay: float,
        out_w: Array | None = None, out_h: Array | None = None,
    ) -> tuple[Array, Array]:  # fmt: skip
        """h' = momentum * h + rate * (g + decay * w), w' = w - h' -> (w', h'); w, g, h stay unless out."""
        return update.sgd(self.xp, w, g, history, rate, momentum, decay, out_w, out_h)

    def add(self, a: Array, b: Array, out: Array | None = None) -> Array:
        """a + b, for summing gradients; out may be a or b."""
        return update.add(self.xp, a, b, out)
