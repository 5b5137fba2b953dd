"""Runs that live beside one another and work in turns: how fast is one, beside another?

All of them train. One is awake, the others are stopped (SIGSTOP, `up` and every process below it);
then the next. Two runs after one another differ by several in a hundred, in what else the machine
does and in how each happens to lie in memory; turns of a second take the first away. What is left
needs several lives: of two runs of CaffeNet with one cluster.toml, by turns, one was 4 % slower.

A run's speed is its iterations over all its turns by the seconds that it was awake: what it says of
itself comes every so many iterations, so that one turn alone says little.
"""

from __future__ import annotations

import itertools
import os
import re
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.helpers.report import ROOT
from benchmarks.helpers.survivor import Survivor, environment

WARM = 3.0  # seconds of a run that do not count
SETTLE = 0.02  # for what a run said last to be read
PARTS = 5  # of all turns, each with a ratio of its own


@dataclass
class Turns:
    """Of one run: iterations and seconds of each."""

    iterations: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    @property
    def rate(self) -> float:
        """Iterations a second, of all turns."""
        return sum(self.iterations) / sum(self.seconds)

    def parts(self) -> list[float]:
        """The rate of each of PARTS that follow one another; of all, where there are fewer
        turns."""
        cuts = [len(self.seconds) * part // PARTS for part in range(PARTS + 1)]
        return [
            sum(self.iterations[low:high]) / sum(self.seconds[low:high])
            for low, high in itertools.pairwise(cuts)
            if high > low
        ]


class Sleeper:
    """A run of `up` that trains without an end, and sleeps between its turns. `checkout`: whose
    `runtime` it is; `beside` is called while it is awake, with the seconds to come, instead of
    waiting."""

    def __init__(
        self,
        cluster: Path,
        checkout: Path = ROOT,
        beside: Callable[[Sleeper, float], None] | None = None,
    ) -> None:
        path = os.pathsep.join([str(checkout), environment()["PYTHONPATH"]])
        self.folder = cluster.parent
        self._beside = beside
        self.turns = Turns()
        self.run = Survivor(cluster, {**os.environ, "PYTHONPATH": path})
        try:
            self.run.at("progress")
            time.sleep(WARM)
        except BaseException:
            self.run.stop()
            raise
        self._pids = below(self.run.process.pid)
        self._signal(signal.SIGSTOP)

    def turn(self, seconds: float) -> None:
        """Be awake for so long."""
        before = self._iterations()
        began = time.monotonic()
        self._signal(signal.SIGCONT)
        if self._beside:
            self._beside(self, seconds)
        time.sleep(max(0.0, began + seconds - time.monotonic()))
        self._signal(signal.SIGSTOP)
        self.turns.seconds.append(time.monotonic() - began)
        time.sleep(SETTLE)
        self.turns.iterations.append(self._iterations() - before)

    def stop(self) -> None:
        """For good."""
        self._signal(signal.SIGCONT)
        self.run.stop()

    def _iterations(self) -> int:
        said = self.run.last(r"progress +iteration \d+")
        return int(re.findall(r"\d+", said)[0])

    def _signal(self, number: signal.Signals) -> None:
        for pid in self._pids:
            with suppress(ProcessLookupError):
                os.kill(pid, number)


def taken(
    runs: Mapping[str, Callable[[], Sleeper]], rounds: int, seconds: float
) -> dict[str, Turns]:
    """Start all of them, and let each have so many turns of so many seconds. `Gone` if one dies."""
    with ExitStack() as ends:
        sleepers: dict[str, Sleeper] = {}
        for name, start in runs.items():
            sleepers[name] = start()
            ends.callback(sleepers[name].stop)
        order: Sequence[Sleeper] = list(sleepers.values())
        for _ in range(rounds):
            for sleeper in order:
                sleeper.turn(seconds)
            order = order[::-1]
        return {name: sleeper.turns for name, sleeper in sleepers.items()}


def taken_in_lives(
    start: Callable[[int], Mapping[str, Callable[[], Sleeper]]],
    lives: int,
    rounds: int,
    seconds: float,
) -> dict[str, Turns]:
    """`taken`, so many times, each with new runs: `start(life)`. They start in another order every
    time."""
    found: dict[str, Turns] = {}
    for life in range(lives):
        runs = list(start(life).items())
        first = life % len(runs)
        for name, turns in taken(dict(runs[first:] + runs[:first]), rounds, seconds).items():
            all_lives = found.setdefault(name, Turns())
            all_lives.iterations += turns.iterations
            all_lives.seconds += turns.seconds
    return found


def below(pid: int) -> list[int]:
    """A process, and all that it and they have started."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parent = int(entry.read_text().rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(entry.parent.name))
    found = [pid]
    for one in found:
        found += children.get(one, [])
    return found
