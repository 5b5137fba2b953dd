"""Wrong predictions: the station whose work differs, and the time at which the error is
reported."""

from __future__ import annotations

from roles.forecasting.prediction_error import (
    AGAIN_SECONDS,
    PATIENCE,
    Patience,
    PredictionError,
    difference,
)


def test_the_station_whose_work_takes_longer_than_predicted_is_named() -> None:
    expected = {"a": 0.010, "b": 0.006, "c": 0.001}
    found = {"a": 0.0105, "b": 0.009, "c": 0.001}
    miss = difference(0.020, 0.0235, expected, found)
    assert (miss.station, miss.expected, miss.found) == ("b", 0.006, 0.009)
    assert miss.why == (
        "an iteration takes 23.5 ms, predicted 20 ms: b works 9 ms of it, predicted 6 ms"
    )


def test_the_station_whose_work_takes_less_is_named_where_iterations_are_faster() -> None:
    miss = difference(2.0, 1.5, {"a": 1.0, "b": 0.5}, {"a": 1.2, "b": 0.1})
    assert miss.why == (
        "an iteration takes 1.5 s, predicted 2 s: b works 100 ms of it, predicted 500 ms"
    )


def test_no_station_is_named_if_no_work_explains_half_of_the_difference() -> None:
    slower = difference(0.020, 0.030, {"a": 0.010}, {"a": 0.0149})
    assert slower.station == ""
    assert "time passes between pieces of work (messages," in slower.why
    faster = difference(0.030, 0.020, {"a": 0.010}, {"a": 0.012})
    assert faster.station == ""
    assert "less time passes between pieces of work" in faster.why


def test_a_difference_counts_only_after_it_has_lasted() -> None:
    patience = Patience()
    assert not patience.lasted(1.0, 1.2, 0.0)
    assert not patience.lasted(1.0, 1.2, PATIENCE - 0.1)
    assert not patience.lasted(1.0, 1.09, PATIENCE)
    assert not patience.lasted(1.0, 1.2, PATIENCE + 0.1)
    assert patience.lasted(1.0, 0.8, 2 * PATIENCE + 0.1)


def test_each_change_of_speed_is_reported_once() -> None:
    patience = Patience()
    assert patience.is_news(PredictionError(1.0, 1.2, "a"), 0.0)
    # the run goes on as it was reported: only the prediction was wrong again, and for any cause
    assert not patience.is_news(PredictionError(1.0, 1.25, "a"), 2 * AGAIN_SECONDS)
    assert not patience.is_news(PredictionError(1.4, 1.2, ""), 2 * AGAIN_SECONDS)
    assert not patience.is_news(PredictionError(1.0, 1.2, "b"), 2 * AGAIN_SECONDS)
    # it recovers, and is slow again: two changes
    assert patience.is_news(PredictionError(1.2, 0.8, "a"), 2 * AGAIN_SECONDS)
    assert patience.is_news(PredictionError(0.8, 1.2, "a"), 2 * AGAIN_SECONDS + 1)


def test_a_run_that_swings_is_reported_once_a_minute() -> None:
    patience = Patience()
    told = [
        patience.is_news(PredictionError(*pair, "a"), 10.0 * at)
        for at, pair in enumerate([(1.0, 1.5), (1.5, 1.0)] * 6)
    ]
    assert told == [True, True, *[False] * 4, True, True, *[False] * 4]
