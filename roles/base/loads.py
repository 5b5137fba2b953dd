"""The contents of a piece of array work: layers that rows go through, parameters that are updated,
numbers that are added, bytes that are copied to a device and back.

The duration of the work follows from its contents: on a machine whose layers were timed, or on one
whose FLOP/s are known.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from nets import Stage

Layers = tuple[str, ...]  # names, as the whole net has them
# layer -> shape of each parameter, and whether it is learned
Blobs = Mapping[str, Sequence[tuple[Sequence[int], bool]]]


@dataclass(frozen=True)
class Load:
    """One piece of array work, with the `label` that it has in a profile.

    `rows` go `forward` through these layers, and gradients of as many rows go `backward`. The
    parameters of the `updated` layers are updated. `added` numbers are added to others. `copied`
    bytes go from a device to host memory or back, if the actor computes on a device. `share` is the
    fraction of these layers' units that this actor computes, where the FC phase is shared out.
    """

    label: str
    rows: int = 0
    forward: Layers = ()
    backward: Layers = ()
    updated: Layers = ()
    added: float = 0.0
    copied: float = 0.0
    share: float = 1.0


Loads = Iterable[Load]


def first_passes(
    label: str, rows: int, layers: Layers, passes: int, further: str = "pass"
) -> Loads:
    """The work of a batch that is computed in several passes (iter_size), up to its last backward
    pass.

    This is one forward pass, then a backward and a forward pass for each further pass. Yields
    nothing if there is only one pass.
    """
    if passes > 1:
        yield Load(label, rows, forward=layers)
        yield from [Load(further, rows, layers, layers)] * (passes - 1)


def sums(label: str, layers: Blobs, parts: int) -> Loads:
    """The sums of each layer's gradient from `parts` parts: one piece of work for each part as it
    arrives. `label` may have a place for the layer's name: "sum {}"."""
    for layer, blobs in layers.items():
        numbers = count(blobs)
        yield from (
            Load(label.format(layer), added=numbers if part else 0) for part in range(parts)
        )


def norm_load(layers: Blobs) -> Load:
    """The sum of squares of all gradients of these layers."""
    return Load("norm", added=sum(map(count, layers.values())))


def count(blobs: Sequence[tuple[Sequence[int], bool]]) -> int:
    """The numbers of a layer's parameters."""
    return sum(math.prod(shape) for shape, _ in blobs)


def updates(layers: Blobs, parts: int, *, apart: bool, copied: int) -> Loads:
    """The sum and the update of each layer. The update is done with the last part, under the same
    label, or as a separate piece (`apart`), on the CPU. The sum is copied to the device, and the
    new parameters to host memory: `copied` bytes for each number of both together."""
    updated = [
        Load(f"update {layer}", updated=(layer,), copied=0 if apart else copied * count(blobs))
        for layer, blobs in layers.items()
    ]
    if apart:
        return [*sums("sum {}", layers, parts), *updated]
    # the first part is added to nothing
    return [*(load for load in sums("update {}", layers, parts) if load.added), *updated]


class Staged(Protocol):
    """A net, or a part of its stages."""

    @property
    def stages(self) -> Sequence[Stage]: ...


def layers_in(of: Staged) -> Layers:
    """The names of the layers of a net, or of a part of its stages."""
    return tuple(layer for stage in of.stages for layer in stage.layers)
