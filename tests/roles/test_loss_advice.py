"""The advice after a loss that is not a number names only causes that are possible."""

from __future__ import annotations

import pytest

from nets import SolverSpec, load_solver
from roles.coordination.advice import on_loss

RATE = "training diverged; the learning rate is 0.01, try a smaller base_lr"


@pytest.fixture(scope="module")
def solver() -> SolverSpec:
    values = {"base_lr": 0.01, "momentum": 0.9}
    return load_solver("lenet_digits_solver", values)


@pytest.mark.parametrize("groups", [1, 4])
def test_the_rate_is_not_blamed_before_a_parameter_has_changed(
    solver: SolverSpec, groups: int
) -> None:
    for iteration in range(groups):
        text = on_loss(solver, iteration, 0, groups, suited=True)
        assert "no parameter has changed yet, so the learning rate is not the cause" in text
        assert "check --all-samples" in text
        assert "base_lr" not in text
    assert "try a smaller base_lr" in on_loss(solver, groups, 0, groups, suited=True)


def test_the_rate_is_not_blamed_in_the_first_iteration_after_a_resume(solver: SolverSpec) -> None:
    text = on_loss(solver, 500, 500, 1, suited=True)
    assert "no parameter has changed since the resume" in text
    assert "or resume from an earlier checkpoint" in text
    assert "base_lr" not in text
    assert "try a smaller base_lr" in on_loss(solver, 501, 500, 1, suited=True)


def test_the_momentum_of_groups_is_blamed_where_it_is_too_high(solver: SolverSpec) -> None:
    text = on_loss(solver, 9, 0, 4, suited=False)
    assert "4 groups with momentum 0.9 learn as with momentum 0.975" in text
    assert "set train.momentum = 0.6, or take fewer groups" in text
    assert "base_lr" not in text


@pytest.mark.parametrize(("groups", "suited"), [(1, False), (4, True)])
def test_the_momentum_is_not_blamed_where_it_suits_the_groups(
    solver: SolverSpec, groups: int, suited: bool
) -> None:
    assert "try a smaller base_lr" in on_loss(solver, 9, 0, groups, suited=suited)


def test_islands_are_told_of_the_outer_momentum_not_of_their_number(solver: SolverSpec) -> None:
    text = on_loss(solver, 9, 0, 4, suited=False, apart=True)
    assert text.endswith("try a smaller base_lr or train.strategy.options.outer_momentum")
    assert "groups" not in text
