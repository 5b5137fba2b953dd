"""Checks of a solver: its mistakes, and the keys that are read but not used, as (key, text)."""

from __future__ import annotations

import math
from collections.abc import Iterator

from nets.definition.ignored import refusals, unused, warnings
from nets.definition.policies import Mistake, given, mistakes, unwanted
from nets.definition.prototxt import Where
from nets.definition.solver_types import RULES, numbers_of
from nets.errors import did_you_mean
from nets.schema import caffe_pb2 as caffe

TRAIN_NETS = ("train_net_param", "train_net", "net_param", "net")  # keys of a training net
_ONLY = {  # key -> the solver types that take it
    key: tuple(kind for kind in RULES if key in numbers_of(kind))
    for key in ("delta", "rms_decay", "momentum2")
}


def solver_type(p: caffe.SolverParameter) -> str:
    """Return the solver's type, from `type` or from the old `solver_type`. It is a key of RULES, if
    it is valid."""
    if not p.HasField("solver_type"):
        return str(p.type)
    old_name = caffe.SolverParameter.SolverType.Name(p.solver_type)
    return {name.upper(): name for name in RULES}[old_name]


def problems(p: caffe.SolverParameter, where: Where) -> list[str]:
    """Return one line for each mistake."""
    found = [*_kind(p), *mistakes(p), *_numbers(p), *_nets(p)]
    return [*refusals(p, where), *(where.problem(key, text) for key, text in found)]


def told(p: caffe.SolverParameter, where: Where) -> tuple[str, ...]:
    """Return one line for each key that is not used, and for each rate that is probably not
    intended."""
    kind = solver_type(p)
    found = [
        (key, f"not used: solver type '{kind}' does not take it")
        for key, kinds in _ONLY.items()
        if p.HasField(key) and kind not in kinds
    ]
    return (
        *warnings(unused(p, where)),
        *(where.problem(key, text) for key, text in (*unwanted(p), *found)),
    )


def _kind(p: caffe.SolverParameter) -> Iterator[Mistake]:
    kind = solver_type(p)
    if p.HasField("type") and p.HasField("solver_type"):
        yield "solver_type", f"given together with type '{p.type}', expected only one of the two"
    if kind not in RULES:
        yield (
            "type",
            (f"found '{kind}', expected one of {', '.join(RULES)}{did_you_mean(kind, RULES)}"),
        )
    if kind in ("AdaGrad", "RMSProp") and p.momentum:
        yield "momentum", f"found {p.momentum:g}, but {kind} has no momentum, expected 0"
    if kind == "RMSProp" and not 0 <= p.rms_decay < 1:
        yield "rms_decay", f"found {p.rms_decay:g}, expected 0 <= rms_decay < 1"
    if kind in _ONLY["momentum2"] and not 0 <= p.momentum2 < 1:
        yield "momentum2", f"found {p.momentum2:g}, expected 0 <= momentum2 < 1"
    if kind in RULES and not RULES[kind].of_caffe and p.regularization_type == "L1":
        yield "regularization_type", f"found 'L1', but the weight decay of {kind} is L2"
    if p.regularization_type not in ("L1", "L2"):
        yield "regularization_type", f"found '{p.regularization_type}', expected 'L1' or 'L2'"


def _numbers(p: caffe.SolverParameter) -> Iterator[Mistake]:
    for key in ("iter_size", "average_loss"):
        if getattr(p, key) < 1:
            yield key, f"found {getattr(p, key)}, expected an integer >= 1"
    if not p.HasField("max_iter") or p.max_iter < 0:
        yield "max_iter", f"{given(p, 'max_iter')}, expected an integer >= 0"
    if not 0.0 <= p.momentum < 1.0:
        yield "momentum", f"found {p.momentum:g}, expected 0 <= momentum < 1"
    for key in ("weight_decay", "delta", "test_interval", "display", "snapshot"):
        if not 0 <= getattr(p, key) < math.inf:
            yield key, f"found {getattr(p, key):g}, expected a finite number >= 0"
    if math.isnan(p.clip_gradients):
        yield "clip_gradients", "found nan, expected a number"
    if any(count < 0 for count in p.test_iter):
        yield "test_iter", f"found {min(p.test_iter)}, expected an integer >= 0"


def _nets(p: caffe.SolverParameter) -> Iterator[Mistake]:
    """Yield violations of the rules in Caffe's Solver::InitTrainNet and InitTestNets."""
    several = [key for key in TRAIN_NETS if p.HasField(key)]
    if len(several) > 1:
        yield several[0], f"given together with '{several[1]}', expected only one training net"
    own = len(p.test_net_param) + len(p.test_net)
    iters = len(p.test_iter)
    states = len(p.test_state)
    generic = p.HasField("net") or p.HasField("net_param")
    if iters < own or (own and iters > own and not generic):
        yield "test_iter", f"found {iters}, expected {own}, one per test net"
    elif states not in (0, iters or 1):
        yield "test_state", f"found {states}, expected none or {iters or 1}, one per test net"
    for key, expected, found in (
        ("train_state", "TRAIN", [p.train_state]),
        ("test_state", "TEST", p.test_state),
    ):
        if any(s.HasField("phase") and s.phase != caffe.Phase.Value(expected) for s in found):
            yield f"{key}.phase", f"found another phase than {expected}: remove the key"
