"""The parameters of some layers, which are read, published, saved and restored; `parameter_store`
updates them.

A published version is never written to again: an update makes new arrays, so readers share the old
ones without copies. Where no other actor reads (`in_place`), an update writes over the old arrays
and allocates nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np

from nets import NetError, ParamSpec, SolverSpec
from ops import Array, Backend
from roles.learning.buffers import new_parameter
from roles.learning.checkpoint_slices import history_names, state_shapes, trained_name
from roles.messages import TRAIN, Blobs


class Parameters:
    """The parameters, the solver's histories and the version of every layer of a part.

    `publishes`: each version of a device's parameters is shared with other actors when it is made,
    in the compute thread. If the solver averages parameters, tests and checkpoints get the
    averages.
    """

    def __init__(
        self,
        params: Mapping[str, tuple[ParamSpec, ...]],
        blobs: Mapping[str, Blobs],
        solver: SolverSpec,
        ops: Backend,
        *,
        in_place: bool = False,
        publishes: bool = False,
    ) -> None:
        self._params = {
            layer: tuple(map(solver.optimizer.adjusted, specs)) for layer, specs in params.items()
        }
        self._blobs = dict(blobs)
        self._solver = solver
        self._ops = ops
        self._in_place = in_place
        self._history = {
            layer: tuple(
                solver.new_history(ops, param, blob.dtype)
                for param, blob in zip(params[layer], of, strict=True)
            )
            for layer, of in self._blobs.items()
        }
        self._average = solver.average
        self._averages: dict[str, Blobs] = {}
        self._begin_averages(self._blobs)
        self.versions = dict.fromkeys(self._blobs, 0)
        self._shared: dict[str, Blobs] | None = {} if publishes and not ops.on_host else None
        self._share(self._blobs)

    def __repr__(self) -> str:
        size = sum(blob.size for blobs in self._blobs.values() for blob in blobs)
        return (
            f"<parameters {size} in {len(self._blobs)} layers, versions "
            f"{sorted(set(self.versions.values()))}>"
        )

    @property
    def params(self) -> dict[str, tuple[ParamSpec, ...]]:
        """The specifications of each layer's parameters."""
        return self._params

    @property
    def layers(self) -> tuple[str, ...]:
        """The layers that have parameters, in net order."""
        return tuple(self._blobs)

    def read(self, layer: str, phase: str = TRAIN) -> Blobs:
        """The arrays of a layer's present version for passes of this phase. Tests get the average,
        if there is one."""
        return self._blobs[layer] if phase == TRAIN or not self._average else self._averages[layer]

    def count_all(self) -> None:
        """Count an update of every layer."""
        for layer in self.versions:
            self.versions[layer] += 1

    def _begin_averages(self, blobs: Mapping[str, Blobs]) -> None:
        """Let the averages of these layers begin with copies of these arrays."""
        if self._average:
            for layer, of in blobs.items():
                copies = [self._ops.zeros((blob.size,), blob.dtype) for blob in of]
                self._averages[layer] = tuple(
                    self._ops.copy(blob, copy.reshape(blob.shape))
                    for blob, copy in zip(of, copies, strict=True)
                )

    def _average_in(self, ops: Backend, layers: Iterable[str]) -> None:
        """Let the new parameters of these layers, whose versions are not counted yet, into their
        averages. With a lookahead, these parameters, which no actor has read yet, become the
        averages."""
        if self._average is None:
            return
        for layer in layers:
            keep = self._average.decay_at(self.versions[layer], self._solver.max_iter)
            if keep is None:
                continue
            for average, blob in zip(self._averages[layer], self._blobs[layer], strict=True):
                ops.moving_average(average, blob, keep, out=average)
                if self._average.lookahead:
                    ops.copy(average, blob)

    def averaged(self, layer: str) -> Blobs | None:
        """A copy of a layer's averages in memory that peers can read. None if there are none."""
        if self._average is None:
            return None
        found = []
        for average in self._averages[layer]:
            copy = new_parameter(self._ops, average.shape, average.dtype)
            copy[...] = average
            found.append(self._ops.to_share(copy))
        return tuple(found)

    def in_place(self, layer: str, *, histories: bool) -> list[Array]:
        """The arrays of a layer that may be written over where no other actor reads: each
        parameter, followed by the solver's histories of it if `histories` is set."""
        found: list[Array] = []
        for blob, of in zip(self._blobs[layer], self._history[layer], strict=True):
            found += (blob, *of) if histories else (blob,)
        return found

    def overwritten(self) -> list[Array]:
        """The arrays that updates write over where no other actor reads: all parameters and
        histories."""
        histories = chain.from_iterable(self._history.values())
        return [*chain.from_iterable(self._blobs.values()), *chain.from_iterable(histories)]

    def published(self, layer: str) -> Blobs:
        """The arrays of a layer's present version for other actors. With `publishes`, all readers
        share one copy of a version on a device."""
        return (
            self._shared[layer]
            if self._shared is not None
            else tuple(map(self._ops.to_share, self._blobs[layer]))
        )

    def _share(self, layers: Iterable[str]) -> None:
        """Share new versions of these layers, if they are published."""
        if self._shared is not None:
            self._shared |= {
                layer: tuple(map(self._ops.to_share, self._blobs[layer])) for layer in layers
            }

    def start_from(self, blobs: Mapping[str, Sequence[Array]]) -> None:
        """Take first parameters of some or all layers. They must have the right shapes, and are
        converted to this store's dtype."""
        for layer, arrays in blobs.items():
            self._blobs[layer] = tuple(
                self._own(array, blob.dtype)
                for array, blob in zip(arrays, self._blobs[layer], strict=True)
            )
        self._begin_averages({layer: self._blobs[layer] for layer in blobs})
        self._share(blobs)

    def _own(self, array: Array, dtype: Any) -> Array:
        """The array, or a copy that may be written over."""
        return self._ops.asarray(np.array(array) if self._in_place else array, dtype)

    def _renewed(self, history: Array, state: Array) -> Array:
        """A history from a checkpoint's array. With `in_place` it stays where it is in memory."""
        new = self._ops.asarray(np.array(state), history.dtype)
        if not self._in_place:
            return new
        history[...] = new
        return history

    def state(self) -> dict[str, Array]:
        """Everything that a checkpoint must hold, on the host: `layer.i`, and `layer.i.history`,
        `layer.i.history2`. With averages, `layer.i` is the average, which every reader of weights
        then takes, and `layer.i.trained` is the parameter that training goes on from."""
        found: dict[str, Array] = {}
        for layer, blobs in self._blobs.items():
            for index, (blob, histories) in enumerate(
                zip(blobs, self._history[layer], strict=True)
            ):
                host = self._ops.to_host(blob)
                host = host.copy() if self._in_place else host
                if self._average is None:
                    found[f"{layer}.{index}"] = host
                else:
                    average = self._ops.to_host(self._averages[layer][index])
                    found[f"{layer}.{index}"] = average.copy()
                    found[trained_name(layer, index)] = host
                for name, history in zip(
                    history_names(layer, index, len(histories)), histories, strict=True
                ):
                    found[name] = self._ops.to_host(history).copy()
        return found

    def restore(self, state: Mapping[str, Array], version: int) -> None:
        """Take parameters, momentum and averages from a checkpoint's arrays. If it has no averages,
        they begin with its parameters. Raises NetError that names missing or misshapen arrays."""
        shapes = state_shapes(self._params, self._solver, state)
        found = {name: state[name].shape if name in state else "nothing" for name in shapes}
        wrong = [(name, shape) for name, shape in shapes.items() if found[name] != shape]
        problems = [
            (f"checkpoint: '{name}': found {found[name]}, expected shape {shape}")
            for name, shape in wrong
        ]
        if problems:
            raise NetError(problems)
        for layer, blobs in self._blobs.items():
            fresh = tuple(
                self._own(_trained(state, layer, index), blob.dtype)
                for index, blob in enumerate(blobs)
            )
            if self._average is not None:
                self._averages[layer] = tuple(
                    self._ops.asarray(np.array(state[f"{layer}.{index}"]), blob.dtype)
                    for index, blob in enumerate(blobs)
                )
            if self._in_place:  # other objects may hold views of these arrays
                for blob, new in zip(blobs, fresh, strict=True):
                    blob[...] = new
            else:
                self._blobs[layer] = fresh
            self._history[layer] = tuple(
                tuple(
                    self._renewed(history, state[name])
                    for name, history in zip(
                        history_names(layer, index, len(histories)), histories, strict=True
                    )
                )
                for index, histories in enumerate(self._history[layer])
            )
            self.versions[layer] = version
        self._share(self._blobs)


def _trained(state: Mapping[str, Array], layer: str, index: int) -> Array:
    """The parameter that training goes on from, in the arrays of a checkpoint."""
    return state.get(trained_name(layer, index), state[f"{layer}.{index}"])
