"""The momentum that asynchrony brings along: what is expected, what staleness says, what gradients
say.

With g groups that do not wait for one another, updates are in expectation those of one process with
momentum 1 - 1/g (Omnivore, Theorem 1). Beside an explicit momentum m the total is 1 - (1 - m) / g:
one gradient moves the parameters as far in the long run, and as late, as with that momentum.

How it is measured. A[v] is the gradient that was applied to version v of a layer, R[v] one that was
computed on version v. If service times are exponential, whoever comes next is any group, and so

    E[ A[v] - mu A[v-1] - (1 - mu) R[v] | all that happened before v - 1 ] = 0,   mu = 1 - 1/g

holds for any net and any noise of the batches. It holds times anything that was known before v - 1,
and what is taken is Z[v] = A[v-2] + ... + A[v-1-K]: how far the parameters have come (an
instrument; Wright 1928). So

    mu = sum Z[v].(A[v] - R[v]) / sum Z[v].(A[v-1] - R[v])

without the bias that the noise of A[v-1] brings into a regression of one update on the one before.
The solver does not enter: its own momentum, decay and rate are what it makes of A. YellowFin (Zhang
and Mitliagkas 2017, section 4) takes the median over coordinates of (x[t+1] - x[t] + lr R[t]) /
(x[t] - x[t-1]) instead, with the whole rate; with asynchronous groups the rate of Theorem 1 is lr /
g, and that median is near 0 where the slope is even.
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
MOST = 0.99  # the largest explicit momentum that is ever proposed


def expected(groups: int) -> float:
    """The implicit momentum of so many groups, by Theorem 1."""
    return 1.0 - 1.0 / groups


def total(explicit: float, implicit: float) -> float:
    """Both at once: 1 - (1 - explicit)(1 - implicit)."""
    return 1.0 - (1.0 - explicit) * (1.0 - implicit)


def from_staleness(counts: Mapping[int, int]) -> float:
    """The momentum that best fits a distribution of staleness, counts by updates: what
    `ImplicitMomentum` would find on a bowl that is hardly curved, with a far reach. ValueError if
    nothing was counted.

    With P the probability and S the mean of the staleness s it is 1 - P(s > 0) / S: 1 - 1/g if s is
    geometric, as with exponential service times, 1 - 1/(g - 1) if it is always g - 1.
    """
    return expected_of(counts, reach=max(counts, default=0) + 1)


def expected_of(counts: Mapping[int, int], reach: int) -> float:
    """What `ImplicitMomentum` finds with this distribution of staleness, to first order in the
    rate: a step that was made j updates ago is felt by a gradient of staleness s if s <= j."""
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
    """Of one layer, or of several whose pairs go into one `ratio`.

    `note` every update in turn; where some are left out, `forget` what was before.
    """

    def __init__(self, ratio: Ratio | None = None) -> None:
        self.ratio = Ratio() if ratio is None else ratio
        self._applied: dict[int, Sample] = {}  # version -> what was applied to it
        self._sums: dict[int, Any] = {}  # version -> the sum of all that was applied before it

    def __repr__(self) -> str:
        return f"<implicit momentum {self.ratio}>"

    def forget(self) -> None:
        """Begin anew with the next update: the ratio stays."""
        self._applied.clear()
        self._sums.clear()

    def note(self, version: int, read: int, gradient: Sample, reach: int) -> None:
        """`gradient`, computed on version `read`, was applied to `version`. `reach` is K, about
        twice the groups."""
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
    """K for so many groups: as far as the kernel 1, mu, mu**2, ... is worth anything, and within
    memory."""
    return max(LEAST_REACH, min(2 * groups, LONGEST // 4))


class ClosedLoop:
    """Keeps the total momentum where it is wanted, by the explicit one (YellowFin, section 4).

    YellowFin adds 0.01 times the difference at every update. What is measured here is seldom and
    better, so a step is larger; and it is made in log(1 - momentum), where explicit and implicit
    momentum add up. `following` takes the steps.
    """

    def __init__(self, explicit: float, gain: float = 0.5) -> None:
        self.explicit = explicit
        self._gain = gain

    def __repr__(self) -> str:
        return f"<closed loop, explicit momentum {self.explicit:.3f}>"

    def next(self, measured: float, wanted: float) -> float:
        """The explicit momentum to go on with, from 0 to MOST; the present one if what was measured
        is no momentum."""
        if 0.0 <= measured < 1.0 and 0.0 <= wanted < 1.0:
            step = math.log1p(-wanted) - math.log1p(-measured)
            rest = math.log1p(-self.explicit) + self._gain * step
            self.explicit = min(MOST, max(0.0, -math.expm1(rest)))
        return self.explicit
