"""Published parameters and their updates: what a model server is, without its messages.

A published version is never written to again: an update makes new arrays, so readers share it without copies.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from nets import NetError, ParamSpec, SolverSpec
from ops import Array, Backend

Blobs = tuple[Array, ...]


class ParameterStore:
    """Parameters, momentum and version of every layer of a net's part. A layer's version counts its updates."""

    def __init__(
        self,
        params: Mapping[str, tuple[ParamSpec, ...]],
        blobs: Mapping[str, Blobs],
        solver: SolverSpec,
        ops: Backend,
    ) -> None:
        self._params = dict(params)
        self._blobs = dict(blobs)
        self._solver = solver
        self._ops = ops
        self._history = {
            layer: tuple(ops.zeros(blob.shape, blob.dtype) for blob in of) for layer, of in self._blobs.items()
        }
        self.versions = dict.fromkeys(self._blobs, 0)

    def __repr__(self) -> str:
        size = sum(blob.size for blobs in self._blobs.values() for blob in blobs)
        return f"<parameters {size} in {len(self._blobs)} layers, versions {sorted(set(self.versions.values()))}>"

    @property
    def layers(self) -> tuple[str, ...]:
        """The layers that have parameters, in net order."""
        return tuple(self._blobs)

    def read(self, layer: str) -> Blobs:
        """The present version's arrays of a layer."""
        return self._blobs[layer]

    def apply(self, layer: str, gradients: Blobs) -> int:
        """Update a layer by SGD with momentum and weight decay as Caffe defines them; returns its new version.

        The rate is that of the solver's policy at the layer's number of updates so far.
        """
        rate, updated = self._solver.rate(self.versions[layer]), []
        for param, w, g, h in zip(
            self._params[layer], self._blobs[layer], gradients, self._history[layer], strict=True
        ):
            updated.append(
                self._ops.sgd_update(
                    w,
                    g,
                    h,
                    rate=rate * param.lr_mult,
                    momentum=self._solver.momentum,
                    decay=self._solver.weight_decay * param.decay_mult,
                    out_h=h,  # nobody else reads the momentum
                )
            )
        self._blobs[layer] = tuple(w for w, _ in updated)
        self._history[layer] = tuple(h for _, h in updated)
        self.versions[layer] += 1
        return self.versions[layer]

    def state(self) -> dict[str, Array]:
        """Everything a checkpoint must hold: `layer.i` and `layer.i.history`, on the host."""
        found: dict[str, Array] = {}
        for layer, blobs in self._blobs.items():
            for index, (blob, history) in enumerate(zip(blobs, self._history[layer], strict=True)):
                found[f"{layer}.{index}"] = self._ops.to_host(blob)
                found[f"{layer}.{index}.history"] = self._ops.to_host(history).copy()
        return found

    def restore(self, state: Mapping[str, Array], version: int) -> None:
        """Take parameters and momentum from a checkpoint's arrays. NetError names what is missing or misshapen."""
        problems: list[str] = []
        for layer, blobs in self._blobs.items():
            for index, blob in enumerate(blobs):
                for name in (f"{layer}.{index}", f"{layer}.{index}.history"):
                    found = state[name].shape if name in state else "nothing"
                    if found != blob.shape:
                        problems.append(f"checkpoint: '{name}': found {found}, expected shape {blob.shape}")
        if problems:
            raise NetError(problems)
        for layer, blobs in self._blobs.items():
            names = [f"{layer}.{index}" for index in range(len(blobs))]
            self._blobs[layer] = tuple(self._ops.asarray(state[name]) for name in names)
            self._history[layer] = tuple(self._ops.asarray(np.array(state[f"{name}.history"])) for name in names)
            self.versions[layer] = version
