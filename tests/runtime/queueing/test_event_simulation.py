"""The event model itself: it repeats, it refuses impossible networks, and it handles large ones."""

from __future__ import annotations

import pytest

from runtime.queueing.estimates import batch_means
from runtime.queueing.event_simulation import (
    Delay,
    Measured,
    Model,
    Together,
    Visit,
    exponential,
    gamma,
)
from runtime.queueing.mean_values import Station, solve, solve_classes


def groups(seed: int, g: int, k: int, cycles: int) -> Measured:
    """g groups of k machines: they pull over the group's link, compute, push, and meet at one FC
    server.
    """
    model = Model(seed)
    fc = model.station("fc")
    for _ in range(g):
        link = model.station("link")
        workers = tuple(
            (Visit(link, 0.001), Delay(gamma(1.0, 0.0036)), Visit(link, 0.001)) for _ in range(k)
        )
        model.job((Together(workers), Visit(fc, 0.005)))
    return model.run(cycles, warm=g)


def test_a_seed_repeats_the_run_and_another_seed_changes_it() -> None:
    assert groups(1, 4, 5, 50) == groups(1, 4, 5, 50)
    assert groups(1, 4, 5, 50) != groups(2, 4, 5, 50)


def test_ten_thousand_machines_are_simulated() -> None:
    found = groups(1, 100, 100, 300)
    assert sorted({*found.jobs}) == list(range(100))
    # each waits for the slowest of a hundred (6 % of spread), and its link carries a hundred copies
    # before and after
    assert 1.1 < sum(found.durations) / len(found.durations) < 1.5


def test_a_group_waits_for_its_slowest_machine() -> None:
    model = Model()
    model.job((Together(((Delay(1.0),), (Delay(2.0), Delay(1.0)), (Delay(2.5),))),))
    assert model.run(3).ends == [3.0, 6.0, 9.0]


def test_a_job_still_in_service_at_the_end_counts() -> None:
    model = Model()
    busy = model.station("busy")
    short = model.station("short")
    model.job((Visit(busy, 100.0),))
    model.job((Visit(short, 1.0), Delay(1.0)))
    found = model.run(5)
    assert found.seconds == 10.0
    assert (busy.busy, busy.queued, busy.served) == (10.0, 10.0, 0)
    assert (short.busy, short.served) == (5.0, 5)


def test_jobs_are_served_in_the_order_of_arrival_by_any_free_server() -> None:
    model = Model()
    pair = model.station("pair", servers=2)
    for seconds in (3.0, 5.0, 1.0):
        model.job((Visit(pair, seconds),))
    found = model.run(3)
    assert list(zip(found.ends, found.jobs, strict=True)) == [(3.0, 0), (4.0, 2), (5.0, 1)]


def test_a_model_without_jobs_is_an_error() -> None:
    with pytest.raises(ValueError, match="no job goes round"):
        Model().run(1)
    with pytest.raises(ValueError, match="station 'fc': found 0 servers"):
        Model().station("fc", 0)


def test_a_mean_of_few_values_has_no_confidence() -> None:
    with pytest.raises(ValueError, match="found 19 values, expected 20 at least"):
        batch_means([1.0] * 19)


@pytest.mark.parametrize(
    ("demands", "jobs", "said"),
    [
        ({"a": {"fc": -1.0}}, {"a": 1}, "expected finite demands >= 0"),
        ({"a": {"fc": 0.0}}, {"a": 1}, "at least one of them > 0"),
        ({"a": {"conv": 1.0}}, {"a": 1}, r"found demands at \['conv'\], expected them at \['fc'\]"),
        ({"a": {"fc": 1.0}}, {"a": 0}, "found 0 jobs"),
        ({"a": {"fc": 1.0}}, {}, "every class needs demands and jobs"),
        (
            {str(n): {"fc": 1.0} for n in range(24)},
            {str(n): 1 for n in range(24)},
            "too many combinations",
        ),
    ],
)
def test_invalid_networks_are_refused(demands, jobs, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        solve_classes([Station("fc")], demands, jobs)


def test_invalid_stations_are_refused() -> None:
    with pytest.raises(ValueError, match="two stations have one name"):
        solve([Station("fc"), Station("fc")], {"fc": 1.0}, 1)
    with pytest.raises(ValueError, match="expected servers >= 1"):
        solve([Station("fc", servers=0)], {"fc": 1.0}, 1)
    with pytest.raises(ValueError, match="several servers"):
        solve_classes([Station("fc", servers=2)], {"a": {"fc": 1.0}}, {"a": 1})


def test_exponential_times_have_no_memory() -> None:
    model = Model(seed=4)
    model.job((Delay(exponential(2.0)),))
    durations = model.run(40_000).durations
    over = [value for value in durations if value > 3.0]
    assert sum(durations) / len(durations) == pytest.approx(2.0, rel=0.03)
    assert sum(over) / len(over) - 3.0 == pytest.approx(2.0, rel=0.05)
