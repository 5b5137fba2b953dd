"""Islands that come and go at drawn times, as the benchmark lets them: each sample is in the outer
model once, and no run hangs."""

from __future__ import annotations

import pytest

from benchmarks.islands.attendance import BACK, EVENTS, KINDS, PERIOD, trial_of


def test_each_sample_is_once_in_the_model_after_a_few_events() -> None:
    trial = trial_of(6, seed=1)
    assert not trial.hung
    assert trial.done.total() == 6
    assert trial.exact


@pytest.mark.slow
@pytest.mark.parametrize("seed", [2, 3])
def test_each_sample_is_once_in_the_model_whatever_islands_do(seed: int) -> None:
    trial = trial_of(EVENTS // 8, seed=seed)
    assert not trial.hung
    assert set(trial.done) <= set(KINDS)
    assert len(trial.done) > 3
    assert trial.exact


def test_an_outer_server_that_dies_goes_on_soon_and_loses_no_sample() -> None:
    trial = trial_of(3, seed=1, outer=True)
    assert not trial.hung
    assert trial.exact
    assert len(trial.ledger.lost) == 3
    assert max(trial.ledger.lost) <= PERIOD
    assert max(trial.back()) <= BACK
