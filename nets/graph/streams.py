"""The streams of a net with recurrent layers: sequences that lie side by side in its blobs.

The blobs of such a net are (T, N, ...): T steps of time of N streams. A batch is cut by streams, so
outside the net the streams are its rows: axis 0, as for images.
"""

from __future__ import annotations

from typing import NamedTuple

from nets.definition.spec import NetSpec
from nets.layers import kind_of
from ops import Array


class Streams(NamedTuple):
    """T steps of time of N streams (`number`) in every pass."""

    steps: int
    number: int


def is_recurrent(spec: NetSpec) -> bool:
    """Whether the net of one phase has recurrent layers."""
    return any((kind := kind_of(layer)) is not None and kind.time_first for layer in spec.layers)


def streams_of(spec: NetSpec) -> Streams | None:
    """Return the streams of the net of one phase. None if it has no recurrent layers, or if not all
    of its inputs are tops of `Input` layers with shapes (T, N, ...)."""
    if not is_recurrent(spec):
        return None
    found: set[tuple[int, ...]] = set()
    for layer in spec.layers:
        kind = kind_of(layer)
        if kind is None or not kind.is_source:
            continue
        if layer.proto.type != "Input":
            return None
        found |= {tuple(shape.dim[:2]) for shape in layer.proto.input_param.shape}
    sizes = found.pop() if len(found) == 1 else ()
    return Streams(*map(int, sizes)) if len(sizes) == 2 and min(sizes) > 0 else None


def turned(array: Array) -> Array:
    """Return a copy with axes 0 and 1 exchanged: (T, N, ...) to (N, T, ...) and back."""
    return array.swapaxes(0, 1).copy()
