"""Operations of bfloat16 images that no kernel takes, for example images in another order of axes:
the reference computes them in float32, and its result is rounded. Slow, and needed rarely."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from ops.errors import BFLOAT16, Array
from ops.interface.backend import Backend

OPERATIONS = (
    "conv_forward",
    "conv_backward_data",
    "conv_backward_weights",
    "depthwise_forward",
    "depthwise_backward_data",
    "depthwise_backward_weights",
    "relu_forward",
    "relu_backward",
    "clip_forward",
    "clip_backward",
    "swish_forward",
    "swish_backward",
    "gelu_forward",
    "gelu_backward",
    "hard_sigmoid_forward",
    "hard_sigmoid_backward",
    "hard_swish_forward",
    "hard_swish_backward",
    "add",
    "add_all",
    "dropout",
    "dropout_by",
    "drop_rows",
    "eltwise_forward",
    "eltwise_backward",
    "scale_forward",
    "scale_backward_data",
    "scale_backward_weights",
    "channel_sums",
    "batch_norm_forward",
    "batch_norm_backward",
    "norm_scale_forward",
    "norm_scale_backward",
    "rectified_sums",
    "pool_forward",
    "pool_backward",
    "lrn_forward",
    "lrn_backward",
)


class Widened(Backend):
    """A backend whose operations of images also take bfloat16 arrays."""

    def widened(self, x: Array) -> Array:
        """A float32 copy of a bfloat16 array."""
        return x.astype(np.float32)

    def narrowed(self, x: Array, into: Array) -> None:
        """Round x, float32, into a bfloat16 array of its shape. NaN stays NaN."""
        with np.errstate(invalid="ignore"):
            into[...] = x


def _in_float32(operation: Callable[..., Any]) -> Callable[..., Any]:
    """The operation for arguments of which some are bfloat16 arrays."""
    signature = inspect.signature(operation)

    @functools.wraps(operation)
    def computed(self: Widened, *args: Any, **kwargs: Any) -> Any:
        given = signature.bind(self, *args, **kwargs)
        wide: list[tuple[Array, Array]] = []  # float32 arrays in the place of bfloat16 ones
        for name, value in given.arguments.items():
            given.arguments[name] = _replaced(value, wide, self.widened)
        if not wide:
            return operation(self, *args, **kwargs)
        found = operation(*given.args, **given.kwargs)
        results = {id(array) for array in _arrays(found)}
        for array, narrow in wide:
            if id(array) in results:
                self.narrowed(array, narrow)
        return _restored(found, {id(array): narrow for array, narrow in wide})

    return computed


def _replaced(
    value: Any, wide: list[tuple[Array, Array]], widened: Callable[[Array], Array]
) -> Any:
    if getattr(value, "dtype", None) == BFLOAT16:
        known = next((array for array, narrow in wide if narrow is value), None)
        if known is None:
            known = widened(value)
            wide.append((known, value))
        return known
    if isinstance(value, list | tuple) and _arrays(value):
        return [_replaced(one, wide, widened) for one in value]
    return value


def _arrays(value: Any) -> list[Array]:
    found = value if isinstance(value, list | tuple) else [value]
    return [one for one in found if hasattr(one, "dtype")]


def _restored(found: Any, narrow: dict[int, Array]) -> Any:
    if isinstance(found, list | tuple):
        return type(found)(narrow.get(id(one), one) for one in found)
    return narrow.get(id(found), found)


for _name in OPERATIONS:
    setattr(Widened, _name, _in_float32(getattr(Backend, _name)))
