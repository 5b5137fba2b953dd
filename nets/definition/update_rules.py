"""The update of layers by a solver, with the rule of its type (`solver_types`)."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from nets.definition.optimizer import OptimizerSettings, is_matrix
from nets.definition.params import ParamSpec
from nets.definition.solver_types import RULES, USUAL, Rule
from nets.schema import caffe_pb2 as caffe
from ops import Array, Backend, Parameter

History = tuple[Array, ...]
# The parameters of a layer, as `update` takes each of them: specs, w, g, history, out.
OneLayer = tuple[
    Sequence[ParamSpec], Sequence[Array], Sequence[Array], Sequence[History], Sequence[Array]
]

OneParameter = tuple[ParamSpec, Array, Array, History, Array]


class Updates(ABC):
    """The updates of a solver. Subclasses give its type and its learning rate."""

    proto: caffe.SolverParameter

    @property
    @abstractmethod
    def optimizer(self) -> OptimizerSettings:
        """The settings that the solver's file lacks."""

    @property
    @abstractmethod
    def type(self) -> str:
        """The solver's type, a key of RULES."""

    @abstractmethod
    def rate(self, iteration: int) -> float:
        """Return the learning rate of `iteration` (from 0)."""

    @property
    def needs_whole(self) -> bool:
        """Whether the update of a number depends on its whole parameter."""
        return RULES[self.type].whole

    def new_history(self, ops: Backend, param: ParamSpec, dtype: Any = np.float32) -> History:
        """Return the arrays that this solver keeps for a parameter, zero at first. It keeps none
        for a running statistic."""
        return tuple(ops.zeros(param.shape, dtype) for _ in range(self.histories(param)))

    def histories(self, param: ParamSpec) -> int:
        """Return the number of arrays that `new_history` makes."""
        return self.histories_of(param.shape) if param.keep is None else 0

    def histories_of(self, shape: Sequence[int]) -> int:
        """Return the number of arrays that the solver keeps for a learned parameter of this
        shape."""
        return self._rule(shape).histories

    def _rule(self, shape: Sequence[int]) -> Rule:
        """The rule of a learned parameter of this shape."""
        rule = RULES[self.type]
        return RULES[rule.vectors] if rule.vectors and len(shape) < 2 else rule

    def update(
        self,
        ops: Backend,
        iteration: int,
        param: ParamSpec,
        w: Array,
        g: Array,
        history: History,
        out: Array | None = None,
    ) -> tuple[Array, History]:
        """Return (w', history') after the update of `iteration` (from 0).

        g is unchanged. w' is `out`, which may be w, or a new array. The arrays of `history` are
        overwritten. g is the gradient of the whole batch's mean loss, as in Caffe after the
        division by iter_size. A running statistic becomes keep * w + g with every solver
        (`ParamSpec.keep`).
        """
        if param.keep is not None:
            new = ops.xp.multiply(w, param.keep, out=out)
            return ops.add(new, g, out=new), ()
        rule = self._rule(param.shape)
        new, *kept = rule.operation(ops)(
            w,
            g,
            *history,
            rate=self.rate(iteration) * param.lr_mult,
            decay=self.number("weight_decay") * param.decay_mult,
            regularization=self.proto.regularization_type,
            out_w=out,
            **self._numbers(rule),
            **({"step": iteration + 1} if rule.counts else {}),
            **dict(zip(rule.histories_out, history, strict=True)),
        )
        return new, tuple(kept)

    def update_layers(
        self, ops: Backend, iteration: int, layers: Iterable[OneLayer], given: Array | None = None
    ) -> None:
        """Update the parameters of many layers, each as `update` does it. A backend that can does
        it in one operation, and reads `step_numbers` from `given`, if that is given. Muon takes all
        matrices of one shape at once."""
        parameters = [each for of in layers for each in zip(*of, strict=True)]
        kind = self.type
        if RULES[kind].vectors:
            self._update_matrices(ops, iteration, [one for one in parameters if is_matrix(one[0])])
            parameters = [one for one in parameters if not is_matrix(one[0])]
            kind = RULES[kind].vectors
        if not ops.updates_together or RULES[kind].whole:
            for param, w, g, history, out in parameters:
                self.update(ops, iteration, param, w, g, history, out)
            return
        ops.update_together(
            kind,
            [
                Parameter(w, g, history, out, param.lr_mult, param.decay_mult, param.keep)
                for param, w, g, history, out in parameters
            ],
            decay=self.number("weight_decay"),
            regularization=self.proto.regularization_type,
            given=given,
            **self._of_step(kind, iteration),
        )

    def _of_step(self, kind: str, iteration: int) -> dict[str, Any]:
        numbers = self._numbers(RULES[kind])
        return {"rate": self.rate(iteration), "numbers": numbers, "step": iteration + 1}

    def _update_matrices(
        self, ops: Backend, iteration: int, matrices: Sequence[OneParameter]
    ) -> None:
        """Update matrices, those of one shape together."""
        by_shape: dict[tuple[int, ...], list[Parameter]] = {}
        for param, w, g, history, out in matrices:
            one = Parameter(w, g, history, out, param.lr_mult, param.decay_mult)
            by_shape.setdefault(tuple(w.shape), []).append(one)
        for of in by_shape.values():
            ops.muon_together(
                of,
                rate=self.rate(iteration),
                decay=self.number("weight_decay"),
                momentum=self.number("momentum"),
            )

    def _numbers(self, rule: Rule) -> dict[str, float]:
        return {name: self.number(name) for name in rule.numbers}

    def number(self, name: str) -> float:
        """Return a number of the update rule: that of cluster.toml, or else the file's."""
        exact = self.optimizer.numbers
        if name in exact:
            return exact[name]
        if name in USUAL and not RULES[self.type].of_caffe and name not in self._given:
            return USUAL[name]
        return float(getattr(self.proto, name))

    @cached_property
    def _given(self) -> set[str]:
        """The fields that the file, or cluster.toml in its place, gives."""
        return {field.name for field, _ in self.proto.ListFields()}

    def clip_factor(self, ops: Backend, gradients: Iterable[Array]) -> float:
        """Return the factor for all gradients that limits their common norm to `clip_gradients`.
        `gradients` must have the gradients of all learned parameters."""
        if self.number("clip_gradients") < 0:
            return 1.0
        return self.clip_factor_of(ops.l2_norm_squared(g) for g in gradients)

    def clip_factor_of(self, squares: Iterable[float]) -> float:
        """Return the same factor from the sum of squares of each gradient.

        The sums are added exactly, so their order does not matter. Caffe compares the sum over
        iter_size batches, but these gradients are means.
        """
        most = self.number("clip_gradients")
        try:
            norm = math.sqrt(math.fsum(squares)) * self.proto.iter_size
        except OverflowError:  # finite squares whose sum is not
            norm = math.inf
        return most / norm if norm > most else 1.0
