"""Service times, the durations of array work: a table of measured times or of distributions, and
the recorder that makes such a table.

A profile is a JSON table. Its keys are "WHO/LABEL", patterns as in file names. WHO is a role or an
actor, LABEL the label of the work. The first key that fits counts. Its values are

    0.004                                         always 0.004 seconds
    [0.0041, 0.0039, ...]                         one of these, drawn at random each time
    {"mean": 0.004, "cv": 0.2, "law": "gamma"}    drawn from a distribution ("lognormal" if no law
                                                  is named)
    {"seconds": [...], "rows": 32}                measured on 32 rows: work on more rows takes
                                                  longer in proportion
    {"mean": ..., "rows": 32}

With the same seed, each actor gets the same times for each label, independently of other actors.
"""

from __future__ import annotations

import fnmatch
import json
import math
import shutil
from collections import defaultdict, deque
from collections.abc import Mapping
from pathlib import Path
from random import Random
from statistics import fmean, pvariance
from typing import Any

from runtime.errors import ConfigError, ProgramFailed
from runtime.machine.private_files import replace
from runtime.reasons import reason
from runtime.regular import read_bytes
from runtime.suggest import hint

LAWS = ("lognormal", "gamma")
KEYS = ("seconds", "mean", "cv", "law", "rows")
# numbers that are not 0: predictions divide by them, and by their squares
RANGES = {"seconds": (1e-12, 1e15), "mean": (1e-12, 1e15), "cv": (1e-6, 1e3), "rows": (1, 1e9)}
FILE = "service-times.json"  # in a run directory
PARTS = "service-times"  # a folder in the run directory, until all processes have ended
MOST_BYTES = 64 << 20  # of a profile file
RECORDED = 4096  # durations kept per role and label: the last ones


class Times:
    """One entry of a profile. Raises ValueError with the mistake if the value is not valid."""

    def __init__(self, value: Any) -> None:
        table = (
            value
            if isinstance(value, dict)
            else {"seconds": value if isinstance(value, list) else [value]}
        )
        for key in table.keys() - set(KEYS):
            raise ValueError(f"unknown key '{key}'{hint(key, KEYS)}")
        if ("seconds" in table) == ("mean" in table):
            raise ValueError("expected either 'seconds' or 'mean'")
        self.seconds = _numbers(table.get("seconds", [0.0]), "seconds")
        (self.mean,) = _numbers([table.get("mean", 0.0)], "mean")
        (self.cv,) = _numbers([table.get("cv", 0.0)], "cv")
        (self.rows,) = _numbers([table.get("rows", 0)], "rows")
        self.law = table.get("law", LAWS[0])
        self._measured = "seconds" in table
        if self.law not in LAWS:
            raise ValueError(
                f"law: found {self.law!r}, expected one of "
                f"{', '.join(LAWS)}{hint(str(self.law), LAWS)}"
            )

    def moments(self, rows: int) -> tuple[float, float]:
        """Return the mean of `draw`, and its squared coefficient of variation."""
        share = rows / self.rows if rows and self.rows else 1.0
        if not self._measured:
            return share * self.mean, self.cv**2
        mean = fmean(self.seconds)
        return share * mean, pvariance(self.seconds, mean) / mean**2 if mean else 0.0

    def draw(self, random: Random, rows: int) -> float:
        """Draw the seconds of one piece of work on `rows` rows. 0 rows: unknown, so as many as were
        measured."""
        share = rows / self.rows if rows and self.rows else 1.0
        return share * (random.choice(self.seconds) if self._measured else self._drawn(random))

    def _drawn(self, random: Random) -> float:
        if not self.cv or not self.mean:
            return self.mean
        square = self.cv**2
        if self.law == "gamma":
            return random.gammavariate(1 / square, self.mean * square)
        spread = math.log1p(square)
        return random.lognormvariate(math.log(self.mean) - spread / 2, math.sqrt(spread))


class ServiceTimes:
    """A profile with a seed for its draws. Raises ConfigError with every mistake of the table, each
    with its key."""

    def __init__(self, table: Mapping[str, Any], seed: int, where: str = "service times") -> None:
        self._where = where
        self._seed = seed
        self._times: dict[str, Times] = {}
        self._found: dict[tuple[str, str], tuple[Times, Random]] = {}
        problems = []
        for key, value in table.items():
            if "/" not in key:
                problems.append(
                    f"{where}: '{key}': expected WHO/LABEL, such as 'conv_compute/forward *'"
                )
                continue
            try:
                self._times[key] = Times(value)
            except ValueError as error:
                problems.append(f"{where}: '{key}': {error}")
        if problems:
            raise ConfigError(problems)

    def __repr__(self) -> str:
        return f"<service times of {self._where}, {len(self._times)} entries, seed {self._seed}>"

    @staticmethod
    def read(path: Path, seed: int) -> ServiceTimes:
        """Read a profile from its file. Raises ConfigError if the file cannot be read or has
        mistakes."""
        return ServiceTimes(read_table(path), seed, str(path))

    def seconds(self, actor: str, role: str, label: str, rows: int = 0) -> float:
        """Return the seconds of the actor's next piece of work with this label. Raises
        ProgramFailed if no entry fits."""
        if (actor, label) not in self._found:
            random = Random(f"{self._seed}/{actor}/{label}")  # noqa: S311  # no secret is made of it
            self._found[actor, label] = self.of(actor, role, label), random
        times, random = self._found[actor, label]
        return times.draw(random, rows)

    def of(self, actor: str, role: str, label: str) -> Times:
        """Return the first entry that fits the actor's work with this label. Raises ProgramFailed
        if none does."""
        for key, times in self._times.items():
            who, _, what = key.partition("/")
            if fnmatch.fnmatchcase(label, what) and (
                fnmatch.fnmatchcase(role, who) or fnmatch.fnmatchcase(actor, who)
            ):
                return times
        text = (
            f"no entry fits '{role}/{label}' (actor {actor}); with '*/*': 0 all other work "
            "takes no time"
        )
        raise ProgramFailed(f"{self._where}: {text}")


class Recorder:
    """Durations of array work by role and label, which make a profile of measured times."""

    def __init__(self) -> None:
        self._taken: defaultdict[str, deque[float]] = defaultdict(lambda: deque(maxlen=RECORDED))

    def note(self, role: str, label: str, seconds: float) -> None:
        """Add the seconds of one piece of work."""
        self._taken[f"{role}/{label}"].append(round(seconds, 9))

    def table(self) -> dict[str, list[float]]:
        """Return the profile."""
        return {key: list(taken) for key, taken in sorted(self._taken.items())}

    def leave(self, directory: Path, process: str) -> None:
        """Write the profile of one process into a run directory, for `gather`."""
        (directory / PARTS).mkdir(mode=0o700, exist_ok=True)
        replace(directory / PARTS / f"{process}.json", json.dumps(self.table()).encode())


def gather(directory: Path) -> dict[str, list[float]]:
    """Join the profiles that the processes of a run have written into its directory, and remove
    these files."""
    found: defaultdict[str, list[float]] = defaultdict(list)
    for path in sorted((directory / PARTS).glob("*.json")):
        for key, seconds in read_table(path).items():
            found[key] += seconds
    shutil.rmtree(directory / PARTS, ignore_errors=True)
    return dict(sorted(found.items()))


def as_text(table: Mapping[str, Any]) -> str:
    """Return a profile as the text of its file, with one entry per line."""
    return (
        "{\n"
        + ",\n".join((f" {json.dumps(key)}: {json.dumps(value)}") for key, value in table.items())
        + "\n}\n"
    )


def read_table(path: Path) -> dict[str, Any]:
    """Read the table of a profile. Raises ConfigError if the file cannot be read or holds no
    table."""
    try:
        table = json.loads(read_bytes(path, MOST_BYTES))
    except OSError as error:
        raise ConfigError([f"{path}: service times cannot be read: {reason(error)}"]) from None
    except (ValueError, RecursionError) as error:
        raise ConfigError([f"{path}: service times are not valid JSON: {error}"]) from None
    if not isinstance(table, dict):
        raise ConfigError(
            [(f"{path}: found {type(table).__name__}, expected a JSON table of service times")]
        )
    return table


def _numbers(values: Any, key: str) -> list[float]:
    if not isinstance(values, list) or not values:
        raise ValueError(f"{key}: found {values!r}, expected numbers >= 0")
    for value in values:
        if (
            isinstance(value, bool)
            or not isinstance(value, int | float)
            or not 0 <= value < math.inf
        ):
            raise ValueError(f"{key}: found {value!r}, expected a finite number >= 0")
        low, high = RANGES[key]
        if value and not low <= value <= high:
            raise ValueError(f"{key}: found {value!r}, expected 0 or {low:g} to {high:g}")
    return [float(value) for value in values]
