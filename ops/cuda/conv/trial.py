"""A trial of two algorithms on the same random images: the difference of their results, the time of
each.

Images have the sizes and steps that the pass will have. Two images are drawn and repeated through
the batch. The first image and the last are compared. A gradient of weights is summed over those two
alone: the others' dy are 0, so that rounding in long sums does not hide a mistake.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from ops.cuda.conv.algorithm import Convolution, ConvShape, Direction
from ops.cuda.device import OnDevice
from ops.cuda.image_layout import new_images
from ops.cuda.repeats import Call
from ops.errors import Array, Shape

clock = time.perf_counter
MOST_ROUNDS = 5  # rounds of measured runs: the fastest counts
ENOUGH_SECONDS = 0.05
# runs between two waits for the device: while the device computes, the host starts the next, as in
# a net
IN_A_ROW = 3


class Trial:
    """One pass of a shape; steps are numbers from pixel to pixel of x and of y."""

    def __init__(
        self, shape: ConvShape, direction: Direction, steps: tuple[int, int], ops: OnDevice
    ) -> None:
        self._ops = ops
        self._direction = direction
        self._x, self._y = (
            self._images(*pair)
            for pair in zip((shape.in_shape, shape.out_shape), steps, strict=True)
        )
        random = np.random.default_rng(0)
        self._w = ops.asarray(_made_up(random, shape.weight_shape))
        for images in [self._x] * (direction != Direction.DATA) + [self._y] * (
            direction != Direction.FORWARD
        ):
            self._fill(images, ops.asarray(_made_up(random, (2, *images.shape[1:]))))
        if direction == Direction.WEIGHTS:
            self._y[1:-1] = 0

    def error(self, tried: Convolution, right: Convolution) -> float:
        """The greatest difference between their results, as a part of the greatest value; NaN if a
        result is not finite."""
        written = {Direction.FORWARD: self._y, Direction.DATA: self._x, Direction.WEIGHTS: self._w}[
            self._direction
        ]
        found = []
        for algorithm in (tried, right):
            written[...] = np.nan
            self.run(algorithm)
            of_two = (
                written
                if self._direction == Direction.WEIGHTS
                else written[:: max(1, len(written) - 1)]
            )
            found.append(self._ops.to_host(of_two).astype(np.float64))
        got, expected = found
        return float(np.abs(got - expected).max() / np.abs(expected).max())

    def seconds(self, *algorithms: Convolution) -> list[float]:
        """The seconds of one run of each algorithm, as nets run it from the third pass on. The
        first run is not counted. The algorithms take turns, since a GPU that was idle raises its
        clock meanwhile."""
        runs = [self._repeated(algorithm) for algorithm in algorithms]
        self._ops.synchronize()
        rounds: list[list[float]] = []
        while len(rounds) < MOST_ROUNDS and IN_A_ROW * sum(map(sum, rounds)) < ENOUGH_SECONDS * len(
            algorithms
        ):
            rounds.append([self._timed(run) for run in runs])
        return [min(times) for times in zip(*rounds, strict=True)]

    def _repeated(self, algorithm: Convolution) -> Call:
        """Run the algorithm, and return a function that runs it again."""

        def run() -> None:
            self.run(algorithm)

        repeats = self._ops.repeats
        if repeats is None or repeats.recording:
            run()
            return run
        _, calls = repeats.recorded(run)

        def again() -> None:
            for call in calls or ():
                call()

        return run if calls is None else again

    def _timed(self, run: Call) -> float:
        begun = clock()
        for _ in range(IN_A_ROW):
            run()
        self._ops.synchronize()
        return (clock() - begun) / IN_A_ROW

    def run(self, algorithm: Convolution) -> None:
        """Run the pass by this algorithm."""
        if self._direction == Direction.FORWARD:
            algorithm.forward(self._x, self._w, None, self._y, False)
        elif self._direction == Direction.DATA:
            algorithm.backward_data(self._y, self._w, self._x)
        else:
            algorithm.backward_weights(self._x, self._y, self._w)

    def _images(self, shape: Shape, step: int) -> Array:
        """Images (N, C, H, W) whose pixels are `step` numbers apart."""
        n, c, high, wide = shape
        images: Array = new_images(self._ops.xp, (n, step, high, wide), np.dtype(np.float32))[:, :c]
        return images

    @staticmethod
    def _fill(images: Array, two: Array) -> None:
        images[::2] = two[0]
        if len(images) > 1:
            images[1::2] = two[1]


def _made_up(random: np.random.Generator, shape: Shape) -> np.ndarray[Any, Any]:
    """Numbers from -0.5 to 0.5."""
    return random.random(shape, np.float32) - np.float32(0.5)
