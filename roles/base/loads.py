"""What is in a piece of array work: layers that rows go through, parameters that are updated, numbers that are added.

From this follows how long it takes: on a machine whose layers were timed, or on one whose FLOP/s are known.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from nets import Stage

Layers = tuple[str, ...]  # names, as the whole net has them


@dataclass(frozen=True)
class Load:
    """One piece of work of the name that it has in a profile: `rows` go `forward` through these layers, and gradients
    of as many rows `backward`; the parameters of `updated` layers are updated; `added` numbers are added to others.
    `share` is the part of these layers' units that is here, where the FC phase is shared out."""

    label: str
    rows: int = 0
    forward: Layers = ()
    backward: Layers = ()
    updated: Layers = ()
    added: float = 0.0
    share: float = 1.0


Loads = Iterable[Load]


class Staged(Protocol):
    """A net, or a part of its stages."""

    @property
    def stages(self) -> Sequence[Stage]: ...


def layers_in(of: Staged) -> Layers:
    """The names of its layers."""
    return tuple(layer for stage in of.stages for layer in stage.layers)
