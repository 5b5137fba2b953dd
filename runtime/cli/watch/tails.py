"""The logs of a run as lines with the names of their processes, ordered by the times at the
beginning of the lines.

A line without a time belongs to the line above it. Logs are read as streams: they may have any
size, and may grow meanwhile.
"""

from __future__ import annotations

import heapq
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

from runtime.records.run_files import Damaged, Lines, Missing

_TIME = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d[,.]\d+")


class Tail:
    """One log. Each read continues where the last one ended. Calls `damaged` once, with the reason,
    if the log cannot be read."""

    def __init__(self, path: Path, damaged: Callable[[str], None]) -> None:
        self.name = path.stem
        self._lines = Lines(path)
        self._damaged = damaged
        self._time = ""
        self._complained = False

    def __repr__(self) -> str:
        return f"<tail: {self._lines!r}>"

    def lines(self, *, last: bool = False) -> Iterator[tuple[str, str, str]]:
        """(time, name, line) of each new line. With `last` also of an incomplete last line."""
        try:
            for raw in self._lines.rest() if last else self._lines.whole():
                yield self._told(raw)
        except Missing:  # the log does not exist yet, or was deleted
            pass
        except Damaged as error:
            if not self._complained:
                self._complained = True
                self._damaged(str(error))

    def _told(self, raw: bytes) -> tuple[str, str, str]:
        text = raw.decode(errors="replace").rstrip("\r\n")
        if found := _TIME.match(text):
            self._time = found[0]
        return self._time, self.name, text


class Tails:
    """The logs of all processes of a run directory, or of one of them. Calls `damaged` for each log
    that cannot be read."""

    def __init__(
        self, directory: Path, process: str | None, damaged: Callable[[str], None]
    ) -> None:
        self._folder = directory / "logs"
        self._process = process
        self._damaged = damaged
        self._tails: dict[str, Tail] = {}
        if os.path.lexists(self._folder):
            try:
                any(self._folder.iterdir())  # glob() finds nothing in a folder that cannot be read
            except OSError as error:
                damaged(
                    f"{self._folder}: it cannot be read: {error.strerror}; expected the "
                    "folder of the logs of a run"
                )

    def names(self) -> list[str]:
        """The processes that have a log."""
        return sorted(path.stem for path in self._folder.glob("*.log"))

    def lines(self, *, last: bool = False) -> Iterator[tuple[str, str]]:
        """(name, line) of each new line."""
        for path in sorted(self._folder.glob("*.log")):
            if self._process is None or path.stem == self._process:
                self._tails.setdefault(path.stem, Tail(path, self._damaged))
        found = [tail.lines(last=last) for tail in self._tails.values()]
        for _, name, line in heapq.merge(*found, key=lambda told: told[0]):
            yield name, line
