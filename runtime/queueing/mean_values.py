"""Mean value analysis of closed networks of queues: throughput, waiting and use of every station,
without a simulation.

A job is a compute group. It is always somewhere: computing, or waiting or being served at a station
(the FC server, a link). Source: Reiser and Lavenberg, "Mean-value analysis of closed multichain
queuing networks", JACM 27 (1980).

The analysis is exact in two cases. Either stations serve in order of arrival with exponential
times, equal for all classes. Or service is shared (PS) or no job waits; then any order and any
spread are allowed. A `variation` other than 1 is the approximation named at `Station`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Station:
    """A station where `servers` jobs are served at once. None: as many servers as jobs, so no job
    waits.

    `variation` is the squared coefficient of variation of a service time (0: no spread, 1:
    exponential). A job that arrives finds the job in service with (1 + variation) / 2 of its time
    to go. This is exact for M/G/1, and an approximation here (Reiser 1979).
    """

    name: str
    servers: int | None = 1
    variation: float = 1.0


@dataclass(frozen=True)
class Solution:
    """The solution of a network.

    - `throughput`: cycles per second, for each class.
    - `use`: mean number of busy servers, for each station.
    - `waiting`: mean number of jobs at each station, in service or not.
    - `seconds`: seconds of a cycle spent at a station, for each class and station.
    """

    throughput: Mapping[str, float]
    use: Mapping[str, float]
    waiting: Mapping[str, float]
    seconds: Mapping[tuple[str, str], float] = field(repr=False)

    @property
    def cycle_seconds(self) -> float:
        """The mean seconds between two cycles of any class: seconds per iteration."""
        return 1.0 / sum(self.throughput.values())


def solve(stations: Sequence[Station], demands: Mapping[str, float], jobs: int) -> Solution:
    """Solve a network with `jobs` equal jobs.

    `demands`: the seconds of service that a cycle needs at each station. Exact for one class, also
    where a station has several servers (marginal probabilities). Raises ValueError if the demands
    are not valid.
    """
    _check(stations, {"": demands}, {"": jobs})
    waiting = dict.fromkeys(demands, 0.0)
    # P(n jobs at the station)
    busy = {station.name: [1.0] + [0.0] * ((station.servers or 1) - 1) for station in stations}
    throughput = 0.0
    use = dict.fromkeys(demands, 0.0)
    seconds = dict.fromkeys(demands, 0.0)
    for population in range(1, jobs + 1):
        for station in stations:
            seconds[station.name] = _residence(station, demands[station.name], waiting, use, busy)
        throughput = population / sum(seconds.values()) if any(seconds.values()) else math.inf
        for station in stations:
            name = station.name
            demand = demands[station.name]
            waiting[name], use[name] = throughput * seconds[name], throughput * demand
            if station.servers and station.servers > 1:
                busy[name] = _marginal(busy[name], station.servers, use[name], population)
    return Solution(
        {"": throughput}, use, waiting, {("", name): value for name, value in seconds.items()}
    )


def solve_classes(
    stations: Sequence[Station], demands: Mapping[str, Mapping[str, float]], jobs: Mapping[str, int]
) -> Solution:
    """Solve a network with several classes of jobs, such as groups of unequal devices.

    `demands` and `jobs` are given per class. Every station has one server, or serves all jobs at
    once. Exact. The work is the product of all (jobs + 1), which may be at most 2 ** 20. Raises
    ValueError.
    """
    _check(stations, demands, jobs)
    if math.prod(count + 1 for count in jobs.values()) > 1 << 20:
        raise ValueError(
            "too many combinations of jobs for exact mean values: use a simulation (events)"
        )
    if any(station.servers not in (1, None) for station in stations):
        raise ValueError(
            "no exact mean values for several classes at a station with several servers"
        )
    classes = list(jobs)
    queues: dict[tuple[int, ...], dict[str, float]] = {
        tuple(0 for _ in classes): {s.name: 0.0 for s in stations}
    }
    uses: dict[tuple[int, ...], dict[str, float]] = {
        tuple(0 for _ in classes): {s.name: 0.0 for s in stations}
    }
    throughput: dict[str, float] = {}
    seconds: dict[tuple[str, str], float] = {}
    for population in itertools.product(*(range(jobs[name] + 1) for name in classes)):
        if not any(population):
            continue
        throughput = {}
        seconds = {}
        for place, (name, count) in enumerate(zip(classes, population, strict=True)):
            if not count:
                continue
            fewer = (*population[:place], count - 1, *population[place + 1 :])
            for station in stations:
                demand = demands[name][station.name]
                seconds[name, station.name] = _found(station, demand, queues[fewer], uses[fewer])
            throughput[name] = count / sum(seconds[name, station.name] for station in stations)
        rates = {
            s.name: [(throughput[n], seconds[n, s.name], demands[n][s.name]) for n in throughput]
            for s in stations
        }
        queues[population] = {
            s.name: sum(rate * spent for rate, spent, _ in rates[s.name]) for s in stations
        }
        uses[population] = {
            s.name: sum(rate * demand for rate, _, demand in rates[s.name]) for s in stations
        }
    last = tuple(jobs.values())
    return Solution(throughput, uses[last], queues[last], seconds)


def _check(
    stations: Sequence[Station], demands: Mapping[str, Mapping[str, float]], jobs: Mapping[str, int]
) -> None:
    names = {station.name for station in stations}
    if len(names) < len(stations):
        raise ValueError("two stations have one name")
    if demands.keys() != jobs.keys():
        raise ValueError("every class needs demands and jobs")
    for name, wanted in demands.items():
        if wanted.keys() != names:
            raise ValueError(
                f"class '{name}': found demands at {sorted(wanted)}, expected "
                f"them at {sorted(names)}"
            )
        if any(not math.isfinite(value) or value < 0 for value in wanted.values()) or not any(
            wanted.values()
        ):
            raise ValueError(
                f"class '{name}': expected finite demands >= 0 seconds, at least one of them > 0"
            )
        if jobs[name] < 0 or not any(jobs.values()):
            raise ValueError(
                f"class '{name}': found {jobs[name]} jobs, expected a number >= "
                "0, and one job at least"
            )
    for station in stations:
        if (station.servers is not None and station.servers < 1) or station.variation < 0:
            raise ValueError(
                f"station '{station.name}': expected servers >= 1 and a variation >= 0"
            )


def _found(
    station: Station, demand: float, waiting: Mapping[str, float], use: Mapping[str, float]
) -> float:
    """Return the seconds that a job spends at a station with one server.

    They are its own service, the service of the jobs that it finds waiting, and the rest of the job
    in service. On average an arriving job finds the state of a network with one job less (the
    arrival theorem).
    """
    if station.servers is None:
        return demand
    in_service = use[station.name]
    queue = waiting[station.name] - in_service
    return demand * (1.0 + queue + in_service * (1.0 + station.variation) / 2.0)


def _residence(
    station: Station,
    demand: float,
    waiting: Mapping[str, float],
    use: Mapping[str, float],
    busy: Mapping[str, Sequence[float]],
) -> float:
    """Return the same as `_found` for several servers: a job that finds a free server does not
    wait."""
    servers = station.servers
    if servers is None or servers == 1:
        return _found(station, demand, waiting, use)
    free = sum(
        (servers - count - 1) * share
        for count, share in enumerate(busy[station.name][: servers - 1])
    )
    return demand / servers * (1.0 + waiting[station.name] + free)


def _marginal(before: Sequence[float], servers: int, use: float, population: int) -> list[float]:
    """Return P(n jobs at the station) for n < servers, with one more job in the network than
    `before`."""
    found = [0.0] * servers
    for count in range(1, min(servers, population + 1)):
        found[count] = use / count * before[count - 1]
    free = sum((servers - count) * share for count, share in enumerate(found) if count)
    found[0] = max(0.0, 1.0 - (use + free) / servers)
    return found
