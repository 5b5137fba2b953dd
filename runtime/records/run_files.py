"""The files of a run directory, read in one way: only regular files, of bounded size, and what is
wrong with one is told in one way. A file may be half-written, damaged, or something else under its
name.

    runs/x/plan.json: it is damaged: not JSON (line 3, column 5);
        expected the plan of a run; `status` works without it

A reader that can do without the file catches Damaged, and tells its text.
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

LONGEST = 16 << 20  # bytes of a line: a longer one is damaged


@dataclass(frozen=True)
class Kind:
    """A file of every run directory. `what` it should be; `most` bytes; `mend`: what a person can
    do, or what works without the file."""

    what: str
    mend: str
    most: int = 1 << 20


KINDS = {
    "run.json": Kind("the identity of a run", "the run goes by what its journal says"),
    "config.toml": Kind(
        "the configuration of a run", ("a copy of its cluster.toml can take the place")
    ),
    "said.toml": Kind(
        ("what cluster.toml said before the run was scaled"),
        "without it the run counts as not scaled",
    ),
    "plan.json": Kind(
        "the plan of a run by this version of Convoy",
        "`ps`, `status`, `events`, `logs`, `report` and `down` work without it",
        256 << 20,
    ),
    "versions.json": Kind("the versions that a run used", "nothing else needs it"),
    "tuning.json": Kind(
        "the record of a run with a tuner",
        ("the record of another run can take its place"),
        64 << 20,
    ),
    "events.jsonl": Kind("the journal of a run", "only the journal says what happened in the run"),
    "usage.jsonl": Kind("what each process of a run has done", "the report works without it"),
    "trace.json": Kind("the trace of a run", "the report works without it"),
    "clocks.json": Kind(
        "the clocks of a traced run",
        ("without it the parts of a trace cannot be joined: remove them"),
    ),
}
_LOCK = Kind(
    "the lock of an `up`", ("remove it if no `up` runs on any host that shares the folder"), 2048
)
_OTHER = Kind("a file of a run", "the other files work without it")


def kind_of(path: Path) -> Kind:
    """What a file of this name should be."""
    return _LOCK if path.suffix == ".lock" else KINDS.get(path.name, _OTHER)


class Damaged(ConfigError):
    """A file of a run directory cannot be read, or is not what its name says. `is_others`: it is
    another user's."""

    is_others = False

    def __init__(self, path: Path, found: str, like: str = "") -> None:
        kind = kind_of(Path(like) if like else path)
        super().__init__([f"{path}: {found}; expected {kind.what}; {kind.mend}"])


class Missing(Damaged):
    """There is no such file."""


def damaged(path: Path, why: str | Exception, like: str = "") -> Damaged:
    """The error of a file whose content is not what its name says. `why` may be the error of who
    tried to read it."""
    return Damaged(
        path, (f"it is damaged: {f'no {why} in it' if isinstance(why, KeyError) else why}"), like
    )


def read_bytes(path: Path, like: str = "") -> bytes:
    """The whole file; `like`: the name of the file in a run directory that it is, where it has
    another. Damaged, Missing."""
    try:
        return regular.read_bytes(path, kind_of(Path(like) if like else path).most)
    except OSError as error:
        raise _unreadable(path, error, like) from None


def read_text(path: Path, like: str = "") -> str:
    """The whole file, which should be UTF-8; `like` as in `read_bytes`. Damaged, Missing."""
    try:
        return read_bytes(path, like).decode()
    except UnicodeDecodeError as error:
        raise damaged(path, f"byte {error.start} is not UTF-8", like) from None


def read_json(path: Path, like: str = "") -> dict[str, Any]:
    """The JSON object in a file; `like` as in `read_bytes`. Damaged, Missing."""
    text = read_text(path, like)
    try:
        found = json.loads(text)
    except json.JSONDecodeError as error:
        raise damaged(path, f"not JSON (line {error.lineno}, column {error.colno})", like) from None
    except (ValueError, RecursionError):  # a number of thousands of digits; arrays in arrays
        raise damaged(path, "not JSON that can be read", like) from None
    if not isinstance(found, dict):
        raise damaged(path, f"found {type(found).__name__}, not an object", like)
    return found


def read_toml(path: Path) -> dict[str, Any]:
    """The tables in a file. Damaged, Missing."""
    try:
        return tomllib.loads(read_text(path))
    except (ValueError, RecursionError) as error:
        raise damaged(path, f"not TOML ({error})") from None


def _unreadable(path: Path, error: OSError, like: str = "") -> ConvoyError:
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return Missing(path, "found no such file", like)
    if error.errno in (errno.EMFILE, errno.ENFILE):  # nothing is wrong with the file
        return ConvoyError(f"{path}: it cannot be read: {reason(error)}")
    found = Damaged(path, f"it cannot be read: {reason(error)}", like)
    found.is_others = isinstance(error, PermissionError) and _is_others(path)
    return found


def _is_others(path: Path) -> bool:
    """Whether it is another user's file, or one in another user's folder."""
    try:
        return path.lstat().st_uid != os.geteuid()
    except OSError:
        return True


class LeftOut:
    """Called with each damaged line of a file, which its reader leaves out."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._count = 0
        self._first = ""

    def __repr__(self) -> str:
        return f"<{self._count} lines left out of {self._path}>"

    def __call__(self, line: str) -> None:
        """One more."""
        self._count += 1
        self._first = self._first or bounded(line, 200)

    @property
    def notes(self) -> list[str]:
        """One line for people; none if no line was damaged."""
        lines = "1 damaged line is" if self._count == 1 else f"{self._count} damaged lines are"
        return [f"{self._path}: {lines} left out: {self._first}"] if self._count else []


class Lines:
    """The lines of a file that may grow. A line that is longer than LONGEST is given without its
    middle and end, so it is damaged for whoever reads it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._at = 0  # of the first line that was not given

    def __repr__(self) -> str:
        return f"<lines of {self._path}, read to byte {self._at}>"

    def whole(self) -> Iterator[bytes]:
        """The lines since the last time, each with its end. Damaged, Missing."""
        yield from self._new(last=False)

    def rest(self) -> Iterator[bytes]:
        """The same, and a last line that has no end."""
        yield from self._new(last=True)

    def _new(self, *, last: bool) -> Iterator[bytes]:
        try:
            with regular.opened(self._path) as file:
                file.seek(self._at)
                while line := file.readline(LONGEST):
                    begin = line
                    # go on to the end of the line
                    while len(line) == LONGEST and not line.endswith(b"\n"):
                        line = file.readline(LONGEST)
                    if not line.endswith(b"\n") and not last:
                        return
                    self._at = file.tell()
                    yield begin if begin is line else begin[:1000] + b" ...\n"
        except OSError as error:
            raise _unreadable(self._path, error) from None
