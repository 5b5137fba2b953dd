"""Parameter updates and the addition of gradients. Inputs are written to only where given as destinations."""

from __future__ import annotations

from typing import Any

from ops.errors import Array, check_float, check_out, check_shape


def sgd(
    xp: Any, w: Array, g: Array, history: Array, rate: float, momentum: float, decay: float,
    out_w: Array | None, out_h: Array | None,
) -> tuple[Array, Array]:  # fmt: skip
    """Caffe's SGD: h' = momentum * h + rate * (g + decay * w), w' = w - h'; returns (w', h'), any one shape.

    `rate` and `decay` are final: the layer's lr_mult and decay_mult are already in them. out_w may be w,
    out_h may be h.
    """
    op = "sgd_update"
    check_float(op, w=w, g=g, history=history)
    check_shape(op, "g", g, w.shape)
    check_shape(op, "history", history, w.shape)
    check_out(op, "out_w", out_w, w.shape, w.dtype)
    check_out(op, "out_h", out_h, w.shape, w.dtype)
    new_w: Array = xp.empty_like(w) if out_w is None else out_w
    # the next version of w is free until the last line, so it holds the step and no temporary is needed
    busy = any(xp.may_share_memory(new_w, a) for a in (w, g, history, out_h) if a is not None)
    step: Array = xp.empty_like(w) if busy else new_w
    xp.multiply(w, float(decay), out=step)
    xp.add(step, g, out=step)
    xp.multiply(step, float(rate), out=step)
    new_h: Array = xp.multiply(history, float(momentum), out=out_h)
    xp.add(new_h, step, out=new_h)
    xp.subtract(w, new_h, out=new_w)
    return new_w, new_h


def add(xp: Any, a: Array, b: Array, out: Array | None) -> Array:
    """a + b, one shape and dtype; out may be a or b."""
    check_float("add", a=a, b=b)
    check_shape("add", "b", b, a.shape)
    check_out("add", "out", out, a.shape, a.dtype)
    total: Array = xp.add(a, b, out=out)
    return total
