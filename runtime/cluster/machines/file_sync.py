"""Finding the bytes of the files in a folder that their copies elsewhere do not have yet. A plain
object over a folder.

Logs and traces are sent while they grow. Any other file is sent whole, once two looks in a row have
found it unchanged, or at the last look. Programs therefore make a file (such as a checkpoint)
appear complete, by renaming it. Files whose names begin with a dot are unfinished and are not sent.

The removal of a copied file is sent only after every existing file is copied. In this way a file's
replacement is copied before the file is removed.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import IO

import numpy as np

from runtime.cluster.machines.agent_messages import GONE, GROWING, Piece

PIECE_BYTES = 512 << 10
GROWING_FOLDERS = ("logs", "trace")  # folders of files that grow


class FileSync:
    """Follows the files of a folder.

    `own` has files of the folder that are never copied. They exist as long as the folder is in
    order. If one is missing, the folder is being deleted from outside, so no removal is sent.
    """

    def __init__(self, folder: Path, own: tuple[str, ...] = ()) -> None:
        self._folder = folder
        self._own = own
        self._sent: dict[str, int] = {}  # log -> bytes
        # other file -> its size and time at the last look
        self._seen: dict[str, tuple[int, int]] = {}
        self._copied: dict[str, tuple[int, int]] = {}

    def __repr__(self) -> str:
        return (
            f"<mirror of {self._folder}: {len(self._sent)} logs, {len(self._copied)} other files>"
        )

    def look(self, *, last: bool = False) -> Iterator[Piece]:
        """Yield the new pieces: of each log at most one, unless this is the `last` look."""
        files = {path.relative_to(self._folder).as_posix(): path for path in self._files()}
        for name, path in files.items():
            try:
                if path.parent.name in GROWING_FOLDERS:
                    yield from self._grown(path, name, last)
                else:
                    yield from self._whole(path, name, last)
            except OSError:  # the file was removed meanwhile
                continue
        yield from self._removed(files.keys())

    def _files(self) -> list[Path]:
        found = []
        for folder, _, names in os.walk(self._folder):
            found += [
                Path(folder, name)
                for name in names
                if not name.startswith(".") and name not in self._own
            ]
        return sorted(path for path in found if path.is_file() and not path.is_symlink())

    def _grown(self, path: Path, name: str, last: bool) -> Iterator[Piece]:
        with path.open("rb") as file:
            file.seek(self._sent.get(name, 0))
            while data := file.read(PIECE_BYTES):
                start = self._sent.get(name, 0)
                self._sent[name] = start + len(data)
                yield Piece(
                    path=name, offset=start, rest=GROWING, data=np.frombuffer(data, np.uint8)
                )
                if not last:
                    return

    def _whole(self, path: Path, name: str, last: bool) -> Iterator[Piece]:
        # the open file is the one that is read, also if another file takes its name meanwhile
        with path.open("rb") as file:
            facts = os.fstat(file.fileno())
            now = (facts.st_size, facts.st_mtime_ns)
            steady, self._seen[name] = self._seen.get(name) == now, now
            if self._copied.get(name) == now or not (steady or last):
                return
            self._copied[name] = now
            yield from pieces(name, file, facts.st_size)

    def _removed(self, there: Collection[str]) -> Iterator[Piece]:
        self._seen = {name: facts for name, facts in self._seen.items() if name in there}
        if not all((self._folder / name).exists() for name in self._own):
            return
        if any(self._copied.get(name) != facts for name, facts in self._seen.items()):
            return
        for name in sorted(self._copied.keys() - there):
            del self._copied[name]
            yield Piece(path=name, offset=0, rest=GONE, data=np.empty(0, np.uint8))


def pieces(name: str, file: IO[bytes], size: int) -> Iterator[Piece]:
    """Yield the pieces of a file of `size` bytes that is copied whole."""
    offset = 0
    while True:
        data = file.read(min(PIECE_BYTES, size - offset))
        rest = size - offset - len(data) if data else 0
        yield Piece(path=name, offset=offset, rest=rest, data=np.frombuffer(data, np.uint8))
        offset += len(data)
        if not rest:
            return
