"""The detection of training that diverges, from the losses of its iterations. Decisions only, no
I/O."""

from __future__ import annotations

import math
from collections import deque
from statistics import fmean, median

FIRST = 10  # iterations whose losses show the loss of a model that has hardly learnt
LAST = 10  # iterations whose mean is compared with them: one batch alone may be hard
# A factor. A model that is so much worse than an untrained one no longer learns, though its numbers
# are finite.
ROSE = 10.0
# The same for training that can be undone. LeNet with 8 groups at momentum 0.2 and rate 0.08
# rises to 4.4 in its third iteration, learns again, and is beyond ROSE 40 to 70 iterations later,
# with three seeds of three.
SOON = 4
WATCHED = 1.5


class Divergence:
    """Follows the losses of one run, or of the rest of a run that was resumed."""

    def __init__(self) -> None:
        self._first: list[float] = []
        self._last: deque[float] = deque(maxlen=LAST)

    def __repr__(self) -> str:
        return f"<losses: the first {self._first}, the last {list(self._last)}>"

    def shows(self, loss: float) -> bool:
        """Note the loss of an iteration that has ended. Returns True if training diverges."""
        if not math.isfinite(loss):
            return True
        if len(self._first) < FIRST:
            self._first.append(loss)
        self._last.append(loss)
        return len(self._last) == LAST and fmean(self._last) > ROSE * median(self._first) > 0

    @property
    def likely(self) -> bool:
        """Does training seem to diverge already? The median decides, since one hard batch proves
        nothing."""
        last = list(self._last)[-SOON:]
        return len(last) == SOON and median(last) > WATCHED * median(self._first) > 0

    def forget(self) -> None:
        """Forget the last iterations, which are undone."""
        self._last.clear()
