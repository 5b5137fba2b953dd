"""The table of solver types, Caffe's and later ones.

For each type, the table has the operation of `ops`, the solver's numbers that the operation takes,
and the arrays for its histories.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from ops import Array, Backend


@dataclass(frozen=True)
class Rule:
    """One solver type. `operation` returns (w', *history'). `numbers`: the solver's numbers that it
    takes. `histories_out`: the keywords for the new arrays of the histories, which may be the old
    arrays. `of_caffe`: Caffe has this type. `decoupled`: weight decay is no part of the gradient.
    `whole`: the update of a number depends on the whole parameter. `vectors`: the type by which
    parameters with one axis are updated instead, if any."""

    operation: Callable[[Backend], Callable[..., tuple[Array, ...]]]
    numbers: tuple[str, ...]
    histories_out: tuple[str, ...] = ("out_h",)
    counts: bool = False  # the operation takes the number of the step, from 1
    of_caffe: bool = True
    decoupled: bool = False
    whole: bool = False
    vectors: str = ""

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
    "SGDW": Rule(lambda ops: ops.sgdw_update, ("momentum",), of_caffe=False, decoupled=True),
    "NesterovW": Rule(
        lambda ops: partial(ops.sgdw_update, nesterov=True),
        ("momentum",),
        of_caffe=False,
        decoupled=True,
    ),
    "AdamW": Rule(
        lambda ops: ops.adamw_update,
        ("momentum", "momentum2", "delta"),
        ("out_m", "out_s"),
        counts=True,
        of_caffe=False,
        decoupled=True,
    ),
    "LARS": Rule(
        lambda ops: ops.lars_update, ("momentum", "delta", "trust"), of_caffe=False, whole=True
    ),
    "Muon": Rule(
        lambda ops: ops.muon_update,
        ("momentum",),
        of_caffe=False,
        decoupled=True,
        whole=True,
        vectors="AdamW",
    ),
}
# numbers of types that Caffe lacks, where neither the file nor cluster.toml gives them
USUAL = {"momentum2": 0.999, "delta": 1e-8, "trust": 0.001}


def numbers_of(kind: str) -> tuple[str, ...]:
    """The numbers that a solver type takes, also for parameters with one axis."""
    rule = RULES[kind]
    return (*rule.numbers, *(RULES[rule.vectors].numbers if rule.vectors else ()))
