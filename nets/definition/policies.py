"""Learning rates over time: Caffe's rate policies, the keys that each of them uses, and the values
that each refuses."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from nets.errors import did_you_mean
from nets.schema import caffe_pb2 as caffe

Mistake = tuple[str, str]  # key, description of its fault


@dataclass(frozen=True)
class Policy:
    """A rate policy: `rate(solver, iteration)`, with iterations from 0, and the `keys` that it
    uses. `without(solver, key)` describes the rate when a key is missing."""

    rate: Callable[[caffe.SolverParameter, int], float]
    keys: tuple[str, ...] = ()
    without: Callable[[caffe.SolverParameter, str], str] = lambda p, key: "never changes"


def _step(p: caffe.SolverParameter, i: int) -> float:
    return p.base_lr * p.gamma ** (i // p.stepsize)


def _multistep(p: caffe.SolverParameter, i: int) -> float:
    return p.base_lr * p.gamma ** sum(i >= at for at in p.stepvalue)


def _poly(p: caffe.SolverParameter, i: int) -> float:
    return p.base_lr * max(0.0, 1.0 - i / p.max_iter) ** p.power if p.max_iter else p.base_lr


def _sigmoid(p: caffe.SolverParameter, i: int) -> float:
    exponent = -p.gamma * (i - p.stepsize)
    # exp overflows a double at 710
    return p.base_lr / (1.0 + math.exp(exponent)) if exponent < 700 else 0.0


def _zero(p: caffe.SolverParameter, key: str) -> str:
    first = {"step": p.stepsize, "multistep": min(p.stepvalue, default=0), "exp": 1}[p.lr_policy]
    return f"is 0 from iteration {first} on" if key == "gamma" and first else "never changes"


POLICIES = {
    "fixed": Policy(lambda p, i: p.base_lr),
    "step": Policy(_step, ("gamma", "stepsize"), _zero),
    "exp": Policy(lambda p, i: p.base_lr * p.gamma**i, ("gamma",), _zero),
    "inv": Policy(lambda p, i: p.base_lr * (1.0 + p.gamma * i) ** -p.power, ("gamma", "power")),
    "multistep": Policy(_multistep, ("gamma", "stepvalue"), _zero),
    "poly": Policy(_poly, ("power",)),
    "sigmoid": Policy(
        _sigmoid, ("gamma", "stepsize"), lambda p, key: "is half of base_lr and never changes"
    ),
}
KEYS = tuple(dict.fromkeys(key for policy in POLICIES.values() for key in policy.keys))


def mistakes(p: caffe.SolverParameter) -> Iterator[Mistake]:
    """Yield the mistakes that Caffe's own checks refuse, and rates that make no sense in any
    run."""
    if not p.HasField("base_lr") or not 0 <= p.base_lr < math.inf:
        yield "base_lr", f"{given(p, 'base_lr')}, expected a finite number >= 0"
    if p.lr_policy not in POLICIES:
        near = did_you_mean(p.lr_policy, POLICIES)
        yield "lr_policy", f"{given(p, 'lr_policy')}, expected one of {', '.join(POLICIES)}{near}"
        return
    taken = POLICIES[p.lr_policy].keys
    if "gamma" in taken and not 0 <= p.gamma < math.inf:
        yield "gamma", f"found {p.gamma:g}, expected a finite number >= 0"
    if "power" in taken and not math.isfinite(p.power):
        yield "power", f"found {p.power:g}, expected a finite number"
    if "stepsize" in taken and p.stepsize < 1:
        yield (
            "stepsize",
            (f"{given(p, 'stepsize')}, expected an integer >= 1 for lr_policy '{p.lr_policy}'"),
        )
    if list(p.stepvalue) != sorted(p.stepvalue):
        yield "stepvalue", f"found {list(p.stepvalue)}, expected rising iterations"


def unwanted(p: caffe.SolverParameter) -> Iterator[Mistake]:
    """Yield the keys that the policy needs and the solver lacks, so that the rate is probably not
    intended, and the keys that the policy does not use."""
    policy = POLICIES[p.lr_policy]
    said = {field.name for field, _ in p.ListFields()}
    for key in KEYS:
        if key in policy.keys and key not in said:
            yield (
                "lr_policy",
                (
                    f"'{p.lr_policy}' without '{key}': the rate "
                    f"{policy.without(p, key)}, as in Caffe"
                ),
            )
        elif key in said and key not in policy.keys:
            yield key, f"not used: lr_policy '{p.lr_policy}' does not take it"


def given(p: caffe.SolverParameter, key: str) -> str:
    """Return the value of a key in words."""
    value = getattr(p, key)
    shown = f"'{value}'" if isinstance(value, str) else f"{value:g}"
    return f"found {shown}" if p.HasField(key) else "missing"
