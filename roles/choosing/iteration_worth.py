"""The worth of an iteration with several groups, compared with an iteration of one group. Presets
with other numbers of groups are compared by it."""

from __future__ import annotations

from typing import Protocol

from nets import SolverSpec
from roles.choosing.preset_candidates import Candidate
from roles.forecasting.statistical import NOT_REACHED, Efficiency
from roles.options import Train, is_auto
from roles.planning.learnt import Target, learnt
from roles.planning.strategies import manner_of
from roles.tuning.choices import Setting, alike, counts_up_to
from roles.tuning.momentum import HIGH, KINDS, ROUNDING, expected, total
from roles.tuning.short import STALE
from runtime.config.sections import ClusterConfig
from runtime.errors import ConfigError
from runtime.plan.prospects import Needed


class Worth(Protocol):
    """The knowledge of what iterations are worth. `assumed` describes it in words."""

    assumed: str

    def needed(self, candidate: Candidate, groups: int) -> float | None:
        """The iterations of so many groups that teach as much as one iteration of one group. None
        if that is not known, or if so many groups do not learn."""

    def supposed(self, candidate: Candidate, groups: int) -> bool:
        """True if `needed` is what theory supposes of nets that bear late gradients at their whole
        gain. Only training shows whether this net does."""


def late_iterations(groups: int, gain: float) -> float:
    """The iterations of `groups` groups that are worth one iteration of one group. `gain` is the
    gain of their setting, base_lr / (1 - momentum), as a part of the solver's.

    With the whole gain an iteration is worth one. g groups with the g-th part need g ** STALE
    iterations. One group needs one iteration, whatever its rate.
    """
    return 1.0 if groups == 1 else max(1.0, gain**-STALE)


def worth_of(config: ClusterConfig, asked: Train, candidate: Candidate) -> Worth:
    """The knowledge from the runs that [train.tuning] names, and else from theory. Raises
    ConfigError for a run that trained something else, and for a wrong target.

    `candidate`: any of them, since all train the same.
    """
    job = candidate.job
    theory = Theory(asked, job.solver_spec)
    if not (asked.tuning.learnt and asked.tuning.target):
        return theory
    base = config.raw.base
    runs = [base / run for run in asked.tuning.learnt]
    key = "target"
    try:
        target = Target.of(asked.tuning.target)
        key = "learnt"
        found = learnt(target, runs, candidate.options, job, candidate.first)
    except ConfigError as error:
        texts = [problem.removeprefix(f"--{key} ") for problem in error.problems]
        raise ConfigError(
            [config.raw.problem(("train", "tuning", key), text).text for text in texts]
        ) from None
    return FromRuns(found.efficiency, theory, target)


class Theory:
    """Groups add momentum (Omnivore, Theorem 1). An iteration of several groups teaches as much as
    one of one group, as long as the solver's momentum can make up for that.

    If momentum is "auto", the tuner chooses it together with the rate. Otherwise the rate is the
    solver's, at which less momentum also means less gain, so the solver's momentum and that of
    groups have to stay below the value from which runs diverge. Of solvers other than SGD and
    Nesterov nothing is known. `assumed` is the assumption in words.
    """

    def __init__(self, train: Train, solver: SolverSpec) -> None:
        self._lowered = is_auto(train.momentum)
        self._solver = solver
        self.assumed = self._in_words(
            max(groups for groups in counts_up_to(train.strategy.workers) if self.holds(groups))
        )

    def __repr__(self) -> str:
        return f"<{self.assumed}>"

    def needed(self, candidate: Candidate, groups: int) -> float | None:
        """As `Worth.needed`: one or None, whatever the candidate."""
        return 1.0 if self.holds(groups) else None

    def supposed(self, candidate: Candidate, groups: int) -> bool:
        """As `Worth.supposed`: of several groups, if a tuner lowers their momentum."""
        return self._lowered and groups > 1

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
            else f"the solver's {momentum} and that of g groups stay below {HIGH:g} together"
        )
        return f"an iteration of g groups is worth one of 1 group while {limit}: up to {most}"


class FromRuns:
    """Earlier runs reached a target with one group and with several, which shows how many
    iterations are worth as much as one of one group. Where they do not show it, theory counts."""

    def __init__(self, efficiency: Efficiency, theory: Theory, target: Target) -> None:
        self._efficiency = efficiency
        self._theory = theory
        self.assumed = (
            f"iterations to {target} as in runs with as many groups; else {theory.assumed}"
        )

    def __repr__(self) -> str:
        return f"<{self.assumed}>"

    def needed(self, candidate: Candidate, groups: int) -> float | None:
        """As `Worth.needed`."""
        if groups == 1:
            return 1.0
        alone, several = self._steps(candidate, groups)
        if several.why == NOT_REACHED:
            return None
        if alone.steps is None or several.steps is None:
            return self._theory.needed(candidate, groups)
        return several.steps / max(1, alone.steps)

    def supposed(self, candidate: Candidate, groups: int) -> bool:
        """As `Worth.supposed`: what runs have shown is not supposed."""
        shown = all(each.steps is not None for each in self._steps(candidate, groups))
        return not shown and self._theory.supposed(candidate, groups)

    def _steps(self, candidate: Candidate, groups: int) -> tuple[Needed, Needed]:
        """The iterations to the target with one group and with several."""
        manner = manner_of(candidate.options.train.strategy, groups)
        return self._efficiency.needed(manner, 1), self._efficiency.needed(manner, groups)
