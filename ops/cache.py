"""The user's folder for files that can be made again: compiled kernels, and choices of cuDNN."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder(name: str) -> Path:
    """The folder `name` of Convoy in the user's cache (XDG_CACHE_HOME, or ~/.cache). Raises
    RuntimeError if the user has no home folder."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "convoy" / name
