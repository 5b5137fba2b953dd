"""The part of a trace that one process writes, in Chrome's Trace Event format: a JSON array that is
never closed, with one event on each line.

    {"name": "process_name", "ph": "M", "pid": 3, "tid": 0, "args": {"name": "conv-0-0"}},
    {"name": "conv forward", "cat": "compute", "ph": "X", "ts": 12.3, "dur": 4.5,
     "pid": 3, "tid": 1000, "args": {"actor": "conv-0-0", "iteration": 7}},
    {"name": "message", "cat": "message", "ph": "s", "id": "conv-0-0.1.55", "ts": ...,
     "pid": ..., "tid": ...},

ts and dur are microseconds of this host's monotonic clock, with three digits for nanoseconds. A
flow begins ("s") within the span of the sending and ends ("f") within the span of the handling. The
flow of an answer ends in a separate span within the wait, since Perfetto turns an arrow around if
its last span begins before its first. `iteration` is left out if it is not known.
"""

from __future__ import annotations

import logging
import os
from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from runtime.machine.owned import open_file
from runtime.tracing.tracks import ANSWER, CATEGORY, Lanes, Track, thread, thread_name

MOST_BYTES = 256 << 20  # of a part; a larger file is too large to open
AT_ONCE = 5000  # notes that become lines before each write


class Note(NamedTuple):
    """A span of time to be drawn. `begins` is the flow that begins with it. `ends` is the flow that
    ends in it, with the time of that end. `answer` is the kind of the answer that ended a wait at
    that time."""

    track: Track
    actor: str
    name: str
    began: float
    ended: float
    step: int
    begins: str = ""
    ends: tuple[str, float] | None = None
    peer: str = ""
    size: int = 0
    answer: str = ""


class Part:
    """The file of one process's part, new and readable only by its owner. For the parameters see
    Tracer."""

    def __init__(self, path: Path, process: str, number: int, actors: Iterable[str]) -> None:
        self.size = 0
        self._path = path
        self._pid = number
        self._numbers = {actor: index for index, actor in enumerate(actors)}
        self._lanes = Lanes()
        self._gave_up = False
        path.parent.mkdir(mode=0o700, exist_ok=True)
        self._file: int | None = open_file(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        head = [_named("process_name", number, 0, {"name": process})]
        head.append(_named("process_sort_index", number, 0, {"sort_index": number}))
        self._append(b"[\n" + b"".join(map(line, head)))

    def __repr__(self) -> str:
        return f"<part {self._path}, {self.size} bytes>"

    def write(self, notes: deque[Note], *, last: bool = False) -> None:
        """Take all notes and write their lines. Raises OSError."""
        while notes:
            lines: list[bytes] = []
            while notes and len(lines) < AT_ONCE:
                lines += map(line, self._events(notes.popleft()))
            if not self._gave_up:
                self._append(b"".join(lines))
        if last and self._file is not None:
            os.close(self._file)
            self._file = None

    def give_up(self) -> None:
        """Write nothing more."""
        self._gave_up = True

    def _events(self, note: Note) -> Iterator[dict[str, Any]]:
        if self._gave_up:
            return
        began = round(note.began * 1e9)
        ended = round(note.ended * 1e9)
        lane, is_new = self._lanes.place(note.actor, note.track, began, ended)
        tid = thread(self._numbers[note.actor], note.track, lane)
        if is_new:
            yield _named(
                "thread_name", self._pid, tid, {"name": thread_name(note.actor, note.track, lane)}
            )
            yield _named("thread_sort_index", self._pid, tid, {"sort_index": tid})
        args: dict[str, Any] = {"actor": note.actor}
        if note.step >= 0:
            args["iteration"] = note.step
        if note.peer:
            args["peer"] = note.peer
        if note.size:
            args["bytes"] = note.size
        where = {"pid": self._pid, "tid": tid}
        times = {"ts": began / 1000, "dur": (ended - began) / 1000}
        yield {
            "name": note.name,
            "cat": CATEGORY[note.track],
            "ph": "X",
            **times,
            **where,
            "args": args,
        }
        flow = {"name": "message", "cat": "message", **where}
        if note.begins:
            yield {**flow, "ph": "s", "id": note.begins, "ts": began / 1000}
        if note.ends is not None:
            end = round(note.ends[1] * 1e9)
            if note.answer:
                times = {"ts": end / 1000, "dur": (ended - end) / 1000}
                yield {
                    "name": note.answer,
                    "cat": ANSWER,
                    "ph": "X",
                    **times,
                    **where,
                    "args": args,
                }
            yield {**flow, "ph": "f", "bp": "e", "id": note.ends[0], "ts": end / 1000}

    def _append(self, text: bytes) -> None:
        assert self._file is not None
        left = memoryview(text)
        while left:
            written = os.write(self._file, left)
            self.size = self.size + written
            left = left[written:]
        if self.size > MOST_BYTES:
            self.give_up()
            ends = "the trace of this process ends here: %s has %d MB"
            logging.getLogger("convoy").warning(ends, self._path, self.size >> 20)


def line(event: dict[str, Any]) -> bytes:
    """The event as a line of the file."""
    return msgspec.json.encode(event) + b",\n"


def _named(what: str, pid: int, tid: int, args: dict[str, Any]) -> dict[str, Any]:
    return {"name": what, "ph": "M", "pid": pid, "tid": tid, "args": args}
