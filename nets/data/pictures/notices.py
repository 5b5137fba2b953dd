"""Notices about single pictures that were read otherwise than a user may expect, such as the first
frame of an animation."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager

SHOWN = 10  # pictures of each kind that are named in the log


class Notices:
    """The pictures of each kind of notice, each counted once in a process.

    The log has a warning for each of the first pictures of a kind, and then for the 100th, the
    1000th, and so on. Any thread may call `note`.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._names: dict[str, dict[str, None]] = {}
        self._silent = False
        self._collected: list[tuple[str, str, str]] | None = None

    def __repr__(self) -> str:
        counts = {kind: len(names) for kind, names in self._names.items()}
        return f"<Notices {counts}>"

    def note(self, where: str, kind: str, detail: str = "") -> None:
        """Count a picture among those of a kind."""
        with self._lock:
            if self._collected is not None:
                self._collected.append((where, kind, detail))
                return
            names = self._names.setdefault(kind, {})
            if where in names:
                return
            names[where] = None
            count = len(names)
            silent = self._silent
        if silent:
            return
        log = logging.getLogger("nets")
        if count <= SHOWN:
            log.warning("%s: %s%s", where, kind, f": {detail}" if detail else "")
        elif f"{count}".strip("0") == "1":
            log.warning("%d pictures so far: %s", count, kind)

    @contextmanager
    def counted(self) -> Iterator[dict[str, dict[str, None]]]:
        """Count anew meanwhile, without the log. Gives the names of the pictures of each kind."""
        with self._lock:
            before = self._names, self._silent
            counts: dict[str, dict[str, None]] = {}
            self._names, self._silent = counts, True
        try:
            yield counts
        finally:
            with self._lock:
                self._names, self._silent = before

    @contextmanager
    def collected(self) -> Iterator[list[tuple[str, str, str]]]:
        """Collect the arguments of `note` meanwhile, for another process. Nothing is counted."""
        found = self._collected = []
        try:
            yield found
        finally:
            self._collected = None


NOTICES = Notices()
