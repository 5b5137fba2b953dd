"""Agreement of the event model and the mean values with textbook results and with each other.

Sources of the figures: Kleinrock, Queueing Systems I (M/M/1, M/D/1 by Pollaczek and Khinchine, the
finite population M/M/c//N, the closed cyclic network of two queues).
"""

from __future__ import annotations

import math

import pytest

from runtime.queueing.estimates import Estimate, batch_means
from runtime.queueing.event_simulation import Delay, Draw, Model, Visit, exponential
from runtime.queueing.mean_values import Station, solve, solve_classes

CYCLES = 60_000


def wider(estimate: Estimate) -> Estimate:
    """The 99.9 % interval of the estimate: of many intervals of 95 %, one in twenty misses."""
    return Estimate(estimate.mean, estimate.half_width * 3.883 / 2.093)


@pytest.mark.parametrize("load", [0.3, 0.7, 0.9])
@pytest.mark.parametrize("service", ["exponential", "constant"])
def test_the_waiting_time_of_an_open_queue_follows_pollaczek_and_khinchine(
    load: float, service: str
) -> None:
    model = Model(seed=7)
    server = model.station("server")
    seconds: Draw | float = exponential(load) if service == "exponential" else load
    model.arrivals((Visit(server, seconds),), exponential(1.0))
    found = model.run(2 * CYCLES, warm=2_000)
    variation = 1.0 if service == "exponential" else 0.0
    waiting = load * load * (1 + variation) / (2 * (1 - load))
    assert wider(batch_means(found.durations)).holds(waiting + load)
    assert server.busy / found.seconds == pytest.approx(load, rel=0.02)
    # Little's law
    assert server.queued / found.seconds == pytest.approx(
        sum(found.durations) / found.seconds, rel=0.01
    )


def repairman(jobs: int, servers: int, think: float, service: float) -> float:
    """The completions per second of M/M/c//N."""
    ratio = service / think
    weights = [
        math.comb(jobs, n)
        * ratio**n
        * (
            1
            if n <= servers
            else math.factorial(n) / (math.factorial(servers) * servers ** (n - servers))
        )
        for n in range(jobs + 1)
    ]
    away = sum((jobs - n) * weight for n, weight in enumerate(weights)) / sum(weights)
    return away / think


@pytest.mark.parametrize(("jobs", "servers"), [(1, 1), (4, 1), (16, 1), (8, 3), (12, 12)])
def test_machines_and_their_repairmen_match_the_closed_formula(jobs: int, servers: int) -> None:
    exact = repairman(jobs, servers, think=3.0, service=1.0)
    stations = [Station("conv", servers=None), Station("fc", servers=servers)]
    solved = solve(stations, {"conv": 3.0, "fc": 1.0}, jobs)
    assert solved.throughput[""] == pytest.approx(exact, rel=1e-12)
    assert solved.use["fc"] == pytest.approx(exact * 1.0, rel=1e-12)
    model = Model(seed=3)
    fc = model.station("fc", servers)
    for _ in range(jobs):
        model.job((Delay(exponential(3.0)), Visit(fc, exponential(1.0))))
    found = model.run(CYCLES, warm=1_000)
    assert wider(batch_means(found.intervals)).holds(1 / exact)
    assert fc.busy / found.seconds == pytest.approx(solved.use["fc"], rel=0.03)
    assert fc.queued / found.seconds == pytest.approx(solved.waiting["fc"], rel=0.05)


@pytest.mark.parametrize("jobs", [1, 2, 5, 20])
def test_a_closed_network_of_two_queues_matches_the_closed_formula(jobs: int) -> None:
    first = 1.0
    second = 0.8
    ratio = second / first
    exact = (1 - ratio**jobs) / (1 - ratio ** (jobs + 1)) / first
    stations = [Station("first"), Station("second")]
    assert solve(stations, {"first": first, "second": second}, jobs).throughput[
        ""
    ] == pytest.approx(exact, rel=1e-12)
    model = Model(seed=5)
    places = [model.station(name) for name in ("first", "second")]
    for _ in range(jobs):
        model.job(
            tuple(
                Visit(place, exponential(mean))
                for place, mean in zip(places, (first, second), strict=True)
            )
        )
    assert wider(batch_means(model.run(CYCLES, warm=1_000).intervals)).holds(1 / exact)


def test_equal_classes_are_one_class() -> None:
    stations = [Station("conv", servers=None), Station("link"), Station("fc")]
    demands = {"conv": 3.0, "link": 0.5, "fc": 1.0}
    whole = solve(stations, demands, 6)
    parts = solve_classes(
        stations, {"a": demands, "b": demands, "c": demands}, {"a": 1, "b": 2, "c": 3}
    )
    assert sum(parts.throughput.values()) == pytest.approx(whole.throughput[""], rel=1e-12)
    assert parts.throughput["c"] == pytest.approx(3 * parts.throughput["a"], rel=1e-12)
    for station in stations:
        assert parts.waiting[station.name] == pytest.approx(whole.waiting[station.name], rel=1e-12)
        assert parts.use[station.name] == pytest.approx(whole.use[station.name], rel=1e-12)


def test_groups_of_unequal_devices() -> None:
    think = {"fast": 1.0, "slow": 4.0}
    jobs = {"fast": 2, "slow": 3}
    stations = [Station("conv", servers=None), Station("fc")]
    solved = solve_classes(
        stations, {name: {"conv": seconds, "fc": 0.5} for name, seconds in think.items()}, jobs
    )
    model = Model(seed=11)
    fc = model.station("fc")
    made = {
        model.job((Delay(exponential(think[name])), Visit(fc, exponential(0.5)))): name
        for name, count in jobs.items()
        for _ in range(count)
    }
    found = model.run(CYCLES, warm=1_000)
    for name in jobs:
        done = sum(made[job] == name for job in found.jobs) / found.seconds
        assert done == pytest.approx(solved.throughput[name], rel=0.02)
    assert wider(batch_means(found.intervals)).holds(solved.cycle_seconds)


def test_the_waiting_time_without_spread_approaches_that_of_an_open_queue() -> None:
    """With many jobs that think long, the arrivals are nearly Poisson. The mean values without
    spread then come near M/D/1.
    """
    jobs = 400
    load = 0.7
    stations = [Station("conv", servers=None), Station("fc", variation=0.0)]
    solved = solve(stations, {"conv": jobs / load - 1.0, "fc": 1.0}, jobs)
    waiting = load * load / (2 * (1 - load))
    assert solved.waiting["fc"] == pytest.approx(waiting + load, rel=0.05)
