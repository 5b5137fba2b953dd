"""A simulation of a cluster, event by event: jobs go round over stations and links, split and join
again.

A job is a compute group. Its `route` is one iteration, done again and again. A step of a route is a
visit to a station (a device, a server, a link: first come, first served), a delay (no job waits for
another), or several routes at once that are all waited for (a group's workers). Times are numbers,
or drawn at each visit. Two runs with the same seed are the same run. An event takes about two
microseconds, so 10 000 machines go through tens of iterations in seconds.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

Draw = Callable[[random.Random], float]
Seconds = float | Draw


def exponential(mean: float) -> Draw:
    """Return exponential times, which have no memory: the assumption of Omnivore's theorem 1, and
    of M/M/1."""
    return lambda chance: chance.expovariate(1.0 / mean)


def gamma(mean: float, variation: float) -> Draw:
    """Return times with any spread. `variation` is the squared coefficient of variation, more than
    0."""
    return lambda chance: chance.gammavariate(1.0 / variation, mean * variation)


class Station:
    """A station that serves `servers` jobs at once. Other jobs wait in order of arrival.

    It measures from the end of the warm-up: `busy` (server-seconds), `queued` (job-seconds of
    waiting and service) and `served` (jobs).
    """

    def __init__(self, name: str, servers: int) -> None:
        self.name = name
        self.servers = servers
        # a heap of the times when each server is free, so a job knows on arrival when it will leave
        self.free = [0.0] * servers
        self.clear(0.0)

    def clear(self, now: float) -> None:
        """Measure from now on."""
        self.busy = self.queued = 0.0
        self.served = 0
        self.since = now

    def serve(self, now: float, seconds: float) -> tuple[float, float]:
        """Take a job that arrives `now`. Return when its service begins and when it ends."""
        begins = max(now, self.free[0])
        heapq.heapreplace(self.free, begins + seconds)
        return begins, begins + seconds

    def count(self, arrived: float, begins: float, until: float) -> None:
        """Count a job that arrived, was in service from `begins` on, and left or is still there at
        `until`."""
        self.busy += max(0.0, until - max(begins, self.since))
        self.queued += until - max(arrived, self.since)


@dataclass(frozen=True)
class Visit:
    """A step: be served at a station for some time."""

    station: Station
    seconds: Seconds


@dataclass(frozen=True)
class Delay:
    """A step: take some time, independently of other jobs."""

    seconds: Seconds


@dataclass(frozen=True)
class Together:
    """A step: go all these routes at once. The last route to end ends the step."""

    routes: tuple[Route, ...]


_Visiting = tuple[Station, float, float]
Step = Visit | Delay | Together
Route = tuple[Step, ...]


class _Token:
    """A job on its route, or one part of a split job. `whole` is the job that waits until `missing`
    parts have arrived."""

    __slots__ = ("at", "began", "job", "missing", "route", "whole")

    def __init__(self, route: Route, job: int, whole: _Token | None) -> None:
        self.route = route
        self.job = job
        self.whole = whole
        self.at = self.missing = 0
        self.began = 0.0


@dataclass(frozen=True)
class Measured:
    """The measurements after the warm-up: the `seconds` that passed; for each cycle its end in
    `ends` (from 0), its job, and its duration."""

    seconds: float
    ends: Sequence[float]
    jobs: Sequence[int]
    durations: Sequence[float]

    @property
    def cycle_seconds(self) -> float:
        """The mean seconds between two ends: seconds per iteration."""
        return self.seconds / len(self.ends)

    @property
    def intervals(self) -> list[float]:
        """The seconds between two ends, one after the other."""
        return [after - before for before, after in zip((0.0, *self.ends), self.ends, strict=False)]


class Model:
    """Jobs and their routes.

    In a closed model each `job` goes round for ever. In an open model `arrivals` come, go one
    route, and leave.
    """

    def __init__(self, seed: int = 1) -> None:
        self._chance = random.Random(seed)  # noqa: S311  # a simulation
        self._now = 0.0
        self._number = 0
        # (time, number, function to call with the token, the token, the visit that ends: station,
        # time of arrival, start of service)
        self._events: list[
            tuple[float, int, Callable[[_Token], None], _Token, _Visiting | None]
        ] = []
        self._stations: list[Station] = []
        self._jobs = 0
        self._ends: list[float] = []
        self._who: list[int] = []
        self._durations: list[float] = []

    def station(self, name: str, servers: int = 1) -> Station:
        """Make a new station. Raises ValueError if `servers` is less than 1."""
        if servers < 1:
            raise ValueError(f"station '{name}': found {servers} servers, expected one at least")
        made = Station(name, servers)
        self._stations.append(made)
        return made

    def job(self, route: Sequence[Step], begins: float = 0.0) -> int:
        """Add a job that goes round on a route from `begins` on. Return its number."""
        token = _Token(tuple(route), self._jobs, None)
        self._jobs += 1
        self._at(begins, self._start, token)
        return token.job

    def arrivals(self, route: Sequence[Step], interval: Seconds) -> int:
        """Add jobs that come one after another, go the route once and leave. Return the number
        under which they are measured."""
        number = self._jobs
        steps = tuple(route)
        self._jobs += 1

        def come(door: _Token) -> None:
            # a negative number: the job leaves at its end
            self._start(_Token(steps, ~number, None))
            self._at(self._now + self._drawn(interval), come, door)

        self._at(self._drawn(interval), come, _Token((), number, None))
        return number

    def run(self, cycles: int, warm: int = 0) -> Measured:
        """Run until `cycles` cycles have ended, after `warm` cycles that are not measured. Raises
        ValueError if no cycle can ever end."""
        self._until(warm)
        began = self._now
        for series in (self._ends, self._who, self._durations):
            series.clear()
        for station in self._stations:
            station.clear(began)
        self._until(cycles)
        for *_, visiting in self._events:  # jobs that are still at a station
            if visiting is not None:
                station, arrived, begins = visiting
                station.count(arrived, begins, self._now)
        ends = [end - began for end in self._ends]
        return Measured(self._now - began, ends, list(self._who), list(self._durations))

    def _until(self, cycles: int) -> None:
        events = self._events
        ends = self._ends
        while len(ends) < cycles:
            if not events:
                raise ValueError("no job goes round in this model")
            self._now, _, happens, token, visiting = heapq.heappop(events)
            if visiting is not None:
                station, arrived, begins = visiting
                station.count(arrived, begins, self._now)
                station.served += 1
            happens(token)

    def _at(
        self,
        time: float,
        happens: Callable[[_Token], None],
        token: _Token,
        visiting: _Visiting | None = None,
    ) -> None:
        self._number += 1  # of two events at the same moment, the older one comes first
        heapq.heappush(self._events, (time, self._number, happens, token, visiting))

    def _drawn(self, seconds: Seconds) -> float:
        return seconds(self._chance) if callable(seconds) else seconds

    def _start(self, token: _Token) -> None:
        token.began = self._now
        token.at = 0
        self._go(token)

    def _go(self, token: _Token) -> None:
        """Begin the step that the token has reached."""
        if token.at == len(token.route):
            self._end(token)
            return
        step = token.route[token.at]
        if isinstance(step, Visit):
            begins, leaves = step.station.serve(self._now, self._drawn(step.seconds))
            self._at(leaves, self._next, token, (step.station, self._now, begins))
        elif isinstance(step, Delay):
            self._at(self._now + self._drawn(step.seconds), self._next, token)
        else:
            token.missing = len(step.routes)
            for route in step.routes:
                self._start(_Token(route, token.job, token))

    def _next(self, token: _Token) -> None:
        token.at += 1
        self._go(token)

    def _end(self, token: _Token) -> None:
        whole = token.whole
        if whole is not None:
            whole.missing -= 1
            if not whole.missing:
                self._next(whole)
            return
        self._ends.append(self._now)
        self._who.append(token.job if token.job >= 0 else ~token.job)
        self._durations.append(self._now - token.began)
        if token.job >= 0:
            self._at(
                self._now, self._start, token
            )  # not at once: a route that takes no time would call itself for ever
