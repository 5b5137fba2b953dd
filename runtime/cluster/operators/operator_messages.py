"""What an operator elsewhere asks about the files of a run; which those are."""

from __future__ import annotations

from pathlib import PurePosixPath

from runtime.messages.message import Array, Message, message

JOURNAL = "events.jsonl"
PLAN = "plan.json"
TRACE = "trace.json"
LOGS = "logs/*.log"
STACKS = "logs/*.stacks"
OPEN = (JOURNAL, PLAN, TRACE, LOGS, STACKS)  # all that may be read: no checkpoint, no key
PART_BYTES = 512 << 10


@message
class FindFiles(Message):
    """Which files of these patterns, some of OPEN, are there?"""

    patterns: tuple[str, ...]


@message
class FilesFound(Message):
    """JSON: {path below the run directory: [bytes, seconds since 1970 when it was written]}.
    `directory`: the run directory, as `up` sees it."""

    directory: str
    files: Array


@message
class ReadFile(Message):
    """The next part of a file, from this byte on."""

    path: str
    offset: int


@message
class FilePart(Message):
    """PART_BYTES at most; nothing at its end."""

    data: Array


def is_open(path: str) -> bool:
    """May this file be read by who is elsewhere? Its path is one below the run directory."""
    parts = PurePosixPath(path).parts
    plain = "\0" not in path and not {"..", "/"} & set(parts)
    return plain and any(
        len(parts) == len(PurePosixPath(each).parts) and PurePosixPath(path).match(each)
        for each in OPEN
    )
