"""A watch of the gradients that a model server applies: some iterations, and some coordinates of
each gradient.

The first BURST iterations of every PERIOD are watched. No other actor is asked, and no large array
is read as a whole. A sum from a reducer carries the number of workers' gradients in it and the sum
of their squares (`Leaves`): the sum alone would not show the noise.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from ops import to_host
from roles.messages import Blobs, LayerGradient
from roles.tuning.momentum import ImplicitMomentum, Sample, from_staleness, reach_of
from roles.tuning.noise import NoiseScale
from roles.tuning.ratio import Measured, Ratio

PERIOD = 2048  # iterations
BURST = 256
LAYERS = 8  # layers of a model, evenly spread
MOST = 256  # coordinates of each array of these layers
RECENT = 256  # updates whose groups and staleness are counted


class Leaves:
    """The sums that are being made: for each, how many workers' gradients are in it, and the sum of
    their squares over the watched coordinates.

    One call at a time, from any thread.
    """

    def __init__(self) -> None:
        self._found: dict[Hashable, tuple[int, float]] = {}

    def __repr__(self) -> str:
        return f"<leaves of {len(self._found)} sums>"

    def add(self, key: Hashable, gradient: LayerGradient, blobs: Blobs) -> None:
        """Add a part of a sum: a worker's gradient, or the sum of another reducer with its leaves
        and squares."""
        leaves, squares = self._found.get(key, (0, 0.0))
        mine = gradient.squares
        if gradient.leaves == 1 and gradient.parts > 1:
            part = _sample(blobs)
            with np.errstate(all="ignore"):  # numbers overflow in a run that diverges
                mine = float(part @ part)
        self._found[key] = leaves + gradient.leaves, squares + mine

    def of(self, key: Hashable) -> tuple[int, float]:
        """Return the leaves and squares of a complete sum and forget them; (0, 0.0) for a sum that
        was not watched."""
        return self._found.pop(key, (0, 0.0))


def looked_at(iteration: int) -> bool:
    """True if the gradients of this iteration are watched."""
    return iteration % PERIOD < BURST


@dataclass(frozen=True)
class _Seen:
    sample: Sample
    weight: float  # coordinates of the layer over those sampled
    leaves: int


class GradientWatch:
    """The watch of one model server. `part` and `whole` may be called from the compute thread, one
    at a time."""

    def __init__(self, layers: Sequence[str], batch: int) -> None:
        self.noise = NoiseScale(batch)
        self._batch = batch
        self._ratio = Ratio()
        self._momenta = {
            layer: ImplicitMomentum(self._ratio)
            for layer in layers[:: -(-len(layers) // LAYERS) or 1]
        }
        self._leaves = Leaves()  # of gradients that are watched
        self._seen: dict[str, _Seen] = {}  # layer -> the gradient that is being applied
        # layer -> the version to which the gradient before was applied, and that gradient
        self._before: dict[str, tuple[int, Sample]] = {}
        self._recent: deque[tuple[int, int]] = deque(maxlen=RECENT)  # group and staleness
        self._measured_with = 0  # groups, when the first pair that counts was seen

    def __repr__(self) -> str:
        return (
            f"<watch of {len(self._momenta)} layers, {self.groups} groups, momentum {self._ratio}>"
        )

    def takes_batches_of(self, images: int) -> None:
        """From now on gradients are those of batches of this many images."""
        self._batch = images
        self._before.clear()

    def forget(self) -> None:
        """Forget the measurements of momentum: the run goes on from another model, perhaps in other
        groups.

        The noise scale is kept, since it depends on the net and its batches only.
        """
        self._recent.clear()
        self._leaves = Leaves()
        self._seen.clear()
        self._before.clear()
        self._begin_with(0)

    def _begin_with(self, groups: int) -> None:
        """Restart the measurement: another number of groups has another implicit momentum."""
        self._measured_with = groups
        self._ratio.forget()
        for momentum in self._momenta.values():
            momentum.forget()

    def part(self, gradient: LayerGradient, blobs: Blobs) -> None:
        """Note that a part of a gradient has arrived."""
        if looked_at(gradient.number) and gradient.layer in self._momenta:
            self._leaves.add((gradient.number, gradient.layer), gradient, blobs)

    def whole(self, number: int, layer: str, blobs: Blobs) -> None:
        """Note that all parts of an iteration's gradient have arrived and it is about to be
        applied."""
        leaves, squares = self._leaves.of((number, layer))
        if not leaves:
            return
        sample = _sample(blobs)
        # numbers overflow in a run that diverges; the ratio leaves out pairs that are not finite
        with np.errstate(all="ignore"):
            self._whole(layer, leaves, blobs, sample, squares)

    def _whole(self, layer: str, leaves: int, blobs: Blobs, sample: Sample, squares: float) -> None:
        seen = self._seen[layer] = _Seen(
            sample, sum(blob.size for blob in blobs) / max(1, sample.size), leaves
        )
        if leaves > 1:
            self.noise.parts(squares, leaves, sample, seen.weight, self._batch)

    def applied(self, layer: str, group: int, version: int, staleness: int) -> None:
        """Note that a gradient made this version of the layer. `staleness` other gradients were
        applied since the version that it was computed on."""
        self._recent.append((group, staleness))
        seen = self._seen.pop(layer, None)
        if seen is None:
            return
        with np.errstate(all="ignore"):
            self._note(layer, version, staleness, seen)

    def _note(self, layer: str, version: int, staleness: int, seen: _Seen) -> None:
        if (groups := self.groups) != self._measured_with:
            self._begin_with(groups)
        self._momenta[layer].note(
            version - 1, version - 1 - staleness, seen.sample, reach_of(groups)
        )
        at, before = self._before.get(layer, (-1, seen.sample))
        if at == version - 2 and staleness > 0 and seen.leaves == 1:
            self.noise.successive(before, seen.sample, seen.weight, self._batch)
        self._before[layer] = version - 1, seen.sample

    @property
    def groups(self) -> int:
        """The number of different groups from which the last updates came; at least 1."""
        return len({group for group, _ in self._recent}) or 1

    @property
    def updates(self) -> int:
        """The number of updates that are counted."""
        return len(self._recent)

    def by_staleness(self) -> float:
        """The implicit momentum according to the staleness of the last updates; 0 before the
        first."""
        return from_staleness(Counter(stale for _, stale in self._recent)) if self._recent else 0.0

    def by_gradients(self) -> Measured | None:
        """The implicit momentum according to the gradients themselves; None while too little is
        known."""
        return self._ratio.measured()

    def noise_scale(self) -> Measured | None:
        """The gradient noise scale in images. None while too little is known, and always where one
        member computes whole batches."""
        return self.noise.measured()


def _sample(blobs: Blobs) -> Sample:
    """Copy some coordinates of each array."""
    flat = [blob.reshape(-1) for blob in blobs]
    found = [to_host(array[:: -(-array.size // MOST) or 1]) for array in flat]
    return np.concatenate(found).astype(np.float32, copy=False)
