"""Momentum without probes: the explicit one follows what is measured of the implicit one, so that
both together stay as they are wanted. Decisions only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from roles.tuning.gradient_statistics import GradientStatistics
from roles.tuning.momentum import ClosedLoop, expected, total

EVERY = 50  # iterations between two looks
COUNTED = 64  # updates whose staleness says enough
SURE = 0.1  # the standard error with which gradients say enough
LEAST = 0.01  # of an explicit momentum: for less nobody is interrupted


@dataclass(frozen=True)
class Change:
    """Another explicit momentum, and the reason in words. `total`: what both together were, as far
    as is known."""

    momentum: float
    total: float
    why: str


class Following:
    """Of one run with this `explicit` momentum. `wanted` is the total; None: what it is when it is
    first known."""

    def __init__(self, explicit: float, wanted: float | None = None) -> None:
        self.wanted = wanted
        self._loop = ClosedLoop(explicit)
        self._is_beyond = False

    def __repr__(self) -> str:
        return f"<{self._loop!r}, wanted in all {self.wanted}>"

    def begin(self, groups: int) -> Change | None:
        """Before anything is measured: by Theorem 1."""
        if self.wanted is None or groups == 1:
            return None
        return self._changed(
            ClosedLoop(self._loop.explicit, gain=1.0),
            expected(groups),
            f"{groups} groups, by theory",
        )

    def heard(self, said: Sequence[GradientStatistics]) -> Change | None:
        """What to change after a look; None: nothing."""
        found = _implicit(said)
        if found is None:
            return None
        implicit, by = found
        self._loop.explicit = said[0].momentum  # somebody else may have changed it
        if self.wanted is None:
            self.wanted = total(self._loop.explicit, implicit)
            return None
        return self._changed(self._loop, implicit, by)

    def _changed(self, loop: ClosedLoop, implicit: float, by: str) -> Change | None:
        assert self.wanted is not None
        before = loop.explicit
        now = total(loop.explicit, implicit)
        after = round(loop.next(now, self.wanted), 4)
        self._loop.explicit = after
        why = f"asynchrony gives {implicit:.3g} ({by}): in all {now:.3g}, wanted {self.wanted:.3g}"
        beyond = self._is_beyond
        self._is_beyond = implicit > self.wanted and after == 0.0
        if abs(after - before) >= LEAST:
            return Change(after, now, why)
        self._loop.explicit = before
        return (
            Change(before, now, f"{why}, which no momentum can give")
            if self._is_beyond and not beyond
            else None
        )


def _implicit(said: Sequence[GradientStatistics]) -> tuple[float, str] | None:
    """The implicit momentum of all servers, and who says so: staleness, else gradients; None:
    nobody knows."""
    counted = [(each.updates, each.staleness) for each in said if each.updates >= COUNTED]
    if counted:
        updates = sum(count for count, _ in counted)
        return sum(
            count * value for count, value in counted
        ) / updates, f"staleness of {updates} updates"
    sure = [each.gradients for each in said if each.gradients_error <= SURE]  # NaN is not
    return (math.fsum(sure) / len(sure), "gradients") if sure else None
