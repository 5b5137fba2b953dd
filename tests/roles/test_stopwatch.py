"""The length of a trial and its result, from made-up progress reports."""

from __future__ import annotations

import pytest

from roles.choosing.stopwatch import Stopwatch, apart


def told(watch: Stopwatch, second: float, every: int, most: int = 10_000, cold: float = 0.0) -> int:
    """Report iterations of `second` seconds now and then. The first ten take `cold` seconds longer.
    Returns the iterations until the watch had enough."""
    for done in [1, *range(every, most, every)]:
        now = done * second + min(done, 10) * cold
        if watch.heard("progress", {"iteration": done}, now):
            return done
    return most


def test_an_iteration_of_milliseconds_is_measured_for_a_second() -> None:
    watch = Stopwatch()
    done = told(watch, 0.005, every=20)
    assert watch.seconds == pytest.approx(0.005)
    assert 1.0 <= watch.iterations * 0.005 < 1.2
    assert done < 340


def test_an_iteration_of_a_second_is_measured_for_three() -> None:
    watch = Stopwatch()
    assert told(watch, 1.0, every=1) == 4
    assert (watch.seconds, watch.iterations) == (1.0, 3)


def test_iterations_slowed_by_cold_caches_do_not_count() -> None:
    watch = Stopwatch()
    told(watch, 0.02, every=5, cold=0.2)
    assert watch.seconds == pytest.approx(0.02)


def test_iterations_that_take_no_time_are_not_measured_for_ever() -> None:
    watch = Stopwatch()
    assert told(watch, 0.0, every=10) <= 1000
    assert watch.seconds == 0.0


def test_a_single_report_and_other_events_give_no_time() -> None:
    watch = Stopwatch()
    assert not watch.heard("test", {"iteration": 0}, 1.0)
    assert not watch.heard("progress", {"iteration": 1}, 2.0)
    assert watch.seconds is None


def test_a_resumed_run_counts_from_its_first_iteration() -> None:
    watch = Stopwatch()
    for done in (501, 502, 504):
        watch.heard("progress", {"iteration": done}, done * 0.1)
    assert (watch.seconds, watch.iterations) == (pytest.approx(0.1), 3)


@pytest.mark.parametrize(
    ("predicted", "iterations", "every"),
    [(0.005, 1000, 50), (2.0, 1000, 1), (0.0001, 1000, 100), (0.005, 20, 5)],
)
def test_reports_come_a_quarter_of_a_second_apart_and_at_least_four_in_a_run(
    predicted: float, iterations: int, every: int
) -> None:
    assert apart(predicted, iterations) == every
