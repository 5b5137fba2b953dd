"""The momentum that asynchrony adds: its expected value, its measurement from staleness and from
gradients, and the explicit momentum that fits it.

With g groups that do not wait for one another, updates are in expectation those of one process with
momentum 1 - 1/g (Omnivore, Theorem 1). `remaining` has the rule for the explicit momentum that is
right then, and `total` is the same rule read backwards. Nothing else in Convoy knows the rule.

The measurement works as follows. A[v] is the gradient that was applied to version v of a layer.
R[v] is a gradient that was computed on version v. If service times are exponential, the next update
comes from any group with equal probability, and so

    E[ A[v] - mu A[v-1] - (1 - mu) R[v] | all that happened before v - 1 ] = 0,   mu = 1 - 1/g

holds for any net and any noise of the batches. It also holds if it is multiplied by anything that
was known before v - 1. The factor used here is Z[v] = A[v-2] + ... + A[v-1-K], the way that the
parameters have come (an instrument; Wright 1928). So

    mu = sum Z[v].(A[v] - R[v]) / sum Z[v].(A[v-1] - R[v])

without the bias that the noise of A[v-1] brings into a regression of one update on the one before.
The solver does not enter: its own momentum, decay and rate act on A only afterwards. YellowFin
(Zhang and Mitliagkas 2017, section 4) instead takes the median over coordinates of (x[t+1] - x[t] +
lr R[t]) / (x[t] - x[t-1]), with the whole rate. With asynchronous groups the rate of Theorem 1 is
lr / g, and that median is near 0 where the slope is even.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from roles.tuning.ratio import Measured, Ratio

Sample = np.ndarray[Any, np.dtype[np.float32]]
LEAST_REACH = 4
LONGEST = 64  # updates of a layer that are remembered; gradients older than that are left out
ROUNDING = 1e-6  # a prototxt's 0.9 is 0.89999998
ROUNDED = 1e-5  # the same for 1 / (1 - momentum)
HIGH = 0.95  # total momentum from which runs ended in NaN, see docs/tuning.md
MOST = 0.99  # the largest explicit momentum that is ever proposed
# the solvers whose momentum adds up with that of asynchrony
KINDS = ("SGD", "Nesterov", "SGDW", "NesterovW")


def remaining(momentum: float, staleness: float) -> float:
    """The part of `momentum` that asynchrony leaves to the solver, where `momentum` suits gradients
    that are not late. Negative if gradients that are `staleness` updates late give more than that.

    The rule: 1 - momentum grows in proportion to the number of groups, which is staleness + 1. A
    change of the rule changes this function and its inverse, `total`.
    """
    return 1.0 - (staleness + 1.0) * (1.0 - momentum)


def total(explicit: float, implicit: float) -> float:
    """Explicit and implicit momentum together, the inverse of `remaining`: the momentum that would
    do as much if gradients were not late. Below 1 if both are."""
    return 1.0 - (1.0 - explicit) * (1.0 - implicit)


def compensated(momentum: float, staleness: float) -> float:
    """The explicit momentum for gradients that are `staleness` updates late on average (g - 1 with
    g groups), where `momentum` suits gradients that are not late. Never negative.

    The total stays as it is. At the solver's rate a gradient then moves the model less far in the
    long run: rate / (1 - momentum), its gain, falls to 1 / (staleness + 1).
    """
    return max(0.0, remaining(momentum, staleness)) if staleness else momentum


def can_compensate(momentum: float, staleness: float) -> bool:
    """True if asynchrony alone does not give more than `momentum`."""
    return remaining(momentum, staleness) >= -ROUNDING


def expected(groups: int) -> float:
    """The implicit momentum of `groups` groups, by Theorem 1."""
    return 1.0 - 1.0 / groups


def staleness_of(implicit: float) -> float:
    """The staleness that gives this implicit momentum below 1, by Theorem 1: g - 1 for 1 - 1/g."""
    return implicit / (1.0 - implicit)


def subtracted(momentum: float, staleness: float) -> float:
    """The explicit momentum that is left if the implicit momentum of Theorem 1 is subtracted, at
    least 0. It is below `compensated`, so a gradient's gain is smaller still at the same rate."""
    return max(0.0, momentum - staleness / (staleness + 1.0))


def at_whole_gain(momentum: float, staleness: float) -> float | None:
    """The explicit momentum for late gradients whose gain stays as it is with `momentum` and
    gradients that are not late. None if no momentum has as short a delay.

    Momentum m spreads the effect of a gradient over later updates: its mean delay is 1 / (1 - m) -
    1. Staleness delays the effect by as many updates as the gradient is late. The sum stays: 1 / (1
    - m) + s is what 1 / (1 - momentum) was. With `compensated` and the same gain the effect comes
    earlier and is larger at once, and LeNet with eight groups diverges with half of the seeds.
    """
    left = 1.0 / (1.0 - momentum) - staleness
    return max(0.0, 1.0 - 1.0 / left) if left >= 1.0 - ROUNDED else None


def from_staleness(counts: Mapping[int, int]) -> float:
    """The momentum that best fits a distribution of staleness, given as counts of updates.

    `ImplicitMomentum` would find this value on a bowl that is hardly curved, with a far reach. With
    P the probability and S the mean of the staleness s, the value is 1 - P(s > 0) / S. If s is
    geometric, as with exponential service times, this is 1 - 1/g. If s is always g - 1, it is 1 -
    1/(g - 1). Raises ValueError if no update was counted.
    """
    return expected_of(counts, reach=max(counts, default=0) + 1)


def expected_of(counts: Mapping[int, int], reach: int) -> float:
    """The momentum that `ImplicitMomentum` finds with this distribution of staleness, to first
    order in the rate. A gradient of staleness s sees a step made j updates ago if s <= j."""
    everything = sum(counts.values())
    if not everything:
        raise ValueError("no staleness was counted, expected one update at least")
    tail = [
        sum(count for stale, count in counts.items() if stale > j) / everything
        for j in range(reach + 1)
    ]
    below = math.fsum(tail[:reach])
    return math.fsum(tail[1:]) / below if below else 0.0


class ImplicitMomentum:
    """The implicit momentum of one layer, or of several layers whose pairs go into one `ratio`.

    Call `note` for every update in turn. If updates are left out, call `forget` before the next
    one.
    """

    def __init__(self, ratio: Ratio | None = None) -> None:
        self.ratio = Ratio() if ratio is None else ratio
        self._applied: dict[int, Sample] = {}  # version -> the gradient applied to it
        self._sums: dict[int, Any] = {}  # version -> the sum of all gradients applied before it

    def __repr__(self) -> str:
        return f"<implicit momentum {self.ratio}>"

    def forget(self) -> None:
        """Forget the updates so far. The ratio keeps its pairs."""
        self._applied.clear()
        self._sums.clear()

    def note(self, version: int, read: int, gradient: Sample, reach: int) -> None:
        """Note that `gradient`, computed on version `read`, was applied to `version`. `reach` is K,
        about twice the number of groups."""
        if version - 1 not in self._applied:
            self.forget()
            self._sums[version] = np.zeros(gradient.shape)
        self._applied[version] = gradient
        self._sums[version + 1] = self._sums[version] + gradient
        applied = self._applied.get(read)
        before = self._applied.get(read - 1)
        old = self._sums.get(read - 1 - reach)
        if applied is not None and before is not None and old is not None:
            moved = self._sums[read - 1] - old
            self.ratio.add(float(moved @ (applied - gradient)), float(moved @ (before - gradient)))
        self._applied.pop(version - LONGEST, None)
        self._sums.pop(version - LONGEST, None)

    def measured(self) -> Measured | None:
        """The implicit momentum; None while too little is known."""
        return self.ratio.measured()


def reach_of(groups: int) -> int:
    """K for this number of groups: as far as the kernel 1, mu, mu**2, ... contributes, and within
    the updates that are remembered."""
    return max(LEAST_REACH, min(2 * groups, LONGEST // 4))


class ClosedLoop:
    """A control loop that keeps the total momentum at its wanted value by changing the explicit one
    (YellowFin, section 4).

    YellowFin adds 0.01 times the difference at every update. Measurements here are rarer and more
    exact, so a step is larger. It goes a part of the way, in log(1 - momentum), to the explicit
    momentum that `remaining` gives. `momentum_following` takes the steps.
    """

    def __init__(self, explicit: float, gain: float = 0.5) -> None:
        self.explicit = explicit
        self._gain = gain

    def __repr__(self) -> str:
        return f"<closed loop, explicit momentum {self.explicit:.3f}>"

    def next(self, implicit: float, wanted: float) -> float:
        """The next explicit momentum, from 0 to MOST, after a measurement of the implicit one. It
        stays as it is if `wanted` is not in [0, 1), or if no momentum can be `implicit`."""
        if abs(implicit) < 1.0 and 0.0 <= wanted < 1.0:
            aim = min(MOST, remaining(wanted, staleness_of(implicit)))
            here = math.log1p(-self.explicit)
            rest = here + self._gain * (math.log1p(-aim) - here)
            self.explicit = min(MOST, max(0.0, -math.expm1(rest)))
        return self.explicit
