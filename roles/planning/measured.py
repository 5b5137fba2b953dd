"""How long an iteration of a run took, from its run directory: to stand beside a prediction."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from roles.learning.scoreboard import HELD, RELEASED
from roles.options import AUTO, Options
from roles.planning.strategies import preset_called
from runtime.config.file import load, program_options
from runtime.errors import ConfigError
from runtime.regular import read_bytes

MOST_BYTES = 1 << 28  # of events.jsonl
LEAST = 3  # progress reports
STRETCHES = 10
Report = tuple[float, int]  # seconds, iterations that had ended by then


def options_of_run(directory: Path) -> Options | None:
    """What was asked of the run with this directory; None if it is none. ConfigError if its config.toml is broken."""
    file = directory / "config.toml"
    if not ((directory / "events.jsonl").is_file() and file.is_file()):
        return None
    return program_options(load(file), Options)


def measured(runs: Iterable[Path], options: Options) -> Iterator[tuple[int, float]]:
    """(groups, seconds per iteration) of each run directory; several of one whose groups were changed while it went on.
    ConfigError if one is none, or of another net, batch or number of workers than `options`."""
    for run in runs:
        theirs = options_of_run(run)
        if theirs is None:
            raise ConfigError([f"--measured {run}: no run directory: it has no config.toml and events.jsonl"])
        for key, mine, found in (
            ("train.net", options.train.net, theirs.train.net),
            ("train.batch", options.train.batch, theirs.train.batch),
            ("train.strategy.workers", options.train.strategy.workers, theirs.train.strategy.workers),
        ):
            if mine != found:
                raise ConfigError([f"--measured {run}: {key}: found {found!r}, expected this plan's {mine!r}"])
        strategy = theirs.train.strategy
        said: Any = strategy.groups
        begun = 1 if said == AUTO else preset_called(strategy.preset).groups(strategy)
        yield from sorted(_seconds(run, begun).items())


def _seconds(run: Path, begun: int) -> dict[int, float]:
    """Per iteration, by groups; `begun`: those that the run begins with."""
    try:
        lines = read_bytes(run / "events.jsonl", MOST_BYTES).decode().splitlines()
        stretches = _by_groups(map(json.loads, lines), begun)
    except OSError as error:
        raise ConfigError([f"--measured {run}: events.jsonl cannot be read: {error.strerror}"]) from None
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        raise ConfigError([f"--measured {run}: events.jsonl is not that of a run: {error}"]) from None
    found = {groups: _median(at) for groups, at in stretches.items() if len(at) >= LEAST}
    if not any(found.values()):
        most = max(map(len, stretches.values()))
        raise ConfigError([f"--measured {run}: found {most} progress reports, expected {LEAST} at least"])
    return {groups: seconds for groups, seconds in found.items() if seconds > 0}


def _by_groups(events: Iterable[Mapping[str, Any]], begun: int) -> dict[int, list[Report]]:
    """The progress reports of the longest time that the run had so many groups, the seconds without those in which it
    was held: what was done then were probes."""
    held = begin = 0.0
    groups, at = begun, list[Report]()
    found = {groups: at}
    for event in events:
        name = event.get("event")
        if name == "progress":
            at.append((event["t"] - held, int(event["iteration"].partition("/")[0])))
        elif name == HELD:
            begin = event["t"]
        elif name == RELEASED:
            held += event["t"] - begin
        elif name == "regrouped" and event["groups"] != groups:
            groups, at = event["groups"], []
        found[groups] = max(found.get(groups, at), at, key=len)
    return found


def _median(at: Sequence[Report]) -> float:
    """Seconds per iteration, the median of stretches: tests and saves are in few of them, and it is no matter that
    groups report one soon after the other. 0: none has ended."""
    ends = [at[number * (len(at) - 1) // STRETCHES] for number in range(STRETCHES + 1)]
    found = [(after - before) / (n - m) for (before, m), (after, n) in itertools.pairwise(ends) if n > m]
    return float(median(found)) if found else 0.0
