"""What a preset's groups make of a solver's momentum, where it is worth telling."""

from __future__ import annotations

from nets import SolverSpec
from roles.options import Strategy
from roles.presets.request import Preset
from roles.tuning.momentum import expected, total

HIGH = 0.95  # total momentum from which runs were seen to end in NaN, see docs/tuning.md
ROUNDING = 1e-6  # a prototxt's 0.9 is 0.89999998
KINDS = ("SGD", "Nesterov")


def told_of_momentum(solver: SolverSpec, preset: Preset, strategy: Strategy) -> str:
    """A line on a total momentum that may not hold, and one that does; "" if it does."""
    groups, momentum = preset.groups(strategy), solver.momentum
    together = total(momentum, expected(groups))
    if groups < 2 or solver.type not in KINDS or not momentum or together < HIGH - ROUNDING:
        return ""
    kept = 1.0 - groups * (1.0 - momentum)
    advice = f"{kept:.3g} keeps the total at" if kept > ROUNDING else "0, or fewer groups, come nearest to"
    return (
        f"preset '{strategy.preset}' with momentum {momentum:.3g} and {groups} groups learns as with momentum "
        f"{together:.3g}, and may diverge; momentum {advice} {momentum:.3g}"
    )
