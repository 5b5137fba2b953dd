"""A trial of two algorithms on the same random images: the difference of their results, the time of
each.

Images have the sizes and steps that the pass will have. Two images are drawn and repeated through
the batch, and every image of the results is compared. Gradients of weights are compared twice, so
that rounding in long sums hides no mistake: once with dy in the first image and the last alone,
once with dy in one pixel of every image.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

import numpy as np

from ops.cuda.conv.algorithm import Convolution, ConvShape, Direction, Epilogue
from ops.cuda.device import OnDevice
from ops.cuda.image_layout import new_images
from ops.cuda.repeats import Call
from ops.errors import BFLOAT16, Array, Shape

clock = time.perf_counter
MOST_ROUNDS = 5  # rounds of measured runs: the fastest counts
ENOUGH_SECONDS = 0.05
# runs between two waits for the device: while the device computes, the host starts the next, as in
# a net
IN_A_ROW = 3


class Trial:
    """One pass of a shape; steps are numbers from pixel to pixel of x and of y."""

    def __init__(
        self,
        shape: ConvShape,
        direction: Direction,
        steps: tuple[int, int],
        epilogue: Epilogue,
        ops: OnDevice,
    ) -> None:
        self._ops = ops
        self._rectify = epilogue.rectify
        self._direction = direction
        self._x, self._y = (
            self._images(*each)
            for each in zip((shape.in_shape, shape.out_shape), steps, shape.stored, strict=True)
        )
        random = np.random.default_rng(0)
        self._middle = (..., shape.out_shape[2] // 2, shape.out_shape[3] // 2)
        self._w = ops.asarray(_made_up(random, shape.weight_shape))
        self._b = ops.asarray(_made_up(random, (shape.outputs,))) if epilogue.bias else None
        for images in [self._x] * (direction != Direction.DATA) + [self._y] * (
            direction != Direction.FORWARD
        ):
            self._fill(images, ops.asarray(_made_up(random, (2, *images.shape[1:]))))

    def error(self, tried: Call, right: Call) -> float:
        """The greatest difference between the results of two runs, as a part of the greatest value;
        NaN if a result is not finite."""
        if self._direction != Direction.WEIGHTS:
            return self._error_of_images(tried, right)
        pixels = self._pixels()
        self._y[1:-1] = 0
        errors = [self._error_of_weights(tried, right)]
        self._y[...] = 0
        self._y[self._middle] = pixels
        errors.append(self._error_of_weights(tried, right))
        return float(np.max(errors))  # NaN if one of them is

    def keeps_nan(self, tried: Call) -> bool:
        """Whether a NaN in the first image reaches y: an epilogue may take the maximum of NaN and 0
        for 0, and then no loss would show that a net diverges."""
        kept = self._x[:1].copy()
        self._spoil(self._x[:1])
        tried()
        found = self._ops.sums([self._wide(self._y[:1]).sum()])
        self._x[:1] = kept
        return bool(np.isnan(found[0]))

    def _error_of_images(self, tried: Call, right: Call) -> float:
        """The right images repeat after two, so only two of them are kept."""
        written = self._y if self._direction == Direction.FORWARD else self._x
        self._spoil(written)
        right()
        expected = self._wide(written[:2].copy())
        self._spoil(written)
        tried()
        return self._greatest(
            expected,
            (self._wide(written[at : at + 1])[0] - expected[at % 2] for at in range(len(written))),
        )

    def _error_of_weights(self, tried: Call, right: Call) -> float:
        """The tried run comes first: both may write to the same scratch memory."""
        self._w[...] = np.nan
        tried()
        found = self._w.copy()
        self._w[...] = np.nan
        right()
        return self._greatest(self._w, [found - self._w])

    def _greatest(self, right: Array, differences: Iterable[Array]) -> float:
        """The greatest difference, as a part of the greatest right value. Waits once."""
        size = self._ops.xp.abs
        greatest, *found = self._ops.sums([size(x).max() for x in (right, *differences)])
        return float(np.max(found) / greatest)

    def _pixels(self) -> Array:
        """dy in the middle pixel of every image. The signs change from pair to pair, and the first
        pair counts twice: the pairs' sum is one or two of them, so an image that is left out
        changes it by half or more."""
        signs = np.array([(-1.0) ** (at // 2) for at in range(len(self._y))], np.float32)
        signs[:2] = 2
        pixels: Array = self._wide(self._y)[self._middle] * self._ops.asarray(signs[:, None])
        return pixels.astype(self._y.dtype)

    def seconds(self, *algorithms: Convolution) -> list[float]:
        """The seconds of one run of each algorithm, as nets run it from the third pass on. The
        first run is not counted. The algorithms take turns, since a GPU that was idle raises its
        clock meanwhile."""
        runs = [self.repeated(algorithm) for algorithm in algorithms]
        self._ops.synchronize()
        rounds: list[list[float]] = []
        while len(rounds) < MOST_ROUNDS and IN_A_ROW * sum(map(sum, rounds)) < ENOUGH_SECONDS * len(
            algorithms
        ):
            rounds.append([self._timed(run) for run in runs])
        return [min(times) for times in zip(*rounds, strict=True)]

    def repeated(self, algorithm: Convolution) -> Call:
        """Run the algorithm, and return a function that runs it again as a net does."""

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
            algorithm.forward(self._x, self._w, self._b, self._y, self._rectify)
        elif self._direction == Direction.DATA:
            algorithm.backward_data(self._y, self._w, self._x)
        else:
            algorithm.backward_weights(self._x, self._y, self._w)

    def _images(self, shape: Shape, step: int, dtype: Any) -> Array:
        """Images (N, C, H, W) whose pixels are `step` numbers apart."""
        n, c, high, wide = shape
        images: Array = new_images(self._ops.xp, (n, step, high, wide), dtype)[:, :c]
        return images

    def _wide(self, x: Array) -> Array:
        """x in float32."""
        return self._ops.widened(x) if x.dtype == BFLOAT16 else x

    @staticmethod
    def _spoil(images: Array) -> None:
        images[...] = images.dtype.type(np.nan)

    @staticmethod
    def _fill(images: Array, two: Array) -> None:
        two = two.astype(images.dtype)
        images[::2] = two[0]
        if len(images) > 1:
            images[1::2] = two[1]


def _made_up(random: np.random.Generator, shape: Shape) -> np.ndarray[Any, Any]:
    """Numbers from -0.5 to 0.5."""
    return random.random(shape, np.float32) - np.float32(0.5)
