"""The explicit momentum that follows the number of asynchronous groups. Plain data."""

from __future__ import annotations

from dataclasses import dataclass

from roles.tuning.momentum import can_compensate, compensated


@dataclass(frozen=True)
class Compensation:
    """The explicit momentum as a function of the number of groups.

    `suited`: the solver's momentum, which suits one group. `preset`: its name, for texts.
    """

    suited: float
    preset: str

    def momentum(self, groups: int) -> float:
        """The explicit momentum with this number of groups, rounded to six digits. With one group,
        the solver's to the last bit."""
        if groups == 1:
            return self.suited
        return float(f"{compensated(self.suited, groups - 1):.6g}")

    def told(self, groups: int) -> str:
        """The decision in words; "" with one group."""
        if groups == 1:
            return ""
        suited = f"{self.suited:.3g}"
        late = groups - 1
        updates = f"{late} update{'s'[: late != 1]} late"
        decision = (
            f"{self.preset} with {groups} groups: momentum {self.momentum(groups):.3g} in place of "
            f"the solver's {suited}, since gradients that are {updates}"
        )
        keeps = f"train.momentum = 'solver' keeps {suited}"
        if can_compensate(self.suited, late):
            return f"{decision} act like momentum; {keeps}"
        most = next(fewer for fewer in range(late, 0, -1) if can_compensate(self.suited, fewer - 1))
        return (
            f"{decision} act like more momentum than that; even 0 is too much, and the most groups "
            f"for {suited} are {most}; {keeps}"
        )
