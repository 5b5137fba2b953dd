"""What a preset's groups make of a solver's momentum, where it is worth telling."""

from __future__ import annotations

from nets import SolverSpec
from roles.options import Strategy
from roles.presets.request import Preset
from roles.tuning.momentum import expected, total

HIGH = 0.95  # total momentum from which runs were seen to end in NaN, see docs/tuning.md
KINDS = ("SGD", "Nesterov")


def told_of_momentum(solver: SolverSpec, preset: Preset, strategy: Strategy) -> str:
    """A line on a total momentum that may not hold, and one that does; "" if it does."""
    groups, momentum = preset.groups(strategy), solver.momentum
    together = total(momentum, expected(groups))
    if groups < 2 or solver.type not in KINDS or not momentum or together < HIGH - 1e-9:
        return ""
    kept = 1.0 - groups * (1.0 - momentum)
    advice = (
        f"{kept:.3g} keeps the total at {momentum:.3g}" if kept > 0 else f"fewer groups or 0 come near {momentum:.3g}"
    )
    return (
        f"preset '{strategy.preset}' with momentum {momentum:.3g} and {groups} groups learns as with momentum "
        f"{together:.3g}, and may diverge; momentum {advice}"
    )
