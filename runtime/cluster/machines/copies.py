"""Copies of another machine's files, put together from the pieces that its agent sends.

The machine may belong to another person. It can write only names of its allow list, never through a
link, and never over a file that exists and did not come from it. It can remove only files that came
from it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from fnmatch import fnmatchcase
from pathlib import Path
from typing import IO

from runtime.cluster.machines.agent_messages import GONE, GROWING, Piece
from runtime.cluster.machines.file_sync import GROWING_FOLDERS
from runtime.errors import MessageError

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,254}")
DEPTH = 4
# folders with separate files of each process: a wildcard never matches them
FOLDERS = (*GROWING_FOLDERS, "service-times")


class Copies:
    """The copies of one machine's files, below `folder`.

    `allowed` has patterns of the names that the machine may write, compared folder by folder. `own`
    has top-level names that no machine may write, whatever the patterns allow.
    """

    def __init__(self, folder: Path, allowed: Iterable[str], own: Iterable[str] = ()) -> None:
        self._folder = folder
        self._allowed = [pattern.split("/") for pattern in allowed]
        self._own = frozenset(name.casefold() for name in own)
        self._growing: dict[str, int] = {}  # bytes copied so far of each unfinished file
        self._whole: set[str] = set()  # files that were copied completely
        self._logs: set[str] = set()  # growing files, of which a first piece was copied

    def __repr__(self) -> str:
        return f"<copies in {self._folder}, {len(self._growing)} of them half done>"

    def take(self, piece: Piece) -> None:
        """Write a piece. Raises MessageError if the file is not allowed here, or if the piece does
        not follow the one before. Raises OSError if it cannot be written."""
        path = self._place(piece.path)
        data = piece.data.tobytes()
        if piece.rest == GONE:
            self._remove(piece.path, path)
            return
        self._check_free(piece.path, path)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if piece.rest == GROWING:
            with _opened(path, os.O_APPEND) as file:
                self._logs.add(piece.path)
                file.write(data)
            return
        half = _half(path)
        here = self._growing.pop(piece.path, 0) if piece.offset else 0
        if here != piece.offset:
            raise MessageError(
                "bad_piece",
                (f"{piece.path}: bytes from {piece.offset} on, expected them from {here} on"),
            )
        with _opened(half, os.O_APPEND if here else os.O_TRUNC) as file:
            file.write(data)
        if piece.rest:
            self._growing[piece.path] = here + len(data)
        else:
            half.replace(path)
            self._whole.add(piece.path)

    def close(self) -> None:
        """Remove the unfinished files, since no more pieces come."""
        for name in self._growing:
            _half(self._folder / name).unlink(missing_ok=True)
        self._growing.clear()

    def _remove(self, name: str, path: Path) -> None:
        if name not in self._whole:
            raise MessageError(
                "bad_piece", f"{name}: its removal was sent, but not the file itself"
            )
        self._whole.discard(name)
        path.unlink(missing_ok=True)

    def _place(self, name: str) -> Path:
        """Return the path of a file of this name. Raises MessageError if the name is not allowed,
        or if a link is on the path."""
        parts = name.split("/")
        if (
            len(parts) > DEPTH
            or not all(map(_NAME.fullmatch, parts))
            or parts[0].casefold() in self._own
        ):
            raise MessageError(
                "bad_piece",
                (f"{name!r:.80} is not a file that a machine may leave in a run directory"),
            )
        if not any(_matches(parts, pattern) for pattern in self._allowed):
            text = (
                f"{name!r:.80} is not a file of the processes of this machine, and no role "
                "of its actors declares it"
            )
            raise MessageError("bad_piece", f"{text} (Actor.writes)")
        for depth in range(1, len(parts) + 1):
            if self._folder.joinpath(*parts[:depth]).is_symlink():
                raise MessageError(
                    "bad_piece", (f"{name!r:.80}: {'/'.join(parts[:depth])} is a link here")
                )
        return self._folder.joinpath(*parts)

    def _check_free(self, name: str, path: Path) -> None:
        if name not in self._whole and name not in self._logs and os.path.lexists(path):
            raise MessageError(
                "bad_piece", (f"{name!r:.80} is here already, and did not come from this machine")
            )


def _matches(parts: list[str], pattern: list[str]) -> bool:
    if parts[0] in FOLDERS and parts[0] != pattern[0]:
        return False
    return len(parts) == len(pattern) and all(map(fnmatchcase, parts, pattern))


def _half(path: Path) -> Path:
    return path.with_name(f".{path.name}.{os.getpid()}.half")


def _opened(path: Path, more: int) -> IO[bytes]:
    """Open a file for writing. Raises OSError if the path is a link."""
    return os.fdopen(
        os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | more, 0o600), "wb"
    )
