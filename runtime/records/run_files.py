"""The files of a run directory, all read in the same way.

Only regular files of bounded size are read, and all faults are reported in the same form. A file
may be half-written, damaged, or have the content of another kind of file.

    runs/x/plan.json: it is damaged: not JSON (line 3, column 5);
        expected the plan of a run; `status` works without it

A reader that can do without the file catches Damaged and shows its text.
"""

from __future__ import annotations

import errno
import json
import os
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runtime import regular
from runtime.errors import ConfigError, ConvoyError
from runtime.reasons import reason
from runtime.terminal_text import bounded

LONGEST = 16 << 20  # bytes of a line; a longer line counts as damaged


@dataclass(frozen=True)
class Kind:
    """One kind of file in a run directory. `what` describes the expected content. `most` is the
    largest size in bytes. `mend` tells a person how to repair the file, or what works without
    it."""

    what: str
    mend: str
    most: int = 1 << 20


KINDS = {
    "run.json": Kind("the identity of a run", "the identity is taken from the journal"),
    "config.toml": Kind(
        "the configuration of a run", ("replace it with a copy of the run's cluster.toml")
    ),
    "said.toml": Kind(
        ("the content of cluster.toml before the run was scaled"),
        "without it the run counts as not scaled",
    ),
    "plan.json": Kind(
        "the plan of a run by this version of Convoy",
        "`ps`, `status`, `events`, `logs`, `report` and `down` work without it",
        256 << 20,
    ),
    "summary.json": Kind("the summary of a run", "the summary is made from the journal"),
    "versions.json": Kind("the versions that a run used", "nothing else needs it"),
    "tuning.json": Kind(
        "the record of a run with a tuner",
        ("it can be replaced with the record of another run"),
        64 << 20,
    ),
    "events.jsonl": Kind("the journal of a run", "no other file records the events of the run"),
    "usage.jsonl": Kind("the usage of each process of a run", "the report works without it"),
    "histograms.jsonl": Kind("the histograms of a run", "the report works without it"),
    "trace.json": Kind("the trace of a run", "the report works without it"),
    "clocks.json": Kind(
        "the clocks of a traced run",
        ("without it the parts of a trace cannot be joined: remove the parts"),
    ),
}
_LOCK = Kind(
    "the lock of an `up`", ("remove it if no `up` runs on any host that shares the folder"), 2048
)
_OTHER = Kind("a file of a run", "the other files work without it")


def kind_of(path: Path) -> Kind:
    """Return the kind of file that belongs under this name."""
    return _LOCK if path.suffix == ".lock" else KINDS.get(path.name, _OTHER)


class Damaged(ConfigError):
    """A file of a run directory that cannot be read, or whose content does not match its name.
    `is_others` is True if the file belongs to another user."""

    is_others = False

    def __init__(self, path: Path, found: str, like: str = "") -> None:
        kind = kind_of(Path(like) if like else path)
        super().__init__([f"{path}: {found}; expected {kind.what}; {kind.mend}"])


class Missing(Damaged):
    """The file does not exist."""


def damaged(path: Path, why: str | Exception, like: str = "") -> Damaged:
    """Return the error of a file whose content does not match its name. `why` is a text, or the
    exception raised while the content was parsed."""
    return Damaged(
        path, (f"it is damaged: {f'no {why} in it' if isinstance(why, KeyError) else why}"), like
    )


def read_bytes(path: Path, like: str = "") -> bytes:
    """Return the content of the whole file. Raises Damaged or Missing.

    `like` gives the usual name of the file in a run directory, if `path` has a different name.
    """
    try:
        return regular.read_bytes(path, kind_of(Path(like) if like else path).most)
    except OSError as error:
        raise _unreadable(path, error, like) from None


def read_text(path: Path, like: str = "") -> str:
    """Return the whole file as text, which must be UTF-8. `like` is explained at `read_bytes`.
    Raises Damaged or Missing."""
    try:
        return regular.decoded(read_bytes(path, like))
    except UnicodeDecodeError as error:
        raise damaged(path, f"byte {error.start} is not UTF-8", like) from None


def read_json(path: Path, like: str = "") -> dict[str, Any]:
    """Return the JSON object in a file. `like` is explained at `read_bytes`. Raises Damaged or
    Missing."""
    text = read_text(path, like)
    try:
        found = json.loads(text)
    except json.JSONDecodeError as error:
        raise damaged(path, f"not JSON (line {error.lineno}, column {error.colno})", like) from None
    except (ValueError, RecursionError):  # a number with thousands of digits; too deep nesting
        raise damaged(path, "not JSON that can be read", like) from None
    if not isinstance(found, dict):
        raise damaged(path, f"found {type(found).__name__}, not an object", like)
    return found


def read_toml(path: Path) -> dict[str, Any]:
    """Return the tables of a TOML file. Raises Damaged or Missing."""
    try:
        return tomllib.loads(read_text(path))
    except (ValueError, RecursionError) as error:
        raise damaged(path, f"not TOML ({error})") from None


def _unreadable(path: Path, error: OSError, like: str = "") -> ConvoyError:
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return Missing(path, "found no such file", like)
    if error.errno in (errno.EMFILE, errno.ENFILE):  # too many open files: the file itself is fine
        return ConvoyError(f"{path}: it cannot be read: {reason(error)}")
    found = Damaged(path, f"it cannot be read: {reason(error)}", like)
    found.is_others = isinstance(error, PermissionError) and _is_others(path)
    return found


def _is_others(path: Path) -> bool:
    """Whether the file, or the folder that it is in, belongs to another user."""
    try:
        return path.lstat().st_uid != os.geteuid()
    except OSError:
        return True


class LeftOut:
    """Collects the damaged lines of a file, which its reader leaves out. Called with each of
    them."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._count = 0
        self._first = ""

    def __repr__(self) -> str:
        return f"<{self._count} lines left out of {self._path}>"

    def __call__(self, line: str) -> None:
        """Count one more damaged line, and keep the first for the note."""
        self._count += 1
        self._first = self._first or bounded(line, 200)

    @property
    def notes(self) -> list[str]:
        """One line for people, or an empty list if no line was damaged."""
        lines = "1 damaged line is" if self._count == 1 else f"{self._count} damaged lines are"
        return [f"{self._path}: {lines} left out: {self._first}"] if self._count else []


class Lines:
    """The lines of a file that may still grow. A line longer than LONGEST is given without its
    middle and end, so that its reader finds it damaged."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._at = 0  # the offset in bytes of the first line that was not yet yielded

    def __repr__(self) -> str:
        return f"<lines of {self._path}, read to byte {self._at}>"

    @property
    def read_to(self) -> int:
        """The offset in bytes of the first line that was not yet yielded."""
        return self._at

    def whole(self) -> Iterator[bytes]:
        """Yield the complete lines that were added since the last call. Raises Damaged or
        Missing."""
        yield from self._new(last=False)

    def rest(self) -> Iterator[bytes]:
        """Yield the same lines, and also a last line that has no end of line."""
        yield from self._new(last=True)

    def _new(self, *, last: bool) -> Iterator[bytes]:
        try:
            with regular.opened(self._path) as file:
                file.seek(self._at)
                while line := file.readline(LONGEST):
                    begin = line
                    # skip the rest of a line that is too long
                    while len(line) == LONGEST and not line.endswith(b"\n"):
                        line = file.readline(LONGEST)
                    if not line.endswith(b"\n") and not last:
                        return
                    self._at = file.tell()
                    yield begin if begin is line else begin[:1000] + b" ...\n"
        except OSError as error:
            raise _unreadable(self._path, error) from None
