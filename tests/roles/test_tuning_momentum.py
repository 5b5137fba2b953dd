"""Implicit momentum: estimators on problems with known answers, the loop that keeps the total, and
values that are not reported."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from roles.tuning.momentum import (
    MOST,
    ClosedLoop,
    ImplicitMomentum,
    can_compensate,
    compensated,
    expected,
    expected_of,
    from_staleness,
    reach_of,
    staleness_of,
    total,
)
from roles.tuning.ratio import BLOCK, LEAST, Ratio

SIZE = 400
RATE = 0.08
CURVES = np.geomspace(0.05, 1.0, SIZE)


def bowl(
    groups: int,
    updates: int,
    *,
    noise: float = 1.0,
    explicit: float = 0.0,
    regular: bool = False,
    seed: int = 1,
) -> tuple[ImplicitMomentum, Counter[int], list[NDArray[np.float64]]]:
    """SGD by groups in a bowl of known curvature, with noisy gradients. Service times are
    exponential, or all equal if `regular`."""
    draw = np.random.default_rng(seed)
    x = draw.normal(size=SIZE)
    v = np.zeros(SIZE)
    under_way = [(0, CURVES * x + noise * draw.normal(size=SIZE)) for _ in range(groups)]
    found = ImplicitMomentum()
    staleness = Counter[int]()
    along = [x]
    for version in range(updates):
        at = version % groups if regular else int(draw.integers(groups))
        read, gradient = under_way[at]
        found.note(version, read, gradient.astype(np.float32), reach_of(groups))
        staleness[version - read] += 1
        v = explicit * v - RATE * gradient
        x = x + v
        along.append(x)
        under_way[at] = (version + 1, CURVES * x + noise * draw.normal(size=SIZE))
    return found, staleness, along


@pytest.mark.parametrize("explicit", [0.0, 0.5])
@pytest.mark.parametrize("groups", [1, 2, 4, 8])
def test_gradients_give_1_minus_1_over_g_with_exponential_times_whatever_the_solver_adds(
    groups: int, explicit: float
) -> None:
    found, _, _ = bowl(groups, 2500, explicit=explicit)
    measured = found.measured()
    assert measured is not None
    assert measured.error < 0.08
    assert measured.value == pytest.approx(expected(groups), abs=max(4 * measured.error, 1e-6))


def test_staleness_gives_the_same_and_needs_fewer_updates() -> None:
    _, staleness, _ = bowl(8, 1500)
    assert from_staleness(staleness) == pytest.approx(expected(8), abs=0.02)


@pytest.mark.parametrize("groups", [4, 8])
def test_with_regular_times_gradients_agree_with_the_counted_staleness(
    groups: int,
) -> None:
    found, staleness, _ = bowl(groups, 2500, regular=True)
    measured = found.measured()
    assert measured is not None
    assert measured.value == pytest.approx(expected_of(staleness, reach_of(groups)), abs=0.1)
    assert from_staleness({groups - 1: 1}) == pytest.approx(1 - 1 / (groups - 1))


def test_a_regression_of_one_update_on_the_one_before_sees_noise_instead() -> None:
    """A plain regression of each update on the one before has a bias, which the formula avoids."""
    _, _, along = bowl(4, 2500)
    steps = np.diff(np.array(along), axis=0)
    plain = float((steps[1:] * steps[:-1]).sum() / (steps[:-1] ** 2).sum())
    assert plain < 0.2 < expected(4)


def test_updates_that_are_left_out_break_the_chain_and_nothing_else() -> None:
    found, _, _ = bowl(2, 400)
    before = found.measured()
    found.note(5000, 4990, np.ones(SIZE, np.float32), 4)
    assert found.measured() == before


def test_momentum_hidden_by_noise_is_not_reported() -> None:
    ratio = Ratio()
    draw = np.random.default_rng(1)
    for above, below in draw.normal(size=(BLOCK * 20, 2)):
        ratio.add(above, below)
    assert ratio.measured() is None
    known = Ratio()
    for above, below in 1 + 0.1 * draw.normal(size=(BLOCK * LEAST - 1, 2)):
        known.add(above, below)
    assert known.measured() is None  # one pair is missing
    known.add(1.0, 1.0)
    known.add(float("nan"), 1.0)
    measured = known.measured()
    assert measured is not None
    assert measured.value == pytest.approx(1.0, abs=5 * measured.error)


@given(st.floats(0.0, 0.99), st.integers(1, 64))
def test_the_total_of_a_compensated_momentum_is_the_momentum_that_suits_one_group(
    suited: float, groups: int
) -> None:
    explicit = compensated(suited, groups - 1)
    together = total(explicit, expected(groups))
    if can_compensate(suited, groups - 1):
        assert together == pytest.approx(suited, abs=1e-5)
    else:
        assert explicit == 0.0
        assert together > suited


@given(st.floats(0.0, 0.99), st.floats(0.0, 100.0), st.floats(0.0, 100.0))
def test_later_gradients_leave_less_momentum_to_the_solver_and_never_a_negative_one(
    suited: float, one: float, other: float
) -> None:
    less, more = sorted((one, other))
    rounding = 1e-12
    assert suited + rounding >= compensated(suited, less)
    assert compensated(suited, less) + rounding >= compensated(suited, more) >= 0.0


@pytest.mark.parametrize("suited", [0.0, 0.1, 0.8999999761581421, 0.99])
def test_gradients_that_are_not_late_leave_the_momentum_to_the_last_bit(suited: float) -> None:
    assert compensated(suited, 0) == suited


@pytest.mark.parametrize("groups", [1, 2, 4, 16])
def test_the_staleness_of_an_implicit_momentum_is_g_minus_1(groups: int) -> None:
    assert staleness_of(expected(groups)) == pytest.approx(groups - 1)
    assert expected(1) == 0.0


@pytest.mark.parametrize(("implicit", "wanted"), [(0.5, 0.9), (0.75, 0.9), (0.0, 0.6), (0.9, 0.9)])
def test_the_closed_loop_brings_the_total_to_its_goal(implicit: float, wanted: float) -> None:
    loop = ClosedLoop(0.9)
    draw = np.random.default_rng(1)
    for _ in range(60):
        loop.next(implicit + 0.005 * draw.normal() * (1 - implicit), wanted)
    assert total(loop.explicit, implicit) == pytest.approx(wanted, abs=0.01)


def test_the_closed_loop_stays_between_zero_and_the_maximum_and_ignores_invalid_momentum() -> None:
    loop = ClosedLoop(0.5)
    assert loop.next(1.2, 0.9) == 0.5
    assert loop.next(float("nan"), 0.9) == 0.5
    for _ in range(20):
        loop.next(0.95, 0.9)  # more groups than the total allows
    assert loop.explicit == 0.0
    for _ in range(50):
        loop.next(0.0, 0.999)
    assert loop.explicit == pytest.approx(MOST)


def test_no_counted_staleness_gives_no_distribution() -> None:
    with pytest.raises(ValueError, match="expected one update at least"):
        from_staleness({})
