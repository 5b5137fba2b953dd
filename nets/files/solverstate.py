"""Caffe's `.solverstate`: the iteration and the solver's history, from which training continues
where Caffe stopped.

Both formats of the file, binary and HDF5, and the order of the history.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nets.definition.params import ParamSpec
from nets.errors import NetError
from nets.files import hdf5
from nets.files.binary import read_message, write_message
from nets.files.blobs import from_array, same_shape, to_array
from nets.schema import caffe_pb2 as caffe

History = dict[str, tuple[tuple[NDArray[Any], ...], ...]]  # layer -> arrays of each blob


@dataclass(frozen=True, eq=False)
class SolverState:
    """The state of Caffe's solver without the weights. `history` is flat, in Caffe's order."""

    iteration: int
    history: tuple[NDArray[Any], ...] = field(repr=False)
    learned_net: str = ""
    current_step: int = 0


def read_solverstate(path: Path) -> SolverState:
    """Read a `.solverstate`, or a `.solverstate.h5` by its suffix. Raises NetError if it is
    damaged."""
    if path.suffix == ".h5":
        iteration, step, learned, arrays = hdf5.read_state(path)
        return _checked(SolverState(iteration, arrays, learned, step), path)
    found = read_message(path, caffe.SolverState, "a .solverstate")
    if not found.HasField("iter"):
        raise NetError(f"{path}: found no iteration, expected a .solverstate")
    history = [to_array(blob, f"{path}: history {at}") for at, blob in enumerate(found.history)]
    return _checked(
        SolverState(found.iter, tuple(history), found.learned_net, found.current_step), path
    )


def write_solverstate(path: Path, state: SolverState) -> None:
    """Write a `.solverstate`, or a `.solverstate.h5` by its suffix."""
    if path.suffix == ".h5":
        hdf5.write_state(
            path, state.iteration, state.current_step, state.learned_net, state.history
        )
        return
    message = caffe.SolverState(
        iter=state.iteration, learned_net=state.learned_net, current_step=state.current_step
    )  # fmt: skip
    message.history.extend(from_array(array) for array in state.history)
    write_message(path, message)


def split_history(state: SolverState, params: Mapping[str, Sequence[ParamSpec]]) -> History:
    """Return the history by layer and blob, in the shapes of the blobs. Raises NetError if it does
    not fit this net.

    Caffe keeps one array per blob, in the net's order (SGD, Nesterov, AdaGrad, RMSProp), or all
    first arrays and then all second arrays (AdaDelta, Adam).
    """
    flat = [param for blobs in params.values() for param in blobs]
    found = len(state.history)
    count = len(flat)
    if not count or found not in (count, 2 * count):
        raise NetError(
            f"solver state: found {found} arrays of history, expected {count} or {2 * count}"
        )
    problems = [
        (
            f"solver state: history {at} (layer '{param.layer}'): found shape {array.shape}, "
            f"expected {param.shape}"
        )
        for at, (array, param) in enumerate(
            zip(state.history, flat * (found // count), strict=True)
        )
        if not same_shape(array.shape, param.shape)
    ]
    if problems:
        raise NetError(problems)
    arrays = [tuple(state.history[at::count]) for at in range(count)]
    shaped = iter(
        [tuple(a.reshape(p.shape) for a in mine) for mine, p in zip(arrays, flat, strict=True)]
    )
    return {layer: tuple(next(shaped) for _ in blobs) for layer, blobs in params.items()}


def join_history(
    history: Mapping[str, Sequence[Sequence[NDArray[Any]]]],
) -> tuple[NDArray[Any], ...]:
    """Return the arrays in Caffe's order. This is the inverse of `split_history`."""
    blobs = [tuple(arrays) for layer in history.values() for arrays in layer]
    return tuple(
        np.asarray(array)
        for at in range(len(blobs[0]) if blobs else 0)
        for array in (b[at] for b in blobs)
    )


def _checked(state: SolverState, path: Path) -> SolverState:
    if state.iteration < 0 or state.current_step < 0:
        found = f"iter {state.iteration}, current_step {state.current_step}"
        raise NetError(f"{path}: found {found}, expected integers >= 0")
    return state
