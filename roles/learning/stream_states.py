"""The states that recurrent layers hand from one pass to the next, as their worker keeps them.

States belong to some streams and to a place in the data: the run's first row of the batch that
follows. A pass that begins there starts from them. Streams that another worker computed before
start from the states that this worker was given, by a checkpoint or at a change of the groups. All
other streams start from zeros, as at the beginning of a run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ops import Array
from roles.learning.micro_batches import WorkerNet

Span = tuple[int, int]  # streams [low, high)
Slices = dict[str, list[int]]  # name -> [axis, low, high, total], as in State
# in the names of states in a checkpoint: LAYER.NUMBER.beside.streams.at-PLACE
MARK = ".beside.streams.at-"


class Piece(NamedTuple):
    """The states of some streams at a place: "layer.number" -> (streams, units). `span` is None for
    a net without streams, whose rows are steps of time."""

    place: int
    span: Span | None
    states: Mapping[str, Array]


class StreamStates:
    """The states of one worker's net in one phase. All methods are called in the compute thread."""

    def __init__(self, net: WorkerNet) -> None:
        self._net = net
        self._place = -1  # of the states that the net has now; -1: they do not count
        self._span: Span | None = None
        self._given: list[Piece] = []

    def __repr__(self) -> str:
        return f"<states of streams {self._span} at {self._place}, {len(self._given)} given>"

    def begin(self, first: int, rows: int, mine: Span, begin: Callable[[], None]) -> None:
        """Begin a pass by `begin`, over the rows `mine` of a batch of `rows` rows. The batch begins
        at the run's row `first`. The net then has the states that its streams had there."""
        span = None if self._net.streams is None else mine
        if (first, span) == (self._place, self._span):
            begin()
        else:
            pieces = [piece for piece in self._pieces() if piece.place == first]
            begin()  # a net with another number of rows forgets its states
            self._net.set_states(_of_span(pieces, span))
            self._given = []
        self._place = first + rows
        self._span = span

    def give(self, arrays: Mapping[str, Array]) -> None:
        """Take states of whole batches, by their names in a checkpoint. A pass that begins at their
        place starts from them."""
        for name, array in arrays.items():
            place = place_of(name)
            if place is not None:
                span = None if self._net.streams is None else (0, len(array))
                self._given.append(Piece(place, span, {name.partition(MARK)[0]: np.array(array)}))

    def saved(self) -> tuple[dict[str, Array], Slices]:
        """Copies of the states, by their names in a checkpoint, and their places in the arrays of
        all streams."""
        arrays: dict[str, Array] = {}
        slices: Slices = {}
        for place, span, states in self._pieces():
            for state, array in states.items():
                name = f"{state}{MARK}{place}"
                low, high = span or (0, len(array))
                arrays[name] = array
                slices[name] = [0, low, high, self._net.batch if span else high]
        return arrays, slices

    def set_aside(self) -> dict[str, Any]:
        """A copy of all states."""
        return {"pieces": self._pieces()}

    def take_back(self, kept: Mapping[str, Any]) -> None:
        """Go on from a copy, which is not changed."""
        self._given = list(kept["pieces"])
        self._place = -1

    def _pieces(self) -> list[Piece]:
        """The states that were given, and copies of those that the net has now."""
        if self._place < 0:
            return list(self._given)
        found = {
            name: np.array(self._net.ops.to_host(state))
            for name, state in self._net.states().items()
        }
        return [*self._given, Piece(self._place, self._span, found)]


def place_of(name: str) -> int | None:
    """The place of a state with this name in a checkpoint. None if it is another array."""
    _, mark, place = name.rpartition(MARK)
    return int(place) if mark and place.isascii() and place.isdigit() else None


class StreamRows:
    """States of whole batches, put together from the parts of several workers."""

    def __init__(self) -> None:
        self._whole: dict[str, Array] = {}
        self._known: dict[str, Array] = {}  # for each stream, whether its state has come

    def __repr__(self) -> str:
        return f"<{len(self._whole)} states, {len(self._known) - len(self.arrays())} not whole yet>"

    def add(self, name: str, array: Array, place: Sequence[int]) -> None:
        """Take a part. `place` is [axis, low, high, total] as from `StreamStates.saved`. Parts of
        two workers may overlap: they are equal there."""
        _, low, high, total = place
        if name not in self._whole:
            self._whole[name] = np.zeros((total, *array.shape[1:]), array.dtype)
            self._known[name] = np.zeros(total, np.bool_)
        self._whole[name][low:high] = array
        self._known[name][low:high] = True

    def arrays(self) -> dict[str, Array]:
        """The arrays of all streams. An array with a missing stream is left out."""
        return {name: array for name, array in self._whole.items() if self._known[name].all()}


def _of_span(pieces: Sequence[Piece], span: Span | None) -> dict[str, Array]:
    """The states of the streams in `span`, zeros where no piece has them; none without a piece. For
    a net without streams, the states of all pieces."""
    found: dict[str, Array] = {}
    for piece in pieces:
        for name, array in piece.states.items():
            if span is None or piece.span is None:
                found[name] = array
                continue
            low, high = max(span[0], piece.span[0]), min(span[1], piece.span[1])
            if low < high:
                rows = found.setdefault(
                    name, np.zeros((span[1] - span[0], *array.shape[1:]), array.dtype)
                )
                rows[low - span[0] : high - span[0]] = array[
                    low - piece.span[0] : high - piece.span[0]
                ]
    return found
