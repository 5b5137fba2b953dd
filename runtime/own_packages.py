"""Convoy's packages `ops`, `nets` and `roles`: common names, which other packages have too.

Python takes the first package of a name that it finds: one in the folder where it was started, next
to cluster.toml, or on PYTHONPATH may come before Convoy's. In the commands, and in the processes of
their runs, these names are always Convoy's. pip also installs a package of the same name over
Convoy's without a word.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType

from runtime.errors import ConfigError
from runtime.regular import is_file, read_bytes

# a package that hides `runtime` would be run in place of this one
PACKAGES = ("ops", "nets", "roles")
DISTRIBUTION = "convoy-runtime"
MARK = f"# part of {DISTRIBUTION}\n".encode()  # in the __init__.py of each package
MOST_BYTES = 1 << 20  # of an __init__.py
OURS = Path(__file__).resolve().parents[1]


class _Finder:
    """Finds Convoy's packages in its own folder. Python asks it before it looks at sys.path."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec of one of Convoy's packages. None for any other module."""
        return PathFinder.find_spec(name, [str(OURS)]) if name in PACKAGES else None


def put_first() -> None:
    """From now on, the names of Convoy's packages mean Convoy's in this process. Raises ConfigError
    if another distribution was installed over one of them. Imports none of them."""
    if replaced := list(_replaced()):
        raise ConfigError(replaced)
    if not are_first():
        sys.meta_path.insert(0, _Finder())


def are_first() -> bool:
    """Whether `put_first` was called in this process, or in the process that it was forked from."""
    return any(isinstance(finder, _Finder) for finder in sys.meta_path)


def shadowed(folder: Path) -> list[str]:
    """A warning for each module in `folder` or on Python's path that has the name of a package of
    Convoy and so cannot be imported."""
    places = dict.fromkeys(
        Path(os.path.realpath(place)) for place in (str(folder), *sys.path) if place
    )
    return [
        f"{file} is not imported, since its name means Convoy's package '{name}': rename it if "
        "your own modules need it"
        for place in places
        if place != OURS
        for name in PACKAGES
        for file in (place / name / "__init__.py", place / f"{name}.py")
        if is_file(file)
    ]


def _replaced() -> Iterator[str]:
    """A line for each package of Convoy whose files another distribution has replaced."""
    for name in PACKAGES:
        file = OURS / name / "__init__.py"
        try:
            if MARK in read_bytes(file, MOST_BYTES):
                continue
            found = f"{file} is not Convoy's"
        except OSError:
            found = f"{file} of Convoy is missing"
        others = _installers(name)
        by = f": {' and '.join(others)} was installed over it" if others else ""
        mend = "".join(f"`pip uninstall {other}`, then " for other in others)
        yield f"{found}{by}; repair: {mend}`pip install --force-reinstall --no-deps {DISTRIBUTION}`"


def _installers(package: str) -> list[str]:
    """The names of other distributions that have files in a folder `package`."""
    from importlib.metadata import distributions  # takes 30 ms, and only this error needs it

    return sorted(
        {
            found.metadata["Name"]
            for found in distributions()
            if found.metadata["Name"] != DISTRIBUTION
            and any(file.parts[0] == package for file in found.files or ())
        }
    )
