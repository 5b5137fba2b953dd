"""A number of a run over its iterations and its time, and a reduction to fewer points that look the
same."""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field

Numbers = Sequence[float]
MOST_POINTS = 800  # of a curve: two for each pixel of a chart


def _numbers() -> array[float]:
    return array("d")


@dataclass
class Series:
    """Values in the order of their iterations. `seconds` count from the start of the run, or of its
    first forerunner."""

    iterations: array[float] = field(default_factory=_numbers)
    seconds: array[float] = field(default_factory=_numbers)
    values: array[float] = field(default_factory=_numbers)

    def __len__(self) -> int:
        return len(self.values)

    def add(self, iteration: float, seconds: float, value: float) -> None:
        """Add a value. Existing values of this iteration and of later ones are removed first: the
        run has gone back and undone them."""
        self.cut(iteration)
        self.iterations.append(iteration)
        self.seconds.append(seconds)
        self.values.append(value)

    def cut(self, iteration: float) -> None:
        """Remove the values of this iteration and of later ones."""
        keep = len(self)
        while keep and self.iterations[keep - 1] >= iteration:
            keep -= 1
        for numbers in (self.iterations, self.seconds, self.values):
            del numbers[keep:]

    def after(self, earlier: Series, offset: float) -> Series:
        """This series, appended to the part of `earlier` before it. `earlier` began `offset`
        seconds before this one."""
        whole = Series(earlier.iterations[:], earlier.seconds[:], earlier.values[:])
        if len(self):
            whole.cut(self.iterations[0])
        whole.iterations.extend(self.iterations)
        whole.seconds.extend(second + offset for second in self.seconds)
        whole.values.extend(self.values)
        return whole


def thinned(xs: Numbers, ys: Numbers, most: int = MOST_POINTS) -> tuple[list[float], list[float]]:
    """At most `most` points: the least and the greatest of every stretch, and the first and the
    last point. Points that are not finite numbers are left out."""
    points = [
        index for index in range(len(ys)) if math.isfinite(ys[index]) and math.isfinite(xs[index])
    ]
    if len(points) > most:
        width = math.ceil(len(points) / max(1, (most - 2) // 2))
        kept = {points[0], points[-1]}
        for start in range(0, len(points), width):
            stretch = points[start : start + width]
            kept |= {min(stretch, key=ys.__getitem__), max(stretch, key=ys.__getitem__)}
        points = sorted(kept)
    return [xs[index] for index in points], [ys[index] for index in points]
