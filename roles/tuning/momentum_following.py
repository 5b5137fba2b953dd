"""Momentum without probes: the explicit momentum follows measurements of the implicit one, so that
the total stays at the wanted value.

This module makes the decisions and sends nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from roles.tuning.gradient_statistics import GradientStatistics
from roles.tuning.momentum import ClosedLoop, compensated, expected, total

EVERY = 50  # iterations between two requests for statistics
COUNTED = 64  # updates that a measurement by staleness needs
SURE = 0.1  # the largest standard error of a measurement by gradients
LEAST = 0.01  # the smallest change of explicit momentum that is worth interrupting the run


@dataclass(frozen=True)
class Change:
    """Another explicit momentum, and the reason in words. `total` is the total momentum before the
    change, as far as is known."""

    momentum: float
    total: float
    why: str


class Following:
    """The decisions for one run with this `explicit` momentum.

    `wanted` is the total momentum to keep. None: the total at the first measurement.
    """

    def __init__(self, explicit: float, wanted: float | None = None) -> None:
        self.wanted = wanted
        self._loop = ClosedLoop(explicit)
        self._is_beyond = False

    def __repr__(self) -> str:
        return f"<{self._loop!r}, wanted in all {self.wanted}>"

    def begin(self, groups: int) -> Change | None:
        """The first change, before any measurement, by theory; None if none is needed."""
        if self.wanted is None or groups == 1:
            return None
        after = compensated(self.wanted, groups - 1)
        return self._changed(after, expected(groups), f"{groups} groups, by theory")

    def heard(self, said: Sequence[GradientStatistics]) -> Change | None:
        """The change after new statistics; None if no change is needed."""
        found = _implicit(said)
        if found is None:
            return None
        implicit, by = found
        self._loop.explicit = said[0].momentum  # it may have been changed by hand
        if self.wanted is None:
            self.wanted = total(self._loop.explicit, implicit)
            return None
        before = self._loop.explicit
        after = self._loop.next(implicit, self.wanted)
        self._loop.explicit = before
        return self._changed(after, implicit, by)

    def _changed(self, after: float, implicit: float, by: str) -> Change | None:
        assert self.wanted is not None
        before = self._loop.explicit
        now = total(before, implicit)
        after = round(after, 4)
        self._loop.explicit = after
        why = f"asynchrony gives {implicit:.3g} ({by}): total {now:.3g}, wanted {self.wanted:.3g}"
        beyond = self._is_beyond
        self._is_beyond = implicit > self.wanted and after == 0.0
        if abs(after - before) >= LEAST:
            return Change(after, now, why)
        self._loop.explicit = before
        return (
            Change(before, now, f"{why}, which no explicit momentum can give")
            if self._is_beyond and not beyond
            else None
        )


def _implicit(said: Sequence[GradientStatistics]) -> tuple[float, str] | None:
    """The implicit momentum of all servers and its source: staleness if enough updates are counted,
    else gradients. None if neither is known well enough."""
    counted = [(each.updates, each.staleness) for each in said if each.updates >= COUNTED]
    if counted:
        updates = sum(count for count, _ in counted)
        return sum(
            count * value for count, value in counted
        ) / updates, f"staleness of {updates} updates"
    sure = [each.gradients for each in said if each.gradients_error <= SURE]  # NaN is not
    return (math.fsum(sure) / len(sure), "gradients") if sure else None
