"""Losses that show that training diverges."""

from __future__ import annotations

import math

import pytest

from roles.coordination.divergence import FIRST, LAST, ROSE, SOON, Divergence


def told(*losses: float) -> list[bool]:
    watched = Divergence()
    return [watched.shows(loss) for loss in losses]


@pytest.mark.parametrize("loss", [math.nan, math.inf, -math.inf])
def test_a_nan_loss_shows_it_at_once(loss: float) -> None:
    assert told(2.3, loss) == [False, True]


def test_ten_times_the_first_losses_in_ten_iterations_show_it_and_a_hard_batch_does_not() -> None:
    assert not any(told(*[2.3] * FIRST, *[87.3, 0.1, 0.1, 0.1, 0.1] * 4))
    stuck = told(*[2.3] * FIRST, *[87.3] * LAST)
    assert stuck.index(True) > FIRST + 1
    assert stuck[-1]
    assert not any(told(*[2.3] * FIRST, *[2.3 * ROSE] * LAST))


def test_losses_of_undone_iterations_do_not_count() -> None:
    watched = Divergence()
    for loss in [2.3] * FIRST + [87.3] * LAST:
        watched.shows(loss)
    watched.forget()
    assert not any(watched.shows(87.3) for _ in range(LAST - 1))
    assert watched.shows(87.3)


def test_it_is_likely_as_soon_as_half_of_the_last_losses_are_far_above_the_first() -> None:
    watched = Divergence()
    # losses of LeNet, as measured
    for loss in [2.4, 2.3, 2.2, 2.0, 2.0, 1.9, 1.8, 1.8, 1.7, 1.6, 0.9, 2.7, 5.6, 4.1]:
        assert not watched.likely
        watched.shows(loss)
    assert watched.likely
    watched.forget()
    assert not any(watched.shows(5.6) or watched.likely for _ in range(SOON - 1))


def test_one_hard_batch_does_not_make_it_likely() -> None:
    watched = Divergence()
    for loss in [2.3] * FIRST + [87.3, 0.1, 0.1, 0.1] * 3:
        watched.shows(loss)
        assert not watched.likely
