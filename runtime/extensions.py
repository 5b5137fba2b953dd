"""What installed packages bring: names in the entry point groups `convoy.*`, each the name that
cluster.toml uses.

    [project.entry-points."convoy.launchers"]        in the package's pyproject.toml
    slurm = "slurm_launcher:SlurmLauncher"           a name, the module, and what of it is meant

Whoever asks looks among what is built in first: then nothing is read from disk. A package is found
wherever Python finds modules, also beside cluster.toml.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

from runtime.errors import ConfigError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


def names(group: str) -> list[str]:
    """The names that installed packages bring in `group`, in order. Imports none of them."""
    return sorted(_brought(group, tuple(sys.path)))


def find(group: str, name: str) -> object | None:
    """What an installed package brings as `name`; None if none does.

    ConfigError if several packages bring it, or if its module cannot be imported or lacks it.
    """
    found = _brought(group, tuple(sys.path)).get(name, ())
    if len(found) > 1:
        every = "; ".join(f"{_package(entry)} ({entry.value})" for entry in found)
        raise ConfigError(
            [(f"{group}: {name!r} is brought by several packages, remove all but one: {every}")]
        )
    return _loaded(found[0]) if found else None


@cache
def _brought(group: str, path: Sequence[str]) -> dict[str, tuple[EntryPoint, ...]]:
    """name -> its entry points. `path` is where Python looks for packages, which changes as
    programs are found."""
    from importlib.metadata import entry_points  # 30 ms that a run of built-in parts does without

    found: dict[str, tuple[EntryPoint, ...]] = {}
    for entry in entry_points(group=group):
        found[entry.name] = (*found.get(entry.name, ()), entry)
    return found


@cache
def _loaded(entry: EntryPoint) -> object:
    try:
        return entry.load()
    except (Exception, SystemExit) as error:  # a stranger's module may raise anything
        text = (
            f"{entry.group}: {entry.name!r} of {_package(entry)} ({entry.value}) cannot be imported"
        )
        raise ConfigError([f"{text}: {type(error).__name__}: {error}"]) from error


def _package(entry: EntryPoint) -> str:
    return f"{entry.dist.name} {entry.dist.version}" if entry.dist else "a package without a name"
