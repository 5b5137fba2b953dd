"""Runs that live at the same time and work in turns: how fast is one compared with another?

All of them train. One is awake while the others are stopped (SIGSTOP for `up` and every process
below it); then the next one is awake. Two runs, one after the other, differ by several per cent:
the machine has other work, and each run happens to lie differently in memory. Turns of a second
remove the first cause. The second one needs several lives: of two runs of CaffeNet with one
cluster.toml, by turns, one was 4 % slower.

A run's speed is its iterations over all its turns, divided by the seconds that it was awake. A run
prints its progress only every so many iterations, so one turn alone means little.
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
SETTLE = 0.02  # seconds until the last line of a run has been read
PARTS = 5  # into which all turns are divided, each with its ratio


@dataclass
class Turns:
    """The iterations and seconds of each turn of one run."""

    iterations: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    @property
    def rate(self) -> float:
        """Iterations a second over all turns."""
        return sum(self.iterations) / sum(self.seconds)

    def parts(self) -> list[float]:
        """The rate of each of PARTS consecutive parts of the turns. Fewer parts if there are fewer
        turns."""
        cuts = [len(self.seconds) * part // PARTS for part in range(PARTS + 1)]
        return [
            sum(self.iterations[low:high]) / sum(self.seconds[low:high])
            for low, high in itertools.pairwise(cuts)
            if high > low
        ]


class Sleeper:
    """A run of `up` that trains without an end, and sleeps between its turns. `checkout`: the tree
    whose `runtime` it runs. `beside`: called while the run is awake, with the seconds of the turn,
    instead of waiting."""

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
        """Let the run work for so many seconds."""
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
        """End the run."""
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
    """Start all runs, and give each `rounds` turns of `seconds`. Raises Gone if one dies."""
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
    """Call `taken` `lives` times, each time with new runs from `start(life)`. The order in which
    they start differs each time."""
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
    """The process `pid` and all its descendants."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parent = int(entry.read_text().rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(entry.parent.name))
    found = [pid]
    for one in found:
        found += children.get(one, [])
    return found
