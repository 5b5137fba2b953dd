"""Filters and orders of a list of runs, as a person writes them: net=lenet, "accuracy>0.9"."""

from __future__ import annotations

import fnmatch
import operator
import re
from collections.abc import Callable, Sequence
from typing import Any

from runtime.attached.run_listing import ListedRun
from runtime.errors import ConfigError
from runtime.report.run_keys import meant, shown
from runtime.suggest import hint

FILTER = re.compile(r"\s*([^=!<>\s]+)\s*(>=|<=|!=|=|>|<)\s*(.*?)\s*", re.DOTALL)
COMPARED: dict[str, Callable[[Any, Any], bool]] = {
    ">": operator.gt,
    "<": operator.lt,
    ">=": operator.ge,
    "<=": operator.le,
}
FACTS: dict[str, Callable[[ListedRun], object]] = {
    "name": lambda run: run.identity.name,
    "run": lambda run: run.directory.name,
    "began": lambda run: run.identity.moment,
    "net": lambda run: run.net or None,
    "state": lambda run: run.summary.state,
    "iteration": lambda run: run.summary.iteration,
    "epoch": lambda run: run.summary.epoch,
    "seconds": lambda run: run.summary.seconds,
    "images_per_second": lambda run: run.summary.images_per_second,
    "loss": lambda run: run.summary.loss,
    "best": lambda run: None if run.summary.best_score is None else run.summary.best_score[0],
    "last": lambda run: run.summary.last_score,
}


def filtered(runs: Sequence[ListedRun], filters: Sequence[str]) -> list[ListedRun]:
    """Return the runs that fit all filters. A text may have `*` and `?`. A run without the value
    fits `!=` only. Raises ConfigError for a filter that cannot be read, or whose name no run
    knows."""
    found = list(runs)
    for said in filters:
        match = FILTER.fullmatch(said)
        if match is None:
            raise ConfigError(
                [f"--filter {said}: expected NAME=VALUE, such as net=lenet or 'accuracy>0.9'"]
            )
        name, sign, wanted = match.groups()
        value_of = _reader(name, runs, "--filter")
        if sign in COMPARED and _number(wanted) is None and name != "began":
            raise ConfigError([f"--filter {said}: found '{wanted}', expected a number"])
        found = [run for run in found if _fits(value_of(run), sign, wanted)]
    return found


def in_order(runs: Sequence[ListedRun], name: str, *, reverse: bool = False) -> list[ListedRun]:
    """Return the runs by this value, the largest last. Runs without the value come first. Raises
    ConfigError if no run knows the name."""
    value_of = _reader(name, runs, "--sort")
    values = {run.directory: value_of(run) for run in runs}
    without = [run for run in runs if values[run.directory] is None]
    rest = [run for run in runs if values[run.directory] is not None]
    return without + sorted(rest, key=lambda run: _rank(values[run.directory]), reverse=reverse)


def _reader(name: str, runs: Sequence[ListedRun], option: str) -> Callable[[ListedRun], object]:
    """Return a function from a run to the value of this name: a score of the tests, of which the
    best value counts, a fact of the run, or a key of cluster.toml or its end."""
    scores = {score for run in runs for score in run.summary.best}
    if name in scores:
        return lambda run: run.summary.best[name][0] if name in run.summary.best else None
    if name in FACTS:
        return FACTS[name]
    known = dict.fromkeys(key for run in runs for key in run.keys)
    keys = meant(name, known)
    if len(keys) == 1 or not runs:
        return lambda run: run.keys.get(keys[0]) if keys else None
    if keys:
        raise ConfigError(
            [f"{option} {name}: several keys have this name: {', '.join(keys)}; give one of them"]
        )
    ends = {key.rpartition(".")[2] for key in known}
    choices = {*FACTS, *scores, *ends}
    near = hint(name, choices) if len(choices) < 40 else hint(name, {*FACTS, *scores})
    raise ConfigError([f"{option} {name}: no run here has such a fact, score or key{near}"])


def _fits(value: object, sign: str, wanted: str) -> bool:
    if value is None:
        return sign == "!="
    if sign in COMPARED:
        number = _number(wanted)
        if isinstance(value, int | float) and number is not None:
            return COMPARED[sign](value, number)
        return isinstance(value, str) and COMPARED[sign](value, wanted)
    number = _number(wanted)
    same = (
        value == number
        if number is not None and isinstance(value, int | float)
        else fnmatch.fnmatchcase(shown(value).casefold(), wanted.casefold())
    )
    return same is (sign == "=")


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _rank(value: object) -> tuple[bool, float, str]:
    """The place of a value in an order: numbers before texts."""
    if isinstance(value, int | float):
        return False, float(value), ""
    return True, 0.0, str(value)
