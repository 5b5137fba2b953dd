"""Data sets in memory. A process holds each set once, even if several of its actors read it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterator, Mapping
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

from nets.data.sources.source import MemorySource
from nets.regular import is_file

_held: WeakValueDictionary[Hashable, MemorySource] = WeakValueDictionary()
_turn = threading.Lock()  # a second caller waits until the first has read the set


def once(
    kind: str, options: Mapping[str, Any], base_dir: Path, read: Callable[[], MemorySource]
) -> MemorySource:
    """Return the source that this process already holds for the same format, options and files, or
    else the result of `read`. Its arrays become read-only."""
    said = tuple(sorted((name, repr(value)) for name, value in options.items()))
    key = kind, said, str(base_dir.absolute()), tuple(_files(options, base_dir))
    with _turn:
        found = _held.get(key)
        if found is None:
            found = _held[key] = read()
            found.images.flags.writeable = found.labels.flags.writeable = False
    return found


def _files(options: Mapping[str, Any], base_dir: Path) -> Iterator[tuple[str, int, int, int]]:
    """Yield, for each file in the options, its name and the facts that change with its contents."""
    for value in options.values():
        for name in (
            (value,)
            if isinstance(value, str)
            else value
            if isinstance(value, (list, tuple))
            else ()
        ):
            if isinstance(name, str) and is_file(base_dir / name):
                stat = (base_dir / name).stat()
                yield name, stat.st_ino, stat.st_size, stat.st_mtime_ns
