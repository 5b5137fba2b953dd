"""Workers that are slower than their peers are named within 20 passes. Workers that only vary are
never named."""

from __future__ import annotations

import random

import pytest

from roles.coordination.stragglers import AGAIN_SECONDS, AWAY, WINDOW, Straggler, Stragglers

WORKERS = ("a", "b", "c", "d")
WITHIN = 20  # passes


def told(
    factors: dict[str, float],
    passes: int,
    sigma: float,
    seed: int = 1,
    cohort: Stragglers | None = None,
) -> list[tuple[int, Straggler]]:
    """The reports about workers whose passes take a second, times their factor, times a random
    factor."""
    chance = random.Random(seed)
    found = cohort or Stragglers()
    news = []
    for number in range(passes):
        for worker, factor in factors.items():
            seconds = factor * chance.lognormvariate(0.0, sigma)
            said = found.seen(worker, 10, seconds, float(number))
            news += [(number + 1, said)] if said is not None else []
    return news


@pytest.mark.parametrize("count", [2, 3, 4])
@pytest.mark.parametrize("times", [2.0, 5.0, 10.0])
def test_a_slow_worker_is_named_within_twenty_passes_and_no_other_is(
    times: float, count: int
) -> None:
    for seed in range(50):
        factors = dict.fromkeys(WORKERS[:count], 1.0) | {"b": times}
        ((at, first), *more) = told(factors, 60, 0.1, seed)
        assert at <= WITHIN and (first.worker, first.slow) == ("b", True)
        assert first.event[1]["times"] == pytest.approx(times, rel=0.25)
        assert more == []


@pytest.mark.parametrize("sigma", [0.05, 0.3])
def test_workers_that_only_vary_are_never_named(sigma: float) -> None:
    assert [told(dict.fromkeys(WORKERS, 1.0), 3000, sigma, seed) for seed in range(5)] == [[]] * 5


def test_one_pass_in_ten_that_takes_ten_times_as_long_names_no_worker() -> None:
    chance = random.Random(2)
    cohort = Stragglers()
    for number in range(5000):
        for worker in WORKERS:
            seconds = 10.0 if chance.random() < 0.1 else 1.0
            assert cohort.seen(worker, 10, seconds, float(number)) is None


def test_one_quick_pass_of_a_peer_that_then_waits_names_no_worker() -> None:
    cohort = Stragglers()
    assert told({"a": 1.0, "b": 1.0}, WINDOW, 0.0, cohort=cohort) == []
    assert told({"b": 0.5}, 1, 0.0, cohort=cohort) == []
    assert told({"a": 1.0}, WITHIN, 0.0, cohort=cohort) == []


def test_a_straggler_that_has_caught_up_is_reported_once_and_not_named_again_at_once() -> None:
    cohort = Stragglers()
    slow = dict.fromkeys(WORKERS, 1.0) | {"b": 3.0}
    even = dict.fromkeys(WORKERS, 1.0)
    assert [said.slow for _, said in told(slow, 20, 0.05, cohort=cohort)] == [True]
    assert cohort.stragglers == ["b"]
    assert [said.slow for _, said in told(even, 20, 0.05, cohort=cohort)] == [False]
    assert told(slow, 20, 0.05, cohort=cohort) == []
    assert AGAIN_SECONDS > 20 > WINDOW
    assert [said.slow for _, said in told(slow, 100, 0.05, cohort=cohort)] == [True]


def test_a_worker_with_more_rows_may_take_longer() -> None:
    cohort = Stragglers()
    for number in range(100):
        assert cohort.seen("a", 2, 2.0, float(number)) is None
        assert cohort.seen("b", 1, 1.0, float(number)) is None


def test_a_worker_that_has_left_is_not_compared() -> None:
    cohort = Stragglers()
    told({"a": 1.0, "b": 1.0, "c": 1.0}, 20, 0.05, cohort=cohort)
    assert told({"d": 9.0, "e": 9.0}, 3 * AWAY, 0.05, cohort=cohort)[-1][1].slow is False, (
        "no worker may stay named when its peers are as slow"
    )
    assert cohort.stragglers == []


@pytest.mark.parametrize(("factor", "news"), [(5.0, []), (1.0, [False])])
def test_a_straggler_that_was_away_is_reported_only_if_it_has_changed(
    factor: float, news: list[bool]
) -> None:
    cohort = Stragglers()
    ((_, first),) = told({"a": 1.0, "b": 1.0, "c": 5.0}, 40, 0.0, cohort=cohort)
    assert (first.worker, first.slow) == ("c", True)
    assert told({"a": 1.0, "b": 1.0}, 3 * AWAY, 0.0, cohort=cohort) == []
    assert cohort.stragglers == []
    back = told({"a": 1.0, "b": 1.0, "c": factor}, 3 * AWAY, 0.0, cohort=cohort)
    assert [(said.worker, said.slow) for _, said in back] == [("c", slow) for slow in news]
