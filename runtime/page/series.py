"""A number of a run over its iterations and its time, and a reduction to fewer points that look the
same."""

from __future__ import annotations

import math
from array import array
from dataclasses import dataclass, field

import numpy as np

MOST_POINTS = 800  # of a curve in a drawing: two for each pixel of it


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


def thinned(
    series: Series, most: int = MOST_POINTS
) -> tuple[list[float], list[float], list[float]]:
    """The iterations, seconds and values of at most `most` points (at least four): the least and
    the greatest value of every stretch, and the first and the last point. Points that are not
    finite numbers are left out."""
    columns = [
        np.frombuffer(numbers, np.float64) if len(numbers) else np.empty(0)
        for numbers in (series.iterations, series.seconds, series.values)
    ]
    points = np.flatnonzero(np.isfinite(columns[0]) & np.isfinite(columns[1] + columns[2]))
    if len(points) > most:
        width = math.ceil(len(points) / max(1, (most - 2) // 2))
        kept = {int(points[0]), int(points[-1])}
        for start in range(0, len(points), width):
            stretch = points[start : start + width]
            values = columns[2][stretch]
            kept |= {int(stretch[values.argmin()]), int(stretch[values.argmax()])}
        points = np.array(sorted(kept))
    iterations, seconds, values = (column[points].tolist() for column in columns)
    return iterations, seconds, values
