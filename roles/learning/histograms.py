"""Histograms of parameters and of their gradients, every few iterations (`run.histograms`).

They are made where the parameters are updated, in the thread that updates them, and are reported
as events. An array is looked at in pieces, so that a histogram needs little memory.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ops import Array, Backend
from roles.learning.parameters import Parameters
from roles.messages import Blobs

BINS = 40
PIECE = 1 << 20  # numbers that are looked at together
# histograms of a layer at the given distance; then the distance doubles, and again for each twice
# as many iterations
WHOLE = 256


class Histograms:
    """The histograms of the parameters of one actor. `every`: iterations between two of them."""

    def __init__(self, every: int) -> None:
        self._every = every
        self._last: dict[str, tuple[int, int]] = {}  # layer -> the stretch of its last histograms
        self._made: deque[dict[str, Any]] = deque()  # the compute thread adds, the loop takes

    def __repr__(self) -> str:
        return f"<histograms every {self._every} iterations, {len(self._made)} not reported>"

    def stretch(self, iteration: int) -> tuple[int, int]:
        """The stretch of iterations that this one is in: its length, and its number among those of
        this length. A layer gets histograms at the first update in each stretch. An island does not
        update in every iteration."""
        length = self._every << (iteration // (self._every * WHOLE)).bit_length()
        return length, iteration // length

    def look(self, ops: Backend, store: Parameters, gradients: Mapping[str, Blobs]) -> None:
        """Make the histograms that are due: of the parameters of these layers, and of the gradients
        that change them next. Runs in the compute thread."""
        for layer, changes in gradients.items():
            iteration = store.versions[layer]
            stretch = self.stretch(iteration)
            if self._last.get(layer) == stretch:
                continue
            self._last[layer] = stretch
            arrays = [
                {"name": param.name, "of": of, **histogram(ops, array)}
                for of, found in (("values", store.read(layer)), ("gradients", changes))
                for param, array in zip(store.params[layer], found, strict=True)
                if param.keep is None
            ]
            self._made.append({"iteration": iteration, "layer": layer, "arrays": arrays})

    def take(self) -> Iterator[dict[str, Any]]:
        """The fields of the events that are not reported yet."""
        while self._made:
            yield self._made.popleft()


def histogram(ops: Backend, array: Array) -> Mapping[str, Any]:
    """The distribution of an array's finite numbers: `low` and `high`, the `counts` of BINS bins of
    equal width between them, `mean`, standard `deviation`, and the share of `zeros`. `infinite`:
    how many numbers are not finite; the others are 0 if all are so."""
    pieces = [array.reshape(-1)[at : at + PIECE] for at in range(0, array.size, PIECE)]
    xp = np if isinstance(array, np.ndarray) else ops.xp
    low, high, total, zeros, finite = np.inf, -np.inf, 0.0, 0, 0
    for numbers in _finite(xp, pieces):
        low = min(low, float(numbers.min()))
        high = max(high, float(numbers.max()))
        total += float(numbers.sum())
        zeros += int((numbers == 0).sum())
        finite += numbers.size
    if not finite:
        return _fields(0.0, 0.0, [0] * BINS, 0.0, 0.0, 0.0, array.size)
    mean = total / finite
    counts = np.zeros(BINS, np.int64)
    squares = 0.0
    width = (high - low) / BINS
    for numbers in _finite(xp, pieces):
        squares += float(((numbers - mean) ** 2).sum())
        places = (numbers - low) / (width or 1.0)
        found = xp.bincount(xp.minimum(places.astype(np.int64), BINS - 1), minlength=BINS)
        counts += np.asarray(ops.to_host(found) if xp is not np else found)
    deviation = (squares / finite) ** 0.5
    missing = array.size - finite
    return _fields(low, high, counts.tolist(), mean, deviation, zeros / finite, missing)


def _finite(xp: Any, pieces: Sequence[Array]) -> Iterator[Array]:
    """The finite numbers of each piece that has some, as float64."""
    for piece in pieces:
        numbers = piece.astype(np.float64)
        numbers = numbers[xp.isfinite(numbers)]
        if numbers.size:
            yield numbers


def _fields(
    low: float,
    high: float,
    counts: list[int],
    mean: float,
    deviation: float,
    zeros: float,
    infinite: int,
) -> Mapping[str, Any]:
    """The fields, with numbers of seven digits."""
    numbers = {"low": low, "high": high, "mean": mean, "deviation": deviation, "zeros": zeros}
    short = {name: float(f"{number:.7g}") for name, number in numbers.items()}
    return {**short, "counts": counts, "infinite": infinite}
