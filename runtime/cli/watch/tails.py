"""The logs of a run as lines with the names of their processes, in the order of the times that they begin with.

A line without a time belongs to the one above it. Logs are read as streams: of any size, and while they grow.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Iterator
from pathlib import Path

_TIME = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d[,.]\d+")


class Tail:
    """One log, read from its beginning and, each time again, from where it was read to."""

    def __init__(self, path: Path) -> None:
        self.name, self._path = path.stem, path
        self._at, self._left = 0, b""
        self._time = ""

    def __repr__(self) -> str:
        return f"<tail of {self._path}, read to {self._at}>"

    def lines(self, *, last: bool = False) -> Iterator[tuple[str, str, str]]:
        """(time, name, line) of what is new; `last`: also a line that has no end."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._at)
                for raw in file:
                    self._at += len(raw)
                    whole, self._left = self._left + raw, b""
                    if not whole.endswith(b"\n"):
                        self._left = whole
                        break
                    yield self._told(whole)
        except OSError:  # it is not there yet, or not any more
            return
        if last and self._left:
            left, self._left = self._left, b""
            yield self._told(left)

    def _told(self, raw: bytes) -> tuple[str, str, str]:
        text = raw.decode(errors="replace").rstrip("\r\n")
        if found := _TIME.match(text):
            self._time = found[0]
        return self._time, self.name, text


class Tails:
    """Those of all processes of a run directory, or of one of them."""

    def __init__(self, directory: Path, process: str | None = None) -> None:
        self._folder, self._process = directory / "logs", process
        self._tails: dict[str, Tail] = {}

    def lines(self, *, last: bool = False) -> Iterator[tuple[str, str]]:
        """(name, line) of what is new."""
        for path in sorted(self._folder.glob("*.log")):
            if self._process is None or path.stem == self._process:
                self._tails.setdefault(path.stem, Tail(path))
        found = [tail.lines(last=last) for tail in self._tails.values()]
        for _, name, line in heapq.merge(*found, key=lambda told: told[0]):
            yield name, line
