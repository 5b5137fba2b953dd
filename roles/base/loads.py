"""What is in a piece of array work: layers that rows go through, parameters that are updated,
numbers that are added.

From this follows how long it takes: on a machine whose layers were timed, or on one whose FLOP/s
are known.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from nets import Stage

Layers = tuple[str, ...]  # names, as the whole net has them
# layer -> shape of each parameter, and if it is learned
Blobs = Mapping[str, Sequence[tuple[Sequence[int], bool]]]


@dataclass(frozen=True)
class Load:
    """One piece of work of the name that it has in a profile: `rows` go `forward` through these
    layers, and gradients of as many rows `backward`; the parameters of `updated` layers are
    updated; `added` numbers are added to others. `share` is the part of these layers' units that is
    here, where the FC phase is shared out."""

    label: str
    rows: int = 0
    forward: Layers = ()
    backward: Layers = ()
    updated: Layers = ()
    added: float = 0.0
    share: float = 1.0


Loads = Iterable[Load]


def first_passes(
    label: str, rows: int, layers: Layers, passes: int, further: str = "pass"
) -> Loads:
    """Of a batch that is computed in several passes (iter_size), what comes before the last way
    back: forward, and for each further pass there is back and forward. Nothing where there is one
    pass."""
    if passes > 1:
        yield Load(label, rows, forward=layers)
        yield from [Load(further, rows, layers, layers)] * (passes - 1)


def sums(label: str, layers: Blobs, parts: int) -> Loads:
    """Of each layer the sum of so many parts of its gradient, a piece for each as it comes. `label`
    may have a place for the layer's name: "sum {}"."""
    for layer, blobs in layers.items():
        numbers = sum(math.prod(shape) for shape, _ in blobs)
        yield from (
            Load(label.format(layer), added=numbers if part else 0) for part in range(parts)
        )


def updates(layers: Blobs, parts: int, *, apart: bool) -> Loads:
    """Of each layer the sum and its update, which is in the piece of the last part, or a piece
    `apart`."""
    updated = [Load(f"update {layer}", updated=(layer,)) for layer in layers]
    if apart:
        return [*sums("sum {}", layers, parts), *updated]
    # with the first comes no sum
    return [*(load for load in sums("update {}", layers, parts) if load.added), *updated]


class Staged(Protocol):
    """A net, or a part of its stages."""

    @property
    def stages(self) -> Sequence[Stage]: ...


def layers_in(of: Staged) -> Layers:
    """The names of its layers."""
    return tuple(layer for stage in of.stages for layer in stage.layers)
