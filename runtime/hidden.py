"""A check that no other package hides one of Convoy's packages by its name.

Python takes the first package that it finds. The folder where it was started comes before installed
packages, and so does PYTHONPATH.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from runtime.errors import ConfigError

# a package that hides `runtime` would be run in place of this one
PACKAGES = ("ops", "nets", "roles")


def stop_if_hidden() -> None:
    """Raise ConfigError if packages are hidden, with one line for each that names the hiding file.
    Imports none of them."""
    if found := list(_hidden()):
        raise ConfigError(found)


def _hidden() -> Iterator[str]:
    ours = Path(__file__).resolve().parents[1]
    for name in PACKAGES:
        try:
            spec = find_spec(name)
        except (ImportError, ValueError):
            spec = None
        found = [] if spec is None else [spec.origin, *(spec.submodule_search_locations or ())]
        places = [Path(place).resolve() for place in found if place]
        if places and ours / name not in {*places, *(place.parent for place in places)}:
            culprit = places[0].parent if places[0].name == "__init__.py" else places[0]
            yield (
                f"{culprit} hides Convoy's package '{name}' ({ours / name}): rename it, or "
                "start from another folder"
            )
