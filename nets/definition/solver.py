"""How a net is trained: the solver prototxt, checked, the learning rate at each iteration, the update of a parameter.

Caffe's rate policies and clipping are here, the solver types in `rules`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from nets.definition.params import ParamSpec
from nets.definition.prototxt import Where, parse
from nets.definition.rules import RULES, History
from nets.definition.spec import NetSpec, load_net, locate, net_from_proto, read_text
from nets.errors import PrototxtError, did_you_mean
from nets.regular import is_file
from nets.schema import caffe_pb2 as caffe
from ops import Array, Backend


@dataclass(frozen=True)
class SolverSpec:
    """A checked solver; iterations count from 0, rates and decay are Caffe's `base_lr` and `weight_decay`."""

    proto: caffe.SolverParameter
    path: Path
    where: Where = field(repr=False)

    @property
    def net(self) -> str | None:
        """The net's path as written (`net` or `train_net`), or None when the solver names none."""
        return self.proto.net or self.proto.train_net or None

    max_iter = property(lambda self: int(self.proto.max_iter))
    test_iter = property(lambda self: int(self.proto.test_iter[0]) if self.proto.test_iter else 0)
    test_interval = property(lambda self: int(self.proto.test_interval))
    display = property(lambda self: int(self.proto.display))
    snapshot = property(lambda self: int(self.proto.snapshot))
    base_lr = property(lambda self: float(self.proto.base_lr))
    momentum = property(lambda self: float(self.proto.momentum))
    weight_decay = property(lambda self: float(self.proto.weight_decay))
    iter_size = property(lambda self: int(self.proto.iter_size))
    clips = property(lambda self: self.proto.clip_gradients >= 0)

    @property
    def type(self) -> str:
        """The solver's type, a key of `rules.RULES`, whichever way it is written."""
        return _type(self.proto)

    def state(self, phase: str) -> tuple[int, tuple[str, ...]]:
        """Return (level, stages) that train_state or test_state asks of the net in `phase`."""
        states = [self.proto.train_state] if phase == "TRAIN" else list(self.proto.test_state)[:1]
        return next(((int(state.level), tuple(state.stage)) for state in states), (0, ()))

    @property
    def random_seed(self) -> int | None:
        """The seed, or None where Caffe would take one from the clock (-1 or absent)."""
        return int(self.proto.random_seed) if self.proto.random_seed >= 0 else None

    def rate(self, iteration: int) -> float:
        """Return the learning rate of `iteration` (from 0), as Caffe's SGDSolver::GetLearningRate."""
        return _POLICIES[self.proto.lr_policy](self.proto, iteration)

    def new_history(self, ops: Backend, param: ParamSpec, dtype: Any = np.float32) -> History:
        """Return the arrays this solver keeps beside a parameter, zero at first; none beside a running statistic."""
        return tuple(ops.zeros(param.shape, dtype) for _ in range(self.histories(param)))

    def histories(self, param: ParamSpec) -> int:
        """How many arrays `new_history` makes."""
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
        """Return (w', history') after the update of `iteration` (from 0). g stays; w' is `out`, which may be w, or new;
        history is written over.

        g is the gradient of the whole batch's mean loss, as Caffe's after its division by iter_size. A running
        statistic becomes keep * w + g, whatever the solver (`ParamSpec.keep`).
        """
        if param.keep is not None:
            new = ops.xp.multiply(w, param.keep, out=out)
            return ops.add(new, g, out=new), ()
        shared = {
            "rate": self.rate(iteration) * param.lr_mult,
            "decay": self.weight_decay * param.decay_mult,
            "regularization": self.proto.regularization_type,
            "out_w": out,
        }
        new, *kept = RULES[self.type].apply(ops, self.proto, iteration + 1, w, g, history, shared)
        return new, tuple(kept)

    def clip_factor(self, ops: Backend, gradients: Iterable[Array]) -> float:
        """Return what all gradients are multiplied by so that their common norm is at most `clip_gradients`.

        Give every learned parameter's gradient at once. Caffe compares the sum over iter_size batches; these are means.
        """
        if not self.clips:
            return 1.0
        norm = math.sqrt(sum(ops.l2_norm_squared(g) for g in gradients)) * self.iter_size
        return self.proto.clip_gradients / norm if norm > self.proto.clip_gradients else 1.0

    def override(self, values: Mapping[str, float]) -> SolverSpec:
        """The same solver with other values (max_iter, base_lr, momentum); PrototxtError if they make no sense."""
        proto = caffe.SolverParameter()
        proto.CopyFrom(self.proto)
        for key, value in values.items():
            setattr(proto, key, value)
        return _checked(SolverSpec(proto, self.path, self.where))

    def load_net(self) -> NetSpec:
        """Read the net the solver names: inline, or a path from here, from the solver's directory, or beside it."""
        for key in ("net_param", "train_net_param"):
            if self.proto.HasField(key):
                return net_from_proto(getattr(self.proto, key), self.where.node.find(key), self.path)
        if self.net is None:
            raise self.where.error("net", "missing, expected the path of a net prototxt")
        named = Path(self.net)
        for candidate in (named, self.path.parent / named, self.path.parent / named.name):
            if is_file(candidate):
                return load_net(candidate)
        key = "net" if self.proto.net else "train_net"
        raise self.where.error(key, f"found '{self.net}', but there is no such file here or beside the solver")


def load_solver(source: str | Path) -> SolverSpec:
    """Read a solver from a path or a zoo name ("lenet" or "lenet_solver"); PrototxtError lists every mistake."""
    path = locate(source, suffixes=("_solver", ""))
    proto, root = parse(read_text(path), caffe.SolverParameter(), path.name)
    return _checked(SolverSpec(proto, path, Where(path.name, root)))


def _checked(solver: SolverSpec) -> SolverSpec:
    problems = [solver.where.problem(key, text) for key, text in _mistakes(solver.proto)]
    if problems:
        raise PrototxtError(problems)
    return solver


def _mistakes(proto: caffe.SolverParameter) -> list[tuple[str, str]]:
    """Return (key, text) of everything wrong or not supported."""
    found = [*_kind_mistakes(proto), *_policy_mistakes(proto)]
    if not proto.HasField("max_iter") or proto.max_iter < 0:
        found.append(("max_iter", f"{_given(proto, 'max_iter')}, expected an integer >= 0"))
    if not 0.0 <= proto.momentum < 1.0:
        found.append(("momentum", f"found {proto.momentum:g}, expected 0 <= momentum < 1"))
    found += [
        (key, f"found {getattr(proto, key):g}, expected a number >= 0")
        for key in ("weight_decay", "test_interval", "display", "snapshot")
        if not getattr(proto, key) >= 0
    ]
    if any(count < 0 for count in proto.test_iter):
        found.append(("test_iter", f"found {min(proto.test_iter)}, expected an integer >= 0"))
    if len(proto.test_iter) > 1:
        found.append(("test_iter", f"found {len(proto.test_iter)} test nets, only one is supported"))
    return found


def _kind_mistakes(proto: caffe.SolverParameter) -> list[tuple[str, str]]:
    kind, found = _type(proto), []
    if kind not in RULES:
        found.append(("type", f"found '{kind}', expected one of {', '.join(RULES)}{did_you_mean(kind, RULES)}"))
    if kind in ("AdaGrad", "RMSProp") and proto.momentum:
        found.append(("momentum", f"found {proto.momentum:g}, but {kind} has none, expected 0"))
    if kind == "RMSProp" and not 0 <= proto.rms_decay < 1:
        found.append(("rms_decay", f"found {proto.rms_decay:g}, expected 0 <= rms_decay < 1"))
    if kind == "Adam" and not 0 <= proto.momentum2 < 1:
        found.append(("momentum2", f"found {proto.momentum2:g}, expected 0 <= momentum2 < 1"))
    if proto.iter_size < 1:
        found.append(("iter_size", f"found {proto.iter_size}, expected an integer >= 1"))
    if proto.regularization_type not in ("L1", "L2"):
        found.append(("regularization_type", f"found '{proto.regularization_type}', expected 'L1' or 'L2'"))
    return found


def _type(proto: caffe.SolverParameter) -> str:
    if not proto.HasField("solver_type"):
        return str(proto.type)
    old_name = caffe.SolverParameter.SolverType.Name(proto.solver_type)
    return {name.upper(): name for name in RULES}[old_name]


def _policy_mistakes(proto: caffe.SolverParameter) -> list[tuple[str, str]]:
    found = []
    if not proto.HasField("base_lr") or not 0 <= proto.base_lr < math.inf:
        found.append(("base_lr", f"{_given(proto, 'base_lr')}, expected a number >= 0"))
    if proto.lr_policy not in _POLICIES:
        near = did_you_mean(proto.lr_policy, _POLICIES)
        found.append(("lr_policy", f"{_given(proto, 'lr_policy')}, expected one of {', '.join(_POLICIES)}{near}"))
        return found
    needed = (key for key in _NEEDS.get(proto.lr_policy, ()) if not proto.HasField(key))
    found += [(key, f"missing, lr_policy '{proto.lr_policy}' needs it") for key in needed]
    if proto.lr_policy == "step" and proto.HasField("stepsize") and proto.stepsize <= 0:
        found.append(("stepsize", f"found {proto.stepsize}, expected an integer >= 1"))
    if list(proto.stepvalue) != sorted(proto.stepvalue):
        found.append(("stepvalue", f"found {list(proto.stepvalue)}, expected rising iterations"))
    return found


def _given(proto: caffe.SolverParameter, key: str) -> str:
    value = getattr(proto, key)
    shown = f"'{value}'" if isinstance(value, str) else f"{value:g}"
    return f"found {shown}" if proto.HasField(key) else "missing"


def _sigmoid(p: caffe.SolverParameter, i: int) -> float:
    exponent = -p.gamma * (i - p.stepsize)
    return p.base_lr / (1.0 + math.exp(exponent)) if exponent < 700 else 0.0  # exp overflows a double at 710


_POLICIES: dict[str, Callable[[caffe.SolverParameter, int], float]] = {
    "fixed": lambda p, i: p.base_lr,
    "step": lambda p, i: p.base_lr * p.gamma ** (i // p.stepsize),
    "exp": lambda p, i: p.base_lr * p.gamma**i,
    "inv": lambda p, i: p.base_lr * (1.0 + p.gamma * i) ** -p.power,
    "multistep": lambda p, i: p.base_lr * p.gamma ** sum(i >= at for at in p.stepvalue),
    "poly": lambda p, i: p.base_lr * max(0.0, 1.0 - i / p.max_iter) ** p.power if p.max_iter else p.base_lr,
    "sigmoid": _sigmoid,
}

_NEEDS = {
    "step": ("gamma", "stepsize"),
    "exp": ("gamma",),
    "inv": ("gamma", "power"),
    "multistep": ("gamma",),
    "poly": ("power",),
    "sigmoid": ("gamma", "stepsize"),
}
