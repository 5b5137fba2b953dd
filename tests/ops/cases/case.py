"""One entry of the table of cases, and helpers that make its inputs."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ops import Array, Backend

Arrays = dict[str, Any]
Random = np.random.Generator


class Outs(dict[int, Array]):
    """Destinations by the number of the result; None if none is given."""

    def __missing__(self, key: int) -> None:
        return None


@dataclass(frozen=True)
class Case:
    """One operation: its inputs, its calls, and its definition.

    forward(backend, arrays, outs) returns the results, which must equal reference(arrays).
    backward(backend, arrays, dy, outs) returns one gradient of result 0 per name in `wrt`. If a
    result is a float, dy is an array of one element.
    """

    name: str
    arrays: Callable[[Random], Arrays]
    forward: Callable[[Backend, Arrays, Outs], tuple[Any, ...]]
    reference: Callable[[Arrays], tuple[Any, ...]]
    backward: Callable[[Backend, Arrays, Any, Outs], tuple[Any, ...]] | None = None
    wrt: tuple[str, ...] = ("x",)
    no_out: tuple[int, ...] = ()  # results of forward that take no destination
    no_out_back: tuple[int, ...] = ()
    tolerance: float = 3e-5  # for float32, relative to the largest value

    def __str__(self) -> str:
        return self.name


def normal(*shape: int, **more: tuple[int, ...]) -> Callable[[Random], Arrays]:
    """Normal x of this shape, and further arrays by name."""
    return lambda r: {
        "x": r.standard_normal(shape),
        **{name: r.standard_normal(s) for name, s in more.items()},
    }


def away(*shape: int, **more: tuple[int, ...]) -> Callable[[Random], Arrays]:
    """Like `normal`, with x away from zero, where many functions have a kink."""

    def make(r: Random) -> Arrays:
        arrays = normal(*shape, **more)(r)
        return {**arrays, "x": arrays["x"] + 0.05 * np.sign(arrays["x"])}

    return make


def each(function: Callable[..., float], *arrays: Array) -> Array:
    """Apply a function of single numbers element by element."""
    shape = arrays[0].shape
    values = [function(*(float(a[at]) for a in arrays)) for at in np.ndindex(shape)]
    return np.array(values, np.float64).reshape(shape)


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))
