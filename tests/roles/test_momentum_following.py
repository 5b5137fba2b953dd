"""Momentum that follows measurements: when it changes, by how much, and the messages about it."""

from __future__ import annotations

import math

import pytest

from roles.tuning.gradient_statistics import GradientStatistics
from roles.tuning.momentum import compensated, expected, staleness_of, total
from roles.tuning.momentum_following import COUNTED, LEAST, Following

NAN = math.nan


def said(
    momentum: float, staleness: float = NAN, *, updates: int = 256, **more: float
) -> GradientStatistics:
    known = {
        "groups": NAN,
        "gradients": NAN,
        "gradients_error": NAN,
        "noise": NAN,
        "noise_error": NAN,
        **more,
    }
    return GradientStatistics(
        iteration=50, momentum=momentum, updates=updates, staleness=staleness, **known
    )


@pytest.mark.parametrize("groups", [2, 4, 8, 16])
def test_before_the_first_measurement_the_momentum_follows_theory(groups: int) -> None:
    change = Following(0.9, 0.9).begin(groups)
    assert change is not None
    assert change.momentum == pytest.approx(compensated(0.9, groups - 1), abs=1e-4)
    assert change.total == pytest.approx(total(0.9, expected(groups)))
    assert f"{groups} groups, by theory" in change.why


def test_alone_nothing_is_changed() -> None:
    assert Following(0.9, 0.9).begin(1) is None
    assert Following(0.9, 0.9).heard([said(0.9, 0.0)]) is None


@pytest.mark.parametrize("implicit", [0.3, 0.67, 0.85])
def test_the_total_reaches_its_goal_and_stays_there(implicit: float) -> None:
    following = Following(0.2, 0.9)
    momentum = 0.2
    changes = 0
    for _ in range(20):
        change = following.heard([said(momentum, implicit)])
        if change is not None:
            assert change.total == pytest.approx(total(momentum, implicit))
            assert f"asynchrony gives {implicit:.3g} (staleness of 256 updates)" in change.why
            momentum = change.momentum
            changes = changes + 1
    assert 0 < changes < 10
    # half of the rest is a change of less than LEAST
    assert momentum == pytest.approx(compensated(0.9, staleness_of(implicit)), abs=2.5 * LEAST)


def test_unknown_momentum_changes_nothing_and_gradients_count_if_staleness_is_unknown() -> None:
    following = Following(0.6, 0.9)
    assert following.heard([said(0.6, 0.9, updates=COUNTED - 1)]) is None
    assert following.heard([said(0.6, updates=0, gradients=0.2, gradients_error=0.5)]) is None
    change = following.heard([said(0.6, updates=0, gradients=0.2, gradients_error=0.05)])
    assert change is not None
    assert change.momentum > 0.6
    assert "asynchrony gives 0.2 (gradients)" in change.why


def test_servers_count_by_their_updates() -> None:
    change = Following(0.6, 0.9).heard([said(0.6, 0.2, updates=64), said(0.6, 0.8, updates=192)])
    assert change is not None
    assert "asynchrony gives 0.65 (staleness of 256 updates)" in change.why


def test_more_momentum_than_wanted_from_asynchrony_alone_is_reported_once() -> None:
    following = Following(0.0, 0.5)
    change = following.heard([said(0.0, 0.8)])
    assert change is not None
    assert change.momentum == 0.0
    assert change.why.endswith("wanted 0.5, which no explicit momentum can give")
    assert following.heard([said(0.0, 0.8)]) is None


def test_the_total_found_by_a_search_is_kept_at_its_first_measurement() -> None:
    following = Following(0.3)
    assert following.heard([said(0.3, 0.5)]) is None
    assert following.wanted == pytest.approx(total(0.3, 0.5))
    change = following.heard([said(0.3, 0.75)])
    assert change is not None
    assert change.momentum < 0.3
