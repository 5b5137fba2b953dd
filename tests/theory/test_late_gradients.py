"""The gain that late gradients bear on a quadratic: the bounds that docs/tuning.md states for
recurrent nets, by simulation."""

from __future__ import annotations

import pytest


def remains_bounded(gain: float, momentum: float, late: int) -> bool:
    """Descend x^2 / 2 with gradients that are `late` updates old. The sum of all steps that one
    gradient causes is `gain` times that gradient."""
    xs = [1.0] * (late + 1)
    step = 0.0
    for _ in range(20_000):
        step = momentum * step - gain * (1 - momentum) * xs[-1 - late]
        xs.append(xs[-1] + step)
        if abs(xs[-1]) > 1e3:
            return False
    return True


@pytest.mark.parametrize(
    ("momentum", "late", "most"),
    [
        (0.0, 0, 2.0),
        (0.9, 0, 38.0),  # 2 (1 + m) / (1 - m)
        (0.0, 3, 0.445),
        (0.6, 3, 0.387),
        (0.9, 3, 0.348),
    ],
)
def test_gradients_that_are_three_updates_late_bear_a_small_gain_with_any_momentum(
    momentum: float, late: int, most: float
) -> None:
    assert remains_bounded(0.97 * most, momentum, late)
    assert not remains_bounded(1.03 * most, momentum, late)
