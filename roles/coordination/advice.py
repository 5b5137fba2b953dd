"""The advice to a user whose loss is not a finite number: the causes that are possible then."""

from __future__ import annotations

from nets import SolverSpec
from roles.tuning.momentum import HIGH, KINDS, ROUNDING, compensated, expected, total
from runtime.typed_name import shown

DATA = f"look for damaged samples with {shown('check --all-samples')}"


def on_loss(
    solver: SolverSpec,
    iteration: int,
    first: int,
    groups: int,
    suited: bool,
    *,
    apart: bool = False,
) -> str:
    """The possible causes of a loss that is not finite in `iteration` of a run that began at
    `first` with so many groups. `suited`: the momentum already follows the number of groups.
    `apart`: each group has a model of its own, as islands have, and their number does not act like
    momentum.

    The first iteration of each group computes with parameters that this run has not changed.
    """
    if iteration < first + groups:
        if first:
            return (
                "no parameter has changed since the resume, so the learning rate of this run is "
                f"not the cause: {DATA}, or resume from an earlier checkpoint"
            )
        return (
            "no parameter has changed yet, so the learning rate is not the cause: "
            f"{DATA}, or choose other first parameters (the net's fillers, train.weights)"
        )
    momentum = solver.momentum
    together = total(momentum, expected(groups))
    rate = f"training diverged; the learning rate is {solver.rate(iteration):g}"
    if apart:
        return f"{rate}, try a smaller base_lr or train.strategy.options.outer_momentum"
    if high_momentum(solver, groups) and not suited:
        kept = compensated(momentum, groups - 1)
        return (
            f"{rate}, and {groups} groups with momentum {momentum:.3g} learn as with momentum "
            f"{together:.3g}; set train.momentum = {kept:.3g}, or take fewer groups"
        )
    return f"{rate}, try a smaller base_lr"


def high_momentum(solver: SolverSpec, groups: int) -> bool:
    """Whether asynchronous groups make the total momentum so high that training may diverge."""
    momentum = solver.momentum
    if groups < 2 or solver.type not in KINDS or not momentum:
        return False
    return total(momentum, expected(groups)) >= HIGH - ROUNDING
