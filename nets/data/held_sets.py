"""Data sets in memory: a process holds each once, however many of its actors read it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterator, Mapping
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

from nets.data.source import MemorySource

_held: WeakValueDictionary[Hashable, MemorySource] = WeakValueDictionary()
_turn = threading.Lock()  # who asks while another reads the same waits for it


def once(
    kind: str, options: Mapping[str, Any], base_dir: Path, read: Callable[[], MemorySource]
) -> MemorySource:
    """What somebody in this process holds of the same format, options and files, else what `read`
    returns. Nobody can write over its arrays."""
    said = tuple(sorted((name, repr(value)) for name, value in options.items()))
    key = kind, said, str(base_dir.absolute()), tuple(_files(options, base_dir))
    with _turn:
        found = _held.get(key)
        if found is None:
            found = _held[key] = read()
            found.images.flags.writeable = found.labels.flags.writeable = False
    return found


def _files(options: Mapping[str, Any], base_dir: Path) -> Iterator[tuple[str, int, int, int]]:
    """Those that options name: which, and what changes with what they hold."""
    for value in options.values():
        for name in (
            (value,)
            if isinstance(value, str)
            else value
            if isinstance(value, (list, tuple))
            else ()
        ):
            if isinstance(name, str) and (base_dir / name).is_file():
                stat = (base_dir / name).stat()
                yield name, stat.st_ino, stat.st_size, stat.st_mtime_ns
