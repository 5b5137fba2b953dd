"""Several operations that follow each other in most nets, under one name: a backend may take one
pass for all.

The reference runs them one after the other, with the operations of the backend `ops`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ops.activation import Activation
from ops.errors import Array, OpsError, check_alike, check_float, check_shape


def norm_scale_forward(
    ops: Any,
    x: Array,
    gamma: Array,
    beta: Array,
    eps: float,
    statistics: tuple[Array, Array] | None,
    activation: Activation | None,
    addend: Array | None,
    out: Array | None,
    mean: Array | None,
    variance: Array | None,
) -> tuple[Array, Array, Array]:
    """activation(gamma * (x - mean) / sqrt(variance + eps) + beta + addend) -> (y, mean,
    variance)."""
    check(
        "norm_scale_forward",
        out,
        gamma,
        beta,
        x=x,
        **({} if addend is None else {"addend": addend}),
    )
    apart = None if out is addend else out  # the addend has not been read yet
    y, mean, variance = ops.batch_norm_forward(
        x, eps=eps, statistics=statistics, out=apart, mean=mean, variance=variance
    )  # fmt: skip
    y = ops.scale_forward(y, gamma, beta, out=y)
    if addend is not None:
        y = ops.add(y, addend, out=y if out is None else out)
    elif out is not None and y is not out:
        out[...] = y
        y = out
    return (y if activation is None else activation.forward(ops, y, out=y)), mean, variance


def norm_scale_backward(
    ops: Any,
    dy: Array,
    x: Array,
    gamma: Array,
    beta: Array,
    mean: Array,
    variance: Array,
    eps: float,
    fixed: bool,
    activation: Activation | None,
    sums: tuple[Array, Array] | None,
    out: Array | None,
    out_gamma: Array | None,
    out_beta: Array | None,
) -> tuple[Array, Array, Array]:
    """dx, dgamma, dbeta. The sums are taken again."""
    check("norm_scale_backward", out, gamma, beta, dy=dy, x=x)
    y, _, _ = ops.batch_norm_forward(x, eps=eps, statistics=(mean, variance))
    if activation is not None:
        dy = activation.backward(ops, dy, ops.scale_forward(y, gamma, beta))
    dgamma, dbeta = ops.scale_backward_weights(
        y, dy, gamma.shape, bias=True, out_gamma=out_gamma, out_beta=out_beta
    )  # fmt: skip
    dx = ops.scale_backward_data(dy, gamma)
    return (
        ops.batch_norm_backward(
            dx, y, variance, eps=eps, fixed=fixed, out=dx if out is None else out
        ),
        dgamma,
        dbeta,
    )


def rectified_sums(
    ops: Any,
    gradients: Sequence[Array],
    y: Array,
    x: Array,
    mean: Array,
    out: Array | None,
    out_sums: Array | None,
    out_products: Array | None,
) -> tuple[Array, Array, Array]:
    """g = sum of the gradients where y > 0, else 0; then its sums, and those of g * (x - mean)."""
    op = "rectified_sums"
    if len(gradients) not in (1, 2):
        raise OpsError(f"{op}: found {len(gradients)} gradients, expected one or two")
    check_alike(op, out, y=y, x=x, **{f"gradient {k}": g for k, g in enumerate(gradients)})
    check_float(op, y=y, mean=mean)
    check_shape(op, "mean", mean, x.shape[1:2])
    total = gradients[0] if len(gradients) == 1 else ops.add(*gradients)
    g = ops.relu_backward(total, y, out=out)
    away = x - mean.reshape((-1,) + (1,) * (x.ndim - 2))
    return g, ops.channel_sums(g, out=out_sums), ops.channel_sums(g * away, out=out_products)


def check(op: str, out: Array | None, gamma: Array, beta: Array, **arrays: Array) -> None:
    """Check the arguments: arrays of one shape, gamma and beta (C,)."""
    check_alike(op, out, **arrays)
    first, *_ = arrays.values()
    check_float(op, **{next(iter(arrays)): first}, gamma=gamma, beta=beta)
    for name, part in (("gamma", gamma), ("beta", beta)):
        check_shape(op, name, part, first.shape[1:2])
