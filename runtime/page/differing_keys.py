"""The keys of cluster.toml that differ between runs, as a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from runtime.terminal_text import bounded, printable

ABOUT_FILES = "run."  # keys about the run directory say nothing about the training
MOST_TEXT = 200  # characters of a value


def differing(configurations: Sequence[Mapping[str, Any]]) -> list[tuple[str, list[str]]]:
    """The keys with different values, in the order of the configurations, each with its values in
    the order of the runs. "" stands for a key that a run does not have. Runs without a known
    configuration have no values and make no difference."""
    runs = [dict(flattened(found)) for found in configurations]
    names = dict.fromkeys(name for keys in runs for name in keys)
    return [
        (name, [_shown(keys.get(name)) for keys in runs])
        for name in names
        if not name.startswith(ABOUT_FILES)
        and len({_shown(keys.get(name)) for keys in runs if keys}) > 1
    ]


def flattened(data: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The keys of nested tables as "train.strategy.workers" and "machine.0.name", each with its
    value."""
    for key, value in data.items():
        if isinstance(value, Mapping):
            yield from flattened(value, f"{prefix}{key}.")
        elif isinstance(value, list) and value and all(isinstance(one, dict) for one in value):
            for place, one in enumerate(value):
                yield from flattened(one, f"{prefix}{key}.{place}.")
        else:
            yield f"{prefix}{key}", value


def _shown(value: object) -> str:
    if value is None:
        return ""
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return bounded(printable(text), MOST_TEXT)
