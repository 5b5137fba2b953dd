"""The order of samples in a run, epoch after epoch, and the samples of batch number `ticket`.

Reading changes no state: any thread may read any rows at any time, in any order.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nets.data.augmentation.augment import floats
from nets.data.augmentation.mixing import LABELS, Mixing
from nets.data.augmentation.transform import Transform, alternate_flips
from nets.data.sources.source import Source
from nets.definition.params import generator
from nets.errors import DataError

# arrays for samples, of the `forms`
Into = Sequence[NDArray[Any]]
# the shape of one sample, and the dtype, of each array
Forms = list[tuple[tuple[int, ...], np.dtype[Any]]]


class Batches:
    """Global batches of `batch` rows. An epoch has `len(source)` samples and may end inside a
    batch. If `rand_skip` is given, the first sample is drawn from the first `rand_skip` ones.

    `transform` applies to the source's first array; a sequence has one for each of `source.firsts`.
    `count` is the number of the source's arrays to read (default: all). A net without labels reads
    only the first array. With `mixing`, each image is mixed with another one of its batch, and its
    label is an array of probabilities. `divisible`: a share that is read in pieces costs no more
    than the whole.
    """

    def __init__(
        self,
        source: Source,
        transform: Transform | Sequence[Transform],
        batch: int,
        *,
        shuffle: bool,
        seed: int,
        train: bool,
        rand_skip: int = 0,
        count: int | None = None,
        mixing: Mixing | None = None,
    ) -> None:
        transforms = [transform] if isinstance(transform, Transform) else transform
        self.transforms = dict(zip(source.firsts, transforms, strict=True))
        for at, each in self.transforms.items():
            each.check(source.shapes[at])
        self._count = len(source.shapes) if count is None else count
        if batch < 1:
            raise DataError(f"batch: found {batch}, expected an integer >= 1")
        if batch % source.unit and source.unit % batch:
            raise DataError(
                f"batch: found {batch} steps of time, expected a multiple or a divisor of "
                f"{source.unit}, the length of the source's sequences"
            )
        if rand_skip > len(source):
            raise DataError(
                f"rand_skip: found {rand_skip}, expected at most {len(source)}, "
                "the number of samples"
            )
        skipped = int(generator(seed, "rand_skip").integers(rand_skip)) if rand_skip else 0
        self._first = skipped - skipped % source.unit
        self.source = source
        self.batch = batch
        self.shuffle = shuffle
        self.seed = seed
        self.train = train
        self.mixing = mixing
        self.divisible = source.divisible
        self._orders: dict[int, NDArray[np.int64]] = {}

    def __repr__(self) -> str:
        return (
            f"<Batches of {self.batch} from {self.source!r} shuffle={self.shuffle} "
            f"seed={self.seed}>"
        )

    def indices(self, low: int, high: int) -> NDArray[np.int64]:
        """Return the source indices of samples [low, high), counted from the run's first sample.
        Raises DataError for an impossible range."""
        return self.drawn(self.positions(low, high))[0]

    def read(self, ticket: int, low: int, high: int) -> tuple[NDArray[np.float32], ...]:
        """Return rows [low, high) of batch `ticket`, in the form of `samples`. All batches have the
        same size."""
        if ticket < 0 or not 0 <= low <= high <= self.batch:
            raise DataError(
                f"rows: found batch {ticket}, rows [{low}, {high}), expected a "
                f"part of [0, {self.batch})"
            )
        return self.samples(ticket * self.batch + low, ticket * self.batch + high)

    def samples(
        self, low: int, high: int, into: Into | None = None
    ) -> tuple[NDArray[np.float32], ...]:
        """Return samples [low, high), counted from the run's first sample: one float32 array per
        top of the net's data layers. They are the arrays `into`, if these are given and no images
        are mixed.

        These are images (n, C, H, W), transformed, and labels (n,), or other arrays of the source.
        """
        positions = self.positions(low, high)
        known = self.needed(positions)
        plain = into if self.mixing is None else None
        return self.mixed(self.changed(self.stored(known), known, plain), known, positions)

    def needed(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the positions of the samples that are read for these: also their partners, if
        images are mixed."""
        return positions if self.mixing is None else self.mixing.needed(positions)

    def stored(self, positions: NDArray[np.int64]) -> tuple[NDArray[Any], ...]:
        """Return the samples at these positions of the run as the source has them."""
        return self.source.read(self.drawn(positions)[0])[: self._count]

    def changed(
        self, arrays: Sequence[NDArray[Any]], positions: NDArray[np.int64], into: Into | None = None
    ) -> tuple[NDArray[np.float32], ...]:
        """Return what `stored` gave for these positions, transformed, in the arrays `into` or in
        new ones."""
        flips = None
        if any(transform.alternates(self.train) for transform in self.transforms.values()):
            flips = alternate_flips(self.seed, *self.drawn(positions))
        return tuple(
            transform(array, positions, seed=self.seed, train=self.train, flips_N=flips, out=out)
            if (transform := self.transforms.get(at))
            else floats(array, out)
            for at, (array, out) in enumerate(zip(arrays, into or repeat(None), strict=False))
        )

    def mixed(
        self,
        arrays: tuple[NDArray[np.float32], ...],
        known: NDArray[np.int64],
        positions: NDArray[np.int64],
    ) -> tuple[NDArray[np.float32], ...]:
        """Return the samples at `positions`, mixed, from what `changed` gave for the positions
        `known`."""
        if self.mixing is None:
            return arrays
        return self.mixing.mixed(arrays, known, positions, self.seed)

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        """The shape of one sample in each array that `read` returns."""
        shapes = [
            self.transforms[at].shape(shape) if at in self.transforms else shape
            for at, shape in enumerate(self.source.shapes[: self._count])
        ]
        if self.mixing is not None:
            shapes[LABELS] = (self.mixing.classes,)
        return shapes

    @property
    def forms(self) -> Forms:
        """The shape of one sample, and the dtype, of each array that `samples` returns."""
        return [(shape, np.dtype(np.float32)) for shape in self.shapes]

    def positions(self, low: int, high: int) -> NDArray[np.int64]:
        """Return the positions of samples [low, high) of the run. Raises DataError if there are
        none such."""
        if not 0 <= low <= high:
            raise DataError(f"samples: found [{low}, {high}), expected 0 <= low <= high")
        return np.arange(low, high, dtype=np.int64)

    def drawn(self, positions: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the source index and the epoch of the samples at these positions."""
        epochs, places = np.divmod(positions + self._first, len(self.source))
        if not self.shuffle:
            return places, epochs
        result = np.empty_like(places)
        for epoch in np.unique(epochs):
            mine = epochs == epoch
            result[mine] = self._order(int(epoch))[places[mine]]
        return result, epochs

    def _order(self, epoch: int) -> NDArray[np.int64]:
        """Return the permutation of an epoch. The last two stay in memory, for batches that contain
        an epoch's end."""
        kept = self._orders  # never changed in place: another thread may be reading it
        if epoch not in kept:
            unit = self.source.unit
            units = generator(self.seed, "epoch", epoch).permutation(len(self.source) // unit)
            order = (units[:, None] * unit + np.arange(unit)).reshape(-1)
            newest = sorted(kept)[-1:]
            kept = self._orders = {epoch: order, **{other: kept[other] for other in newest}}
        return kept[epoch]
