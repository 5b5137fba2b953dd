"""Parameters and their updates: a model server without its messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from numpy.typing import NDArray

from ops import Array, Backend
from roles.learning.buffers import new_parameter
from roles.learning.histograms import Histograms
from roles.learning.parameters import Parameters
from roles.messages import Blobs


class ParameterStore(Parameters):
    """Parameters that are updated. A layer's version is the number of its updates.

    `given`: an array on the device with `step_numbers`, which updates then read there.
    """

    given: Array | None = None
    histograms: Histograms | None = None  # made before an update, if they are wanted

    @property
    def momentum(self) -> float:
        """The solver's present momentum."""
        return float(self._solver.momentum)

    def set_rates(self, base_lr: float, momentum: float) -> None:
        """Go on with another learning rate (the policy's first) and momentum."""
        self._solver = self._solver.override({"base_lr": base_lr, "momentum": momentum})

    def apply(self, layer: str, gradients: Blobs, *, counts: bool = True) -> int:
        """Update a layer by the solver's rule. Return its version, which is new unless `counts` is
        False.

        Rates and Adam's correction depend on the iteration, which is the layer's version. In an
        iteration of several updates, only the last one counts. Running statistics are part of the
        layer: their "gradients" are applied by the same call.
        """
        self._update(self._ops, {layer: gradients})
        if counts:
            self._average_in(self._ops, (layer,))
        self._share((layer,))
        return self.count(layer) if counts else self.versions[layer]

    def count(self, layer: str) -> int:
        """Return a layer's new version after an update."""
        self.versions[layer] += 1
        return self.versions[layer]

    def _update(self, ops: Backend, gradients: Mapping[str, Blobs]) -> None:
        """Update layers of one version. Gradients may lie in host memory."""
        if self.histograms is not None:
            self.histograms.look(ops, self, gradients)
        new = {layer: tuple(map(self._next, self._blobs[layer])) for layer in gradients}
        of = [
            (
                self._params[at],
                self._blobs[at],
                tuple(map(ops.asarray, found)),
                self._history[at],
                new[at],
            )
            for at, found in gradients.items()
        ]
        version = self.versions[next(iter(gradients))]
        self._solver.update_layers(ops, version, of, self.given)
        self._blobs |= new

    def step_numbers(self) -> NDArray[Any]:
        """The numbers of the next update of all layers that differ from step to step."""
        ((first, *_), *_) = self._blobs.values()
        version = next(iter(self.versions.values()))
        return self._solver.step_numbers(self._ops, version, first.dtype)

    def _next(self, w: Array) -> Array:
        """The array for the next version of a parameter."""
        return w if self._in_place else new_parameter(self._ops, w.shape, w.dtype)

    def apply_all(self, gradients: Mapping[str, Blobs]) -> None:
        """Update every layer from the gradients of one whole pass, clipped by their common norm if
        the solver clips.

        The gradients may be written over. Where several actors hold parameters, they share the
        common norm (`common_norm`).
        """
        learned = self._learned(gradients)
        factor = self._solver.clip_factor(self._ops, learned)
        if factor != 1.0:
            for gradient in learned:
                gradient *= factor
        if len({self.versions[layer] for layer in gradients}) == 1:
            self._update(self._ops, gradients)
            self._average_in(self._ops, gradients)
            self._share(gradients)
            for layer in gradients:
                self.count(layer)
        else:
            for layer, of in gradients.items():
                self.apply(layer, of)

    def _learned(self, gradients: Mapping[str, Blobs]) -> list[Array]:
        """The gradients of learned parameters, without the terms of running statistics."""
        return [
            g
            for layer, of in gradients.items()
            for param, g in zip(self._params[layer], of, strict=True)
            if param.keep is None
        ]

    def squares(self, gradients: Mapping[str, Blobs]) -> list[float]:
        """The sum of squares of each gradient that counts for the common norm."""
        return [self._ops.l2_norm_squared(self._ops.asarray(g)) for g in self._learned(gradients)]

    def clipped(self, layer: str, gradients: Blobs, squares: Sequence[float]) -> Blobs:
        """A layer's gradients, clipped by the norm of all gradients with these squares. The given
        arrays are not changed."""
        factor = self._solver.clip_factor_of(squares)
        if factor == 1.0:
            return gradients
        return tuple(
            g * factor if param.keep is None else g
            for param, g in zip(self._params[layer], gradients, strict=True)
        )
