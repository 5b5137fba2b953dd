"""The update rules of parameters: a table of Caffe's solver types, and the update of layers by
them.

For each solver type, the table has the operation of `ops`, the solver's numbers that the operation
takes, and the arrays for its histories.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nets.definition.params import ParamSpec
from nets.schema import caffe_pb2 as caffe
from ops import Array, Backend, Parameter

History = tuple[Array, ...]
# The parameters of a layer, as `update` takes each of them: specs, w, g, history, out.
OneLayer = tuple[
    Sequence[ParamSpec], Sequence[Array], Sequence[Array], Sequence[History], Sequence[Array]
]


@dataclass(frozen=True)
class Rule:
    """One solver type. `operation` returns (w', *history'). `numbers`: the solver's numbers that it
    takes. `histories_out`: the keywords for the new arrays of the histories, which may be the old
    arrays."""

    operation: Callable[[Backend], Callable[..., tuple[Array, ...]]]
    numbers: tuple[str, ...]
    histories_out: tuple[str, ...] = ("out_h",)
    counts: bool = False  # the operation takes the number of the step, from 1

    @property
    def histories(self) -> int:
        """The number of arrays of the parameter's shape that the solver keeps."""
        return len(self.histories_out)


RULES: dict[str, Rule] = {
    "SGD": Rule(lambda ops: ops.sgd_update, ("momentum",)),
    "Nesterov": Rule(lambda ops: ops.nesterov_update, ("momentum",)),
    "AdaGrad": Rule(lambda ops: ops.adagrad_update, ("delta",)),
    "RMSProp": Rule(lambda ops: ops.rmsprop_update, ("rms_decay", "delta")),
    "AdaDelta": Rule(lambda ops: ops.adadelta_update, ("momentum", "delta"), ("out_h", "out_u")),
    "Adam": Rule(
        lambda ops: ops.adam_update,
        ("momentum", "momentum2", "delta"),
        ("out_m", "out_s"),
        counts=True,
    ),
}


class Updates(ABC):
    """The updates of a solver. Subclasses give its type and its learning rate."""

    proto: caffe.SolverParameter

    @property
    @abstractmethod
    def type(self) -> str:
        """The solver's type, a key of RULES."""

    @abstractmethod
    def rate(self, iteration: int) -> float:
        """Return the learning rate of `iteration` (from 0)."""

    def new_history(self, ops: Backend, param: ParamSpec, dtype: Any = np.float32) -> History:
        """Return the arrays that this solver keeps for a parameter, zero at first. It keeps none
        for a running statistic."""
        return tuple(ops.zeros(param.shape, dtype) for _ in range(self.histories(param)))

    def histories(self, param: ParamSpec) -> int:
        """Return the number of arrays that `new_history` makes."""
        return RULES[self.type].histories if param.keep is None else 0

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
        rule = RULES[self.type]
        new, *kept = rule.operation(ops)(
            w,
            g,
            *history,
            rate=self.rate(iteration) * param.lr_mult,
            decay=self.proto.weight_decay * param.decay_mult,
            regularization=self.proto.regularization_type,
            out_w=out,
            **self._numbers(rule),
            **({"step": iteration + 1} if rule.counts else {}),
            **dict(zip(rule.histories_out, history, strict=True)),
        )
        return new, tuple(kept)

    def update_layers(self, ops: Backend, iteration: int, layers: Iterable[OneLayer]) -> None:
        """Update the parameters of many layers, each as `update` does it. A backend that can does
        it in one operation."""
        parameters = [each for of in layers for each in zip(*of, strict=True)]
        if not ops.updates_together:
            for param, w, g, history, out in parameters:
                self.update(ops, iteration, param, w, g, history, out)
            return
        ops.update_together(
            self.type,
            [
                Parameter(w, g, history, out, param.lr_mult, param.decay_mult, param.keep)
                for param, w, g, history, out in parameters
            ],
            rate=self.rate(iteration),
            decay=self.proto.weight_decay,
            regularization=self.proto.regularization_type,
            numbers=self._numbers(RULES[self.type]),
            step=iteration + 1,
        )

    def _numbers(self, rule: Rule) -> dict[str, float]:
        return {name: getattr(self.proto, name) for name in rule.numbers}

    def clip_factor(self, ops: Backend, gradients: Iterable[Array]) -> float:
        """Return the factor for all gradients that limits their common norm to `clip_gradients`.

        `gradients` must have the gradients of all learned parameters. Caffe compares the sum over
        iter_size batches, but these gradients are means.
        """
        if self.proto.clip_gradients < 0:
            return 1.0
        norm = math.sqrt(sum(ops.l2_norm_squared(g) for g in gradients)) * self.proto.iter_size
        return self.proto.clip_gradients / norm if norm > self.proto.clip_gradients else 1.0
