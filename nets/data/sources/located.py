"""The path of a file that a configuration or a list names, without steps to parent folders."""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path


def located(base: Path, name: str) -> Path:
    """Return `base / name`. If it has steps to parent folders (".."), the part up to the last of
    them is resolved, as the system resolves it: errors then name a path that can be read."""
    path = base / name
    if ".." not in path.parts:
        return path
    behind = path.parts[::-1].index("..")
    kept = len(path.parts) - behind
    return _resolved(os.path.join(*path.parts[:kept])).joinpath(*path.parts[kept:])  # noqa: PTH118


@lru_cache(maxsize=1000)  # the paths of a list begin alike
def _resolved(path: str) -> Path:
    try:
        return Path(os.path.realpath(path))
    except ValueError:  # a NUL character: opening the file gives the error
        return Path(path)
