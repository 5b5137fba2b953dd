"""The messages by which operators on other machines read the files of a run, and the files that
they may read."""

from __future__ import annotations

from pathlib import PurePosixPath

from runtime.messages.message import Array, Message, message

JOURNAL = "events.jsonl"
PLAN = "plan.json"
TRACE = "trace.json"
LOGS = "logs/*.log"
STACKS = "logs/*.stacks"
OPEN = (JOURNAL, PLAN, TRACE, LOGS, STACKS)  # the files that may be read: no checkpoint, no key
PART_BYTES = 512 << 10


@message
class FindFiles(Message):
    """Ask for the files that match these patterns, which are some of OPEN."""

    patterns: tuple[str, ...]


@message
class FilesFound(Message):
    """JSON: {path below the run directory: [bytes, time of the last write in seconds since 1970]}.
    `directory` is the run directory as `up` sees it."""

    directory: str
    files: Array


@message
class ReadFile(Message):
    """Ask for the next part of a file, from this byte on."""

    path: str
    offset: int


@message
class FilePart(Message):
    """At most PART_BYTES of the file; empty at its end."""

    data: Array


def is_open(path: str) -> bool:
    """Whether operators on other machines may read this file. The path is relative to the run
    directory."""
    parts = PurePosixPath(path).parts
    plain = "\0" not in path and not {"..", "/"} & set(parts)
    return plain and any(
        len(parts) == len(PurePosixPath(each).parts) and PurePosixPath(path).match(each)
        for each in OPEN
    )
