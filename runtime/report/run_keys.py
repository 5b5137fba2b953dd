"""The keys of cluster.toml that differ between runs, and short names of keys."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

OF_THE_RUN = "run."  # keys about the run directory say nothing about the training
ABSENT = "-"  # shown for a key that a run does not have

Keys = Mapping[str, Any]


def differing(runs: Sequence[Keys]) -> list[str]:
    """Return the keys whose values differ between the runs, or that only some runs have, in the
    order of the configurations. Runs without a known configuration are left out."""
    known = [keys for keys in runs if keys]
    names = dict.fromkeys(name for keys in known for name in keys)
    return [
        name
        for name in names
        if not name.startswith(OF_THE_RUN)
        and any(keys.get(name) != known[0].get(name) for keys in known)
    ]


def short_names(names: Iterable[str]) -> dict[str, str]:
    """Return each key with its shortest ending that no other of these keys has:
    "train.strategy.workers" -> "workers"."""
    names = list(dict.fromkeys(names))
    count = Counter(ending for name in names for ending in _endings(name))
    return {
        name: next((ending for ending in _endings(name) if count[ending] == 1), name)
        for name in names
    }


def meant(said: str, names: Iterable[str]) -> list[str]:
    """Return the keys that `said` names: the key itself, else all keys that end with it."""
    names = list(dict.fromkeys(names))
    return [said] if said in names else [name for name in names if name.endswith(f".{said}")]


def shown(value: object) -> str:
    """Return a value of a key as short text."""
    if value is None:
        return ABSENT
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)


def flattened(data: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the keys of nested tables as "train.strategy.workers" and "machine.0.name", each with
    its value, a plain value or a list of plain values."""
    for key, value in data.items():
        if isinstance(value, Mapping):
            yield from flattened(value, f"{prefix}{key}.")
        elif isinstance(value, list) and value and all(isinstance(one, dict) for one in value):
            for at, one in enumerate(value):
                yield from flattened(one, f"{prefix}{key}.{at}.")
        else:
            yield (
                f"{prefix}{key}",
                value if isinstance(value, str | int | float | list) else str(value),
            )


def _endings(name: str) -> list[str]:
    """The endings of a key, the shortest first."""
    parts = name.split(".")
    return [".".join(parts[at:]) for at in range(len(parts) - 1, -1, -1)]
