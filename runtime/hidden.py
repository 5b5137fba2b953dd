"""Is one of Convoy's packages hidden by something else of its name?

Python takes the first one that it finds: the folder where it was started comes before installed
packages, and so does PYTHONPATH.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from runtime.errors import ConfigError

PACKAGES = ("ops", "nets", "roles")  # what hides `runtime` is run in place of this


def stop_if_hidden() -> None:
    """ConfigError with a line for each that is hidden, which names the culprit. Nothing is
    imported."""
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
