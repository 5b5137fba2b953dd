"""How long an iteration of a run took, from its run directory: to stand beside a prediction."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from roles.options import Options
from roles.planning.strategies import preset_called
from roles.planning.tuned import GROUPS, Tuned
from runtime.config.file import load, program_options
from runtime.errors import ConfigError
from runtime.regular import read_bytes

MOST_BYTES = 1 << 28  # of events.jsonl
LEAST = 3  # progress reports
STRETCHES = 10


def options_of_run(directory: Path) -> Options | None:
    """What was asked of the run with this directory; None if it is none. ConfigError if its config.toml is broken."""
    file = directory / "config.toml"
    if not ((directory / "events.jsonl").is_file() and file.is_file()):
        return None
    return program_options(load(file), Options)


def measured(runs: Iterable[Path], options: Options) -> Iterator[tuple[int, float]]:
    """(groups, seconds per iteration) of each run directory. ConfigError if one is none, or of another net, batch or
    number of workers than `options`."""
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
        preset = preset_called(strategy.preset)
        if GROUPS in Tuned(theirs.train, preset, run).keys:
            raise ConfigError(
                [f"--measured {run}: train.strategy.groups: found 'auto': it has no one number of groups"]
            )
        yield preset.groups(strategy), _seconds(run)


@contextmanager
def reading(run: Path, option: str) -> Iterator[None]:
    """What is wrong with the events of a run that `option` named, as a ConfigError."""
    try:
        yield
    except OSError as error:
        raise ConfigError([f"{option} {run}: events.jsonl cannot be read: {error.strerror}"]) from None
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        raise ConfigError([f"{option} {run}: events.jsonl is not that of a run: {error}"]) from None


def events_of(run: Path) -> list[dict[str, Any]]:
    """What a run has journalled, in order. Within `reading`."""
    lines = read_bytes(run / "events.jsonl", MOST_BYTES).decode().splitlines()
    return [event for event in map(json.loads, lines) if event.get("event")]


def iteration_of(progress: Mapping[str, Any]) -> int:
    """The one that a progress report is about. Within `reading`."""
    return int(progress["iteration"].partition("/")[0])


def _seconds(run: Path) -> float:
    """Per iteration, the median of stretches of the run: tests and saves are in few of them, and it is no matter that
    groups report one soon after the other."""
    with reading(run, "--measured"):
        told = [event for event in events_of(run) if event["event"] == "progress"]
        at = [(event["t"], iteration_of(event)) for event in told]
    ends = [at[number * (len(at) - 1) // STRETCHES] for number in range(STRETCHES + 1)] if at else []
    found = [(after - before) / (n - m) for (before, m), (after, n) in itertools.pairwise(ends) if n > m]
    if len(at) < LEAST or not found or median(found) <= 0:
        raise ConfigError([f"--measured {run}: found {len(at)} progress reports, expected {LEAST} at least"])
    return float(median(found))
