"""Convoy's packages that this one imports: importing this module makes sure that Python finds them.

Python looks for a module in the script's folder first, and there may be an `ops.py` of the user. It
would be imported in place of Convoy's package, and fail far from its cause.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

NEEDED = {"nets": ("ops",), "roles": ("ops", "nets", "runtime")}
OURS = Path(__file__).resolve().parents[1]
MARK = b"# part of convoy-runtime\n"  # in the __init__.py of each package


class _Finder:
    """Finds these packages in Convoy's own folder. Python asks it before it looks at sys.path."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec of one of these packages. None for any other module."""
        return PathFinder.find_spec(name, [str(OURS)]) if name in self._names else None


def _claim(names: Sequence[str]) -> None:
    """Make each of these names mean Convoy's package. Raises ImportError if Python finds another
    module of that name. A folder without `__init__.py` is no such module, and is passed over."""
    files = {name: _file(name) for name in names}
    for name, file in files.items():
        if file is not None and MARK not in file.read_bytes():
            raise ImportError(
                f"{file} is imported in place of Convoy's package '{name}': rename or uninstall "
                "it, or keep the script in another folder",
                name=name,
                path=str(file),
            )
    if hidden := [name for name, file in files.items() if file is None]:
        for name in hidden:
            sys.modules.pop(name, None)
        sys.meta_path.insert(0, _Finder(hidden))


def _file(name: str) -> Path | None:
    """The file that `import name` runs; None for a folder without `__init__.py`."""
    module = sys.modules.get(name)
    spec = find_spec(name) if module is None else None
    file = spec.origin if spec is not None else getattr(module, "__file__", None)
    return None if file is None else Path(file)


_claim(NEEDED[__name__.partition(".")[0]])
