"""The journal of a run, events.jsonl, and the files next to it. Each line is written whole or not
at all.

A full or broken disk does not end the run. The first failed write is reported. All lost events are
counted, and the count is written to the journal as soon as there is room again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from runtime.machine.owned import open_file
from runtime.reasons import reason

COPIED_BYTES = 1 << 20  # at a time
MISSED = "missed"  # the event that counts lost events


class Journal:
    """Writes to a new file that only its owner may read. Calls `tell` with a text about each loss.
    Raises OSError if the file cannot be made."""

    def __init__(self, path: Path, tell: Callable[[str], None]) -> None:
        self._path = path
        self._tell = tell
        self._file = self._opened()
        self._size = 0
        self.missed = 0

    def __repr__(self) -> str:
        return f"<journal {self._path}: {self._size} bytes, {self.missed} events missed>"

    def write(
        self, stamp: Mapping[str, float], actor: str, event: str, fields: Mapping[str, Any]
    ) -> None:
        """Append an event. `stamp` holds its time, and comes first in the line."""
        text = json.dumps({**stamp, "actor": actor, "event": event, **fields}) + "\n"
        if self.missed:
            lost = {**stamp, "actor": "supervisor", "event": MISSED, "events": self.missed}
            text = json.dumps(lost) + "\n" + text
        self.append(text)

    def append(self, text: str) -> None:
        """Append whole lines."""
        try:
            self._append(text.encode())
        except OSError as error:
            self.missed += 1
            if self.missed == 1:
                self._tell(
                    f"{self._path}: {reason(error)}: events are not journalled until "
                    "it can be written again"
                )
        else:
            self.missed = 0

    def remake(self) -> None:
        """Write the same lines into a new file of the same name, since the file was removed. Raises
        OSError."""
        new = self._opened()
        done = 0
        try:
            while done < self._size and (piece := os.pread(self._file, COPIED_BYTES, done)):
                done += os.pwrite(new, piece, done)
        except BaseException:
            os.close(new)
            raise
        os.close(self._file)
        self._file = new

    def _opened(self) -> int:
        return open_file(self._path, os.O_RDWR | os.O_CREAT | os.O_TRUNC)

    def close(self) -> None:
        """Close the file. Reports how many events are missing at its end."""
        if self.missed:
            self._tell(f"{self._path}: the last {self.missed} events of the run are missing")
        try:
            os.close(self._file)
        except OSError as error:
            self._tell(
                f"{self._path}: {reason(error)} when it was closed: its last events may be missing"
            )

    def _append(self, data: bytes) -> None:
        done = 0
        try:
            while done < len(data):
                done += os.pwrite(self._file, data[done:], self._size + done)
        except OSError:
            if done:
                os.ftruncate(self._file, self._size)  # removes the half line
            raise
        self._size += done
