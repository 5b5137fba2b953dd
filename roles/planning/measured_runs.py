"""The measured time of a run's iteration, from its run directory, to compare with a prediction."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from roles.learning.scoreboard import HELD, RELEASED
from roles.options import Options
from roles.planning.auto_settings import AutoSettings
from roles.planning.strategies import preset_called
from runtime.config.file import load, program_options
from runtime.errors import ConfigError
from runtime.records.journal_reading import FILE, events
from runtime.records.run_files import Damaged
from runtime.records.run_identity import CONFIG
from runtime.terminal_text import bounded

LEAST = 3  # progress reports
STRETCHES = 10
Report = tuple[float, int]  # seconds, iterations that had ended by then


def options_of_run(directory: Path, name: str = CONFIG) -> Options | None:
    """The configuration of the run in `directory`, from the file `name`.

    None if the folder is not a run directory or has no such file. Raises ConfigError if the file is
    broken.
    """
    file = directory / name
    if not (os.path.lexists(directory / FILE) and os.path.lexists(file)):
        return None
    return program_options(load(file), Options)


def measured(runs: Iterable[Path], options: Options, batch: int) -> Iterator[tuple[int, float]]:
    """(groups, seconds per iteration with this batch) of each run directory. A run whose groups
    changed gives several.

    `options` are those with which the plan starts. Raises ConfigError if a folder is not a run
    directory, or if its run has another net, batch or number of workers.
    """
    for run in runs:
        theirs = options_of_run(run)
        if theirs is None:
            raise ConfigError(
                [(f"--measured {run}: not a run directory: it has no config.toml and events.jsonl")]
            )
        preset = preset_called(theirs.train.strategy.preset)
        begun = AutoSettings(theirs.train, preset, run).begun_with
        for key, mine, found in (
            ("train.net", options.train.net, theirs.train.net),
            ("train.batch", options.train.batch, begun.batch),
            (
                "train.strategy.workers",
                options.train.strategy.workers,
                theirs.train.strategy.workers,
            ),
        ):
            if mine != found:
                raise ConfigError(
                    [
                        (
                            f"--measured {run}: config.toml: {key}: found {found!r}, expected this "
                            f"plan's {mine!r}"
                        )
                    ]
                )
        yield from sorted(_seconds(run, preset.groups(begun.strategy), batch).items())


@contextmanager
def reading(run: Path, option: str) -> Iterator[None]:
    """Turn errors in the events of a run into ConfigError. `option` is the option that named the
    run."""
    try:
        yield
    except Damaged as error:
        raise ConfigError([f"{option} {error}"]) from None
    except (ValueError, KeyError, AttributeError, TypeError, OverflowError) as error:
        raise ConfigError(
            [f"{option} {run}: events.jsonl is not the journal of a run: {error}"]
        ) from None


def events_of(run: Path) -> list[dict[str, Any]]:
    """The journal of a run, in order. Call it within `reading`: a damaged line is an error, because
    the numbers would be wrong without it."""

    def damaged(line: str) -> None:
        raise ValueError(f"a line is damaged: {bounded(line, 200)}")

    return list(events(run, damaged))


def iteration_of(progress: Mapping[str, Any]) -> int:
    """The iteration of a progress report. Call it within `reading`."""
    return int(progress["iteration"])


def _seconds(run: Path, begun: int, batch: int) -> dict[int, float]:
    """Seconds per iteration, by groups. `begun`: the groups with which the run started."""
    with reading(run, "--measured"):
        stretches = _by_groups(events_of(run), begun, batch)
    found = {groups: _median(at) for groups, at in stretches.items() if len(at) >= LEAST}
    if not any(found.values()):
        most = max(map(len, stretches.values()), default=0)
        text = f"events.jsonl: found {most} progress reports, expected {LEAST} at least"
        raise ConfigError([f"--measured {run}: {text}"])
    return {groups: seconds for groups, seconds in found.items() if seconds > 0}


def _by_groups(
    events: Iterable[Mapping[str, Any]], begun: int, batch: int
) -> dict[int, list[Report]]:
    """The progress reports of the longest stretch with each number of groups.

    Seconds for which the run was held are subtracted, since it made probes then. Time with another
    `batch` is left out.
    """
    held = begin = 0.0
    now = (begun, batch)
    at = list[Report]()
    found = {begun: at}
    for event in events:
        name = event["event"]
        if name == "progress":
            at.append((float(event["t"]) - held, iteration_of(event)))
        elif name == HELD:
            begin = event["t"]
        elif name == RELEASED:
            held += event["t"] - begin
        elif name == "regrouped" and now != (
            then := (int(event["groups"]), int(event.get("batch", batch)))
        ):
            now = then
            at = []
        if now[1] == batch:
            found[now[0]] = max(found.get(now[0], at), at, key=len)
    return found


def _median(at: Sequence[Report]) -> float:
    """Seconds per iteration, as the median over stretches; 0 if no iteration ended.

    Tests and saves are in few stretches. Groups that report shortly after one another do not matter
    over a stretch.
    """
    ends = [at[number * (len(at) - 1) // STRETCHES] for number in range(STRETCHES + 1)]
    found = [
        (after - before) / (n - m) for (before, m), (after, n) in itertools.pairwise(ends) if n > m
    ]
    return float(median(found)) if found else 0.0
