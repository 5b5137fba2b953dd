"""Mixup and CutMix: each training image is mixed with a partner from its global batch, and its
label becomes a probability for each class (Zhang et al. 2017, Yun et al. 2019).

The partner is the sample before it in the global batch; the first sample's partner is the last. So
a worker that computes some rows of the batch reads one more sample than it has rows. The random
numbers depend only on (seed, position of the sample in the run).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nets.data.augmentation.draws import draw, uniform
from nets.definition.params import generator
from nets.errors import DataError

WHICH = 90  # the first lane of random numbers for each purpose
CENTRE = 91
LABELS = 1  # the place of the labels among the arrays of a sample


@dataclass(frozen=True)
class Mixing:
    """The settings of mixing. DataError is raised for a batch without partners.

    `mixup`, `cutmix`: the alphas of the Beta distributions of an image's own share; 0: without.
    With both, half of the images, drawn at random, are mixed in each way. `classes`: the number of
    classes. `batch`: the number of rows of a global batch.
    """

    mixup: float
    cutmix: float
    classes: int
    batch: int

    def __post_init__(self) -> None:
        if self.batch < 2:
            raise DataError(
                f"mixup, cutmix: found a batch of {self.batch}, expected at least 2 images: each "
                "is mixed with another one of its batch"
            )

    def partners(self, positions_N: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the position of each sample's partner."""
        rows = positions_N % self.batch
        return np.asarray(positions_N - rows + (rows - 1) % self.batch)

    def needed(self, positions_N: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the positions of these samples and their partners, rising, each once."""
        return np.union1d(positions_N, self.partners(positions_N))

    def mixed(
        self,
        arrays: Sequence[NDArray[Any]],
        known: NDArray[np.int64],
        positions_N: NDArray[np.int64],
        seed: int,
    ) -> tuple[NDArray[np.float32], ...]:
        """Return the mixed images (N, C, H, W), the labels (N, classes), and any further arrays.
        `arrays` have a row for each position in `known` (`needed`). Raises DataError for a label
        that is not a class."""
        own = np.searchsorted(known, positions_N)
        other = np.searchsorted(known, self.partners(positions_N))
        images_NCHW, shares_N = self._mix(arrays[0], own, other, positions_N, seed)
        labels = self.classes_of(arrays[LABELS])
        rest = (array[own] for array in arrays[LABELS + 1 :])
        return images_NCHW, self._soft(labels[own], labels[other], shares_N), *rest

    def _mix(
        self,
        images: NDArray[np.float32],
        own: NDArray[np.int64],
        other: NDArray[np.int64],
        positions_N: NDArray[np.int64],
        seed: int,
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Return `images[own]` mixed with `images[other]`, and the share of each own image."""
        cut_N = np.full(len(own), bool(self.cutmix))
        if self.mixup and self.cutmix:
            cut_N = draw(seed, positions_N, WHICH) % 2 == 1
        mixed = np.empty((len(own), *images.shape[1:]), np.float32)
        shares_N = np.ones(len(own), np.float32)
        pasted = np.flatnonzero(cut_N)
        blended = np.flatnonzero(~cut_N)
        if len(pasted):
            drawn = self._drawn(self.cutmix, "cutmix", positions_N, seed)[pasted]
            boxes = _boxes(images.shape[2:], drawn, positions_N[pasted], seed)
            for at, (top, bottom, left, right) in zip(pasted, boxes, strict=True):
                part = np.s_[:, top:bottom, left:right]
                mixed[at] = images[own[at]]
                mixed[at][part] = images[other[at]][part]
            areas = (boxes[:, 1] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 2])
            shares_N[pasted] = 1 - areas / (images.shape[2] * images.shape[3])
        if len(blended):
            shares_N[blended] = self._drawn(self.mixup, "mixup", positions_N, seed)[blended]
            for at in blended:
                np.multiply(images[own[at]], shares_N[at], out=mixed[at])
                mixed[at] += (1 - shares_N[at]) * images[other[at]]
        return mixed, shares_N

    def _drawn(
        self, alpha: float, name: str, positions_N: NDArray[np.int64], seed: int
    ) -> NDArray[np.float64]:
        """Return a number of Beta(alpha, alpha) for each sample. Those of a whole batch are drawn
        together."""
        batches, rows = np.divmod(positions_N, self.batch)
        result = np.empty(len(positions_N))
        for batch in np.unique(batches):
            mine = batches == batch
            whole = generator(seed, name, int(batch)).beta(alpha, alpha, self.batch)
            result[mine] = whole[rows[mine]]
        return result

    def classes_of(self, labels: NDArray[Any]) -> NDArray[np.int64]:
        """Return labels as numbers of classes, (N,). Raises DataError for any other label."""
        found = labels.reshape(len(labels), -1)[:, 0]
        wrong = (found < 0) | (found >= self.classes) | (found != np.floor(found))
        if wrong.any():
            raise DataError(
                f"mixup, cutmix: found label {found[wrong][0]:g}, expected a class from 0 to "
                f"{self.classes - 1}, the classes of the net"
            )
        return found.astype(np.int64)

    def _soft(
        self,
        own_N: NDArray[np.int64],
        other_N: NDArray[np.int64],
        shares_N: NDArray[np.float32],
    ) -> NDArray[np.float32]:
        rows = np.arange(len(own_N))
        soft_NC = np.zeros((len(own_N), self.classes), np.float32)
        soft_NC[rows, own_N] = shares_N
        soft_NC[rows, other_N] += 1 - shares_N
        return soft_NC


def _boxes(
    sides: tuple[int, ...],
    shares_N: NDArray[np.float64],
    positions_N: NDArray[np.int64],
    seed: int,
) -> NDArray[np.int64]:
    """Return the boxes that are taken from the partners, (N, 4): top, bottom, left, right. Centres
    are drawn evenly over the image. A box that crosses an edge is cut there."""
    half_N = np.sqrt(1 - shares_N) / 2
    result = []
    for axis, side in enumerate(sides):
        centre_N = np.floor(side * uniform(seed, positions_N, CENTRE + axis)).astype(np.int64)
        reach_N = (half_N * side).astype(np.int64)
        result += [np.maximum(centre_N - reach_N, 0), np.minimum(centre_N + reach_N, side)]
    return np.stack(result, 1)
