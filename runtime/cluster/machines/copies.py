"""Copies of another machine's files, made of the pieces in which they come. Nothing is written outside their folder,
and nothing removed that did not come."""

from __future__ import annotations

import os
import re
from pathlib import Path

from runtime.cluster.machines.words import GONE, GROWING, Piece
from runtime.errors import MessageError

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,254}")
DEPTH = 4


class Copies:
    """Of one machine, below `folder`. `own`: what is there already and not theirs."""

    def __init__(self, folder: Path, own: tuple[str, ...] = ()) -> None:
        self._folder, self._own = folder, own
        self._growing: dict[str, int] = {}  # bytes that are there of each file that comes whole
        self._whole: set[str] = set()  # files that came

    def __repr__(self) -> str:
        return f"<copies in {self._folder}, {len(self._growing)} of them half done>"

    def take(self, piece: Piece) -> None:
        """MessageError if it may not be here, or does not follow what came before; OSError if it cannot be written."""
        path = self._place(piece.path)
        data = piece.data.tobytes()
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if piece.rest == GONE:
            self._remove(piece.path, path)
            return
        if piece.rest == GROWING:
            with path.open("ab") as file:
                file.write(data)
            return
        half = path.with_name(f".{path.name}.{os.getpid()}.half")
        here = self._growing.pop(piece.path, 0) if piece.offset else 0
        if here != piece.offset:
            raise MessageError("bad_piece", f"{piece.path}: bytes from {piece.offset} on, expected them from {here} on")
        with half.open("ab" if here else "wb") as file:
            file.write(data)
        if piece.rest:
            self._growing[piece.path] = here + len(data)
        else:
            half.replace(path)
            self._whole.add(piece.path)

    def close(self) -> None:
        """Nothing more comes: what is half done is nothing."""
        for name in self._growing:
            path = self._place(name)
            path.with_name(f".{path.name}.{os.getpid()}.half").unlink(missing_ok=True)
        self._growing.clear()

    def _remove(self, name: str, path: Path) -> None:
        if name not in self._whole:
            raise MessageError("bad_piece", f"{name}: to be removed, but it never came")
        self._whole.discard(name)
        path.unlink(missing_ok=True)

    def _place(self, name: str) -> Path:
        parts = name.split("/")
        if len(parts) > DEPTH or not all(map(_NAME.fullmatch, parts)) or name in self._own:
            raise MessageError("bad_piece", f"{name!r:.80} is no file that a machine may leave in a run directory")
        return self._folder.joinpath(*parts)
