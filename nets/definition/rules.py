"""How a parameter changes: Caffe's solvers as one table, each a function of the gradient and its
history.

The table says which operation of `ops` a solver type is and which of the solver's numbers it takes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from nets.schema import caffe_pb2 as caffe
from ops import Array, Backend

History = tuple[Array, ...]
Shared = dict[str, Any]  # rate, decay and regularization, as every update takes them
Apply = Callable[
    [Backend, caffe.SolverParameter, int, Array, Array, History, Shared], tuple[Array, ...]
]


@dataclass(frozen=True)
class Rule:
    """One solver type. `histories`: how many arrays of the parameter's shape it keeps. `apply`
    gives (w', *history') and may write over the old histories. `numbers`: the solver's own that it
    takes."""

    histories: int
    apply: Apply
    numbers: tuple[str, ...]


def _sgd(
    ops: Backend,
    p: caffe.SolverParameter,
    step: int,
    w: Array,
    g: Array,
    old: History,
    shared: Shared,
) -> tuple[Array, ...]:
    return ops.sgd_update(w, g, old[0], momentum=p.momentum, out_h=old[0], **shared)


def _nesterov(
    ops: Backend,
    p: caffe.SolverParameter,
    step: int,
    w: Array,
    g: Array,
    old: History,
    shared: Shared,
) -> tuple[Array, ...]:
    return ops.nesterov_update(w, g, old[0], momentum=p.momentum, out_h=old[0], **shared)


def _adagrad(
    ops: Backend,
    p: caffe.SolverParameter,
    step: int,
    w: Array,
    g: Array,
    old: History,
    shared: Shared,
) -> tuple[Array, ...]:
    return ops.adagrad_update(w, g, old[0], delta=p.delta, out_h=old[0], **shared)


def _rmsprop(
    ops: Backend,
    p: caffe.SolverParameter,
    step: int,
    w: Array,
    g: Array,
    old: History,
    shared: Shared,
) -> tuple[Array, ...]:
    return ops.rmsprop_update(
        w, g, old[0], rms_decay=p.rms_decay, delta=p.delta, out_h=old[0], **shared
    )


def _adadelta(
    ops: Backend,
    p: caffe.SolverParameter,
    step: int,
    w: Array,
    g: Array,
    old: History,
    shared: Shared,
) -> tuple[Array, ...]:
    return ops.adadelta_update(
        w,
        g,
        old[0],
        old[1],
        momentum=p.momentum,
        delta=p.delta,
        out_h=old[0],
        out_u=old[1],
        **shared,
    )


def _adam(
    ops: Backend,
    p: caffe.SolverParameter,
    step: int,
    w: Array,
    g: Array,
    old: History,
    shared: Shared,
) -> tuple[Array, ...]:
    return ops.adam_update(
        w, g, old[0], old[1], step=step, momentum=p.momentum, momentum2=p.momentum2, delta=p.delta,
        out_m=old[0], out_s=old[1], **shared,
    )  # fmt: skip


RULES: dict[str, Rule] = {
    "SGD": Rule(1, _sgd, ("momentum",)),
    "Nesterov": Rule(1, _nesterov, ("momentum",)),
    "AdaGrad": Rule(1, _adagrad, ("delta",)),
    "RMSProp": Rule(1, _rmsprop, ("rms_decay", "delta")),
    "AdaDelta": Rule(2, _adadelta, ("momentum", "delta")),
    "Adam": Rule(2, _adam, ("momentum", "momentum2", "delta")),
}
