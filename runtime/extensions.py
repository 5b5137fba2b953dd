"""Extensions from installed packages: names in the entry point groups `convoy.*`, which
cluster.toml uses.

    [project.entry-points."convoy.launchers"]        in the package's pyproject.toml
    slurm = "slurm_launcher:SlurmLauncher"           a name, the module, and an attribute of it

Callers look among the built-in names first, so that nothing is read from disk for these. A package
is found wherever Python finds modules, also next to cluster.toml.
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
    """Return the names that installed packages offer in `group`, in order. Imports no package."""
    return sorted(_brought(group, tuple(sys.path)))


def find(group: str, name: str) -> object | None:
    """Return the object that an installed package offers as `name`, or None.

    Raises ConfigError if several packages offer it, or if its module cannot be imported or does not
    have it.
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
    """Return name -> its entry points. `path`, where Python looks for packages, is an argument
    because it changes as programs are found."""
    from importlib.metadata import entry_points  # takes 30 ms, which a run of built-in parts saves

    found: dict[str, tuple[EntryPoint, ...]] = {}
    for entry in entry_points(group=group):
        found[entry.name] = (*found.get(entry.name, ()), entry)
    return found


@cache
def _loaded(entry: EntryPoint) -> object:
    try:
        return entry.load()
    except (Exception, SystemExit) as error:  # a third party's module may raise anything
        text = (
            f"{entry.group}: {entry.name!r} of {_package(entry)} ({entry.value}) cannot be imported"
        )
        raise ConfigError([f"{text}: {type(error).__name__}: {error}"]) from error


def _package(entry: EntryPoint) -> str:
    return f"{entry.dist.name} {entry.dist.version}" if entry.dist else "a package without a name"
