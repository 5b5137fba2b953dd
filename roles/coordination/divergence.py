"""Whether training diverges, by the losses of its iterations. Sums only."""

from __future__ import annotations

import math
from collections import deque
from statistics import fmean, median

FIRST = 10  # iterations whose losses say what the loss of a model is that has hardly learnt
LAST = 10  # iterations whose mean is held against them: one batch alone may be hard
# times. A model that is so much worse than an untrained one learns no more, though its numbers are
# finite
ROSE = 10.0
# The same where what was trained can be undone. LeNet with 8 groups at momentum 0.2 and rate 0.08
# rises to 4.4 in its third iteration, learns again, and is beyond ROSE 40 to 70 iterations later,
# with three seeds of three.
SOON = 4
WATCHED = 1.5


class Divergence:
    """Of one run, or of what is left of it after it was resumed."""

    def __init__(self) -> None:
        self._first: list[float] = []
        self._last: deque[float] = deque(maxlen=LAST)

    def __repr__(self) -> str:
        return f"<losses: the first {self._first}, the last {list(self._last)}>"

    def shows(self, loss: float) -> bool:
        """Does training diverge, now that an iteration has ended with this loss?"""
        if not math.isfinite(loss):
            return True
        if len(self._first) < FIRST:
            self._first.append(loss)
        self._last.append(loss)
        return len(self._last) == LAST and fmean(self._last) > ROSE * median(self._first) > 0

    @property
    def likely(self) -> bool:
        """Does it look so already? By the median: one hard batch says nothing."""
        last = list(self._last)[-SOON:]
        return len(last) == SOON and median(last) > WATCHED * median(self._first) > 0

    def forget(self) -> None:
        """The last iterations are undone."""
        self._last.clear()
