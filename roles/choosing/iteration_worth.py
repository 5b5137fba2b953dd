"""The worth of an iteration with several groups, compared with an iteration of one group. Presets
with other numbers of groups are compared by it."""

from __future__ import annotations

from nets import SolverSpec
from roles.options import Train, is_auto
from roles.planning.strategies import HIGH, KINDS, ROUNDING
from roles.tuning.choices import Setting, alike, counts_up_to
from roles.tuning.momentum import expected, total


class Theory:
    """Groups add momentum (Omnivore, Theorem 1). An iteration of several groups teaches as much as
    one of one group, as long as the solver's momentum can make up for that.

    If momentum is "auto", the tuner lowers it until the total is as before. Otherwise the total has
    to stay below the value from which runs diverge. Of solvers other than SGD and Nesterov nothing
    is known. `assumed` is the assumption in words.
    """

    def __init__(self, train: Train, solver: SolverSpec) -> None:
        self._lowered = is_auto(train.momentum)
        self._solver = solver
        self.assumed = self._in_words(
            max(groups for groups in counts_up_to(train.strategy.workers) if self.holds(groups))
        )

    def __repr__(self) -> str:
        return f"<{self.assumed}>"

    def holds(self, groups: int) -> bool:
        """True if an iteration of `groups` groups is worth as much as one of one group."""
        if groups == 1:
            return True
        if self._solver.type not in KINDS:
            return False
        momentum = self._solver.momentum
        if self._lowered:
            return alike(Setting(1, momentum, self._solver.base_lr), groups) is not None
        return total(momentum, expected(groups)) < HIGH - ROUNDING

    def _in_words(self, most: int) -> str:
        """The assumption. `most`: the largest number of groups for which it holds."""
        if self._solver.type not in KINDS:
            return f"1 group, since nothing is known of groups with solver {self._solver.type}"
        momentum = f"momentum {self._solver.momentum:.3g}"
        limit = (
            f"{momentum} can be lowered by the 1 - 1/g that g groups add"
            if self._lowered
            else f"with {momentum} the total of g groups stays below {HIGH:g}"
        )
        return f"an iteration of g groups is worth one of 1 group while {limit}: up to {most}"
