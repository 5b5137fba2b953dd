"""The effect of asynchronous groups on a plan's momentum: some presets lower it, for others a
momentum that may diverge is reported."""

from __future__ import annotations

from collections.abc import Mapping

from nets import SolverSpec
from roles.coordination.advice import high_momentum
from roles.coordination.regroup import followed
from roles.coordination.run_settings import BECAME
from roles.options import SOLVER, Strategy, Train
from roles.planning.strategies import preset_called
from roles.presets.request import Preset
from roles.tuning.compensation import Compensation
from roles.tuning.momentum import (
    KINDS,
    ROUNDING,
    compensated,
    expected,
    total,
)


def compensation_of(solver: SolverSpec, preset: Preset, train: Train) -> Compensation | None:
    """The way in which the explicit momentum follows the number of groups. None if [train] or a
    tuner chooses the momentum, if the preset or the solver does not compensate, or if there is only
    one group for the whole run."""
    if not preset.compensates or train.momentum is not None:
        return None
    if solver.type not in KINDS or not solver.momentum:
        return None
    strategy = train.strategy
    if preset.groups_in_all(strategy) == 1 and not strategy.live:
        return None
    return Compensation(solver.momentum, strategy.preset)


def as_it_was(
    train: Train, theirs: Train, solver: SolverSpec, facts: Mapping[str, str], run: str
) -> tuple[Train, list[str]]:
    """The section with the solver's momentum, if the resumed run had it with as many groups, and a
    line that reports this. An older version never lowered momentum for asynchronous groups.

    `theirs` is the section of that run, with the name `run`, and `facts` are the metadata of its
    checkpoint. `solver` has no values of cluster.toml. Nothing changes if cluster.toml sets a
    momentum now or did so then, or if its preset or its number of groups is another one by now.
    """
    strategy = train.strategy
    preset = preset_called(strategy.preset)
    found = compensation_of(solver, preset, train)
    groups = preset.groups_in_all(strategy)
    same = strategy.preset == theirs.strategy.preset
    if found is None or not same or groups != preset.groups_in_all(theirs.strategy):
        return train, []
    lowered = theirs.momentum is None and followed(facts.get(BECAME, ""))
    if theirs.momentum not in (None, SOLVER) or lowered:
        return train, []
    text = (
        f"momentum   stays the solver's {found.suited:.3g}, as in {run}, which did not lower it "
        "for asynchronous groups"
    )
    if groups > 1:
        text += f"; train.momentum = {found.momentum(groups):.3g} lowers it"
    return train.model_copy(update={"momentum": SOLVER}), [text]


def told_of_momentum(solver: SolverSpec, preset: Preset, strategy: Strategy) -> str:
    """A warning of a total momentum that may diverge, with a momentum that does not; "" if the
    total is low enough."""
    groups = preset.groups_in_all(strategy)
    momentum = solver.momentum
    if not high_momentum(solver, groups):
        return ""
    together = total(momentum, expected(groups))
    kept = compensated(momentum, groups - 1)
    advice = (
        f"{kept:.3g} keeps the total at"
        if kept > ROUNDING
        else "0, or fewer groups, come nearest to"
    )
    return (
        f"preset '{strategy.preset}' with momentum {momentum:.3g} and {groups} groups learns "
        "as with momentum "
        f"{together:.3g}, and may diverge; momentum {advice} {momentum:.3g}"
    )
