"""Looks at the gradients that a model server applies, now and then, and at some coordinates of each.

Of every PERIOD updates of a layer the first BURST are looked at. Nothing is asked of anybody, and no large array is
read as a whole.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from roles.messages import Blobs
from roles.tuning.momentum import ImplicitMomentum, Sample, from_staleness, reach_of
from roles.tuning.noise import NoiseScale
from roles.tuning.ratio import Measured, Ratio

PERIOD, BURST = 2048, 256  # updates of a layer
LAYERS, MOST = 8, 256  # layers of a model, evenly spread, and coordinates of each of their arrays
RECENT = 256  # updates whose groups and staleness are counted


@dataclass(frozen=True)
class _Seen:
    sample: Sample
    weight: float  # coordinates of the layer over those sampled
    parts: int


class GradientWatch:
    """Of one model server. `part` and `whole` may be called from the compute thread, one at a time."""

    def __init__(self, layers: Sequence[str], batch: int) -> None:
        self.noise = NoiseScale()
        self._batch, self._ratio = batch, Ratio()
        self._momenta = {layer: ImplicitMomentum(self._ratio) for layer in layers[:: -(-len(layers) // LAYERS) or 1]}
        self._squares: dict[Hashable, float] = {}  # of gradients that are looked at: the sum of |part|^2
        self._seen: dict[str, _Seen] = {}  # of a layer: what is being applied
        self._before: dict[str, tuple[int, Sample]] = {}  # of a layer: what was applied before, and to which version
        self._recent: deque[tuple[int, int]] = deque(maxlen=RECENT)  # group and staleness

    def __repr__(self) -> str:
        return f"<watch of {len(self._momenta)} layers, {self.groups} groups, momentum {self._ratio}>"

    def part(self, key: Hashable, layer: str, version: int, parts: int, blobs: Blobs) -> None:
        """A part of a gradient has come, while the layer has this version. The first decides if it is looked at."""
        if key not in self._squares and (version % PERIOD >= BURST or layer not in self._momenta):
            return
        part = _sample(blobs) if parts > 1 else _NOTHING
        with np.errstate(all="ignore"):
            self._squares[key] = self._squares.get(key, 0.0) + float(part @ part)

    def whole(self, key: Hashable, layer: str, parts: int, blobs: Blobs) -> None:
        """All its parts have; it is about to be applied."""
        squares = self._squares.pop(key, None)
        if squares is None:
            return
        sample = _sample(blobs)
        with np.errstate(all="ignore"):  # of a run that diverges; the ratio leaves out what is not finite
            self._whole(layer, parts, blobs, sample, squares)

    def _whole(self, layer: str, parts: int, blobs: Blobs, sample: Sample, squares: float) -> None:
        seen = self._seen[layer] = _Seen(sample, sum(blob.size for blob in blobs) / max(1, sample.size), parts)
        if parts > 1:
            self.noise.parts(squares, parts, sample, seen.weight)

    def applied(self, layer: str, group: int, version: int, staleness: int) -> None:
        """A gradient made this version of the layer; so many others were applied since it was read."""
        self._recent.append((group, staleness))
        seen = self._seen.pop(layer, None)
        if seen is None:
            return
        with np.errstate(all="ignore"):
            self._note(layer, version, staleness, seen)

    def _note(self, layer: str, version: int, staleness: int, seen: _Seen) -> None:
        self._momenta[layer].note(version - 1, version - 1 - staleness, seen.sample, reach_of(self.groups))
        at, before = self._before.get(layer, (-1, seen.sample))
        if at == version - 2 and staleness > 0 and seen.parts == 1:
            self.noise.successive(before, seen.sample, seen.weight)
        self._before[layer] = version - 1, seen.sample

    @property
    def groups(self) -> int:
        """How many different ones the last updates came from."""
        return len({group for group, _ in self._recent}) or 1

    @property
    def updates(self) -> int:
        """How many of them are counted."""
        return len(self._recent)

    def by_staleness(self) -> float:
        """The implicit momentum that the staleness of the last updates says; 0 before the first."""
        return from_staleness(Counter(stale for _, stale in self._recent)) if self._recent else 0.0

    def by_gradients(self) -> Measured | None:
        """The implicit momentum that the gradients themselves say; None while too little is known."""
        return self._ratio.measured()

    def noise_scale(self) -> Measured | None:
        """In images; None while too little is known, and always where one member computes whole batches."""
        return self.noise.measured(self._batch)


_NOTHING = np.zeros(0, np.float32)


def _sample(blobs: Blobs) -> Sample:
    """Some coordinates of each array, a copy."""
    flat = [np.asarray(blob).reshape(-1) for blob in blobs]
    return np.concatenate([array[:: -(-array.size // MOST) or 1] for array in flat]).astype(np.float32, copy=False)
