"""The arrays of a checkpoint, which are whole parameters: shards' parts are joined when a
checkpoint is written, and cut when it is read.

So a run that divides layers among shards can resume the checkpoint of a run that does not, and the
other way round.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from nets import NetError, ParamSpec, SolverSpec
from nets.files.histories import TRAINED
from nets.sharding.sharded_net import Shard
from nets.sharding.slices import Slice
from ops import Array


def slices_of_state(state: Mapping[str, Array], shard: Shard) -> dict[str, Any]:
    """[axis, low, high, total] of the arrays of a shard's state that are parts."""
    found = {name: shard.slices[layer][at] for name, layer, at in _places(state, shard)}
    return {
        name: [piece.axis, piece.low, piece.high, piece.total]
        for name, piece in found.items()
        if piece is not None
    }


def cut_state(state: Mapping[str, Array], shard: Shard) -> dict[str, Array]:
    """The shard's parts of a checkpoint's whole arrays. Raises NetError that names arrays of
    another shape."""
    problems = []
    found = {}
    for name, layer, at in _places(state, shard):
        expected = shard.whole_params[layer][at].shape
        if tuple(state[name].shape) == expected:
            found[name] = shard.part_of(layer, at, state[name])
        else:
            problems.append(
                f"checkpoint: '{name}': found {tuple(state[name].shape)}, expected shape {expected}"
            )
    if problems:
        raise NetError(problems)
    return found


def _places(state: Mapping[str, Array], shard: Shard) -> Iterator[tuple[str, str, int]]:
    """(name, layer, parameter) of the arrays that belong to the shard's layers."""
    for layer, params in shard.whole_params.items():
        for at in range(len(params)):
            own = f"{layer}.{at}"
            yield from (
                (name, layer, at)
                for name in state
                if name == own or name.startswith((f"{own}.history", trained_name(layer, at)))
            )


class Assembly:
    """Whole arrays, assembled from parts that are added one after the other."""

    def __init__(self) -> None:
        self._whole: dict[str, Array] = {}
        self._missing: dict[str, int] = {}  # the length of the cut axis that has not arrived

    def __repr__(self) -> str:
        return (
            f"<{len(self._whole)} arrays, {sum(map(bool, self._missing.values()))} of "
            "them not whole yet>"
        )

    def add(self, name: str, array: Array, place: Sequence[int]) -> None:
        """Take a part of an array. `place` is [axis, low, high, total]."""
        piece = Slice(*place)
        if name not in self._whole:
            shape = list(array.shape)
            shape[piece.axis] = piece.total
            self._whole[name] = np.empty(shape, array.dtype)
            self._missing[name] = piece.total
        piece.of(self._whole[name])[...] = array
        self._missing[name] -= piece.high - piece.low

    def arrays(self) -> dict[str, Array]:
        """Return all arrays. Raises NetError that names the arrays with a missing part."""
        left = {name: count for name, count in self._missing.items() if count}
        if left:
            raise NetError(
                [
                    (f"checkpoint: '{name}': {count} units of it did not arrive")
                    for name, count in left.items()
                ]
            )
        return self._whole


def state_shapes(
    params: Mapping[str, tuple[ParamSpec, ...]],
    solver: SolverSpec,
    state: Mapping[str, Array],
) -> dict[str, tuple[int, ...]]:
    """The arrays that a checkpoint of these parameters must have: name -> shape. `state`: the
    arrays that it has; only a run with averages saves the trained parameters too."""
    found: dict[str, tuple[int, ...]] = {}
    for layer, specs in params.items():
        for index, spec in enumerate(specs):
            histories = solver.histories(spec)
            found |= dict.fromkeys(
                (f"{layer}.{index}", *history_names(layer, index, histories)), spec.shape
            )
            if (trained := trained_name(layer, index)) in state:
                found[trained] = spec.shape
    return found


def trained_name(layer: str, index: int) -> str:
    """The name, in a checkpoint with averages, of a parameter that training goes on from."""
    return f"{layer}.{index}{TRAINED}"


def history_names(layer: str, index: int, count: int) -> list[str]:
    """The names, in a checkpoint, of the `count` histories of a parameter."""
    return [
        f"{layer}.{index}.history{number if number > 1 else ''}" for number in range(1, count + 1)
    ]
