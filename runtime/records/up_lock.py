"""The lock that `up` holds from its first run to its last, next to the run directories.

The lock is a file, `.up-ID.lock`. Its owner holds an flock on it, and writes into it who holds it, which run is the
present one, and every two seconds the time. A process on the same kernel asks the flock; a process on another host of a
shared file system reads the time. A file `.up-ID.end` beside it asks `up` to end, from wherever the folder is reached.

    .up-ID.lock   {"up": ID, "host": .., "boot": .., "pid": .., "run": .., "state": .., "renewed": ..}
    .up-ID.end    {"now": false}
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import math
import os
import platform
import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from runtime.machine import owned
from runtime.machine.boot import boot_id
from runtime.records import files

RENEW_SECONDS, LISTEN_SECONDS = 2.0, 0.25
SIZE = 2048  # bytes of the file, always: it is written in one piece
LOCK, END = ".lock", ".end"
RUNNING, BETWEEN, CHOOSING = "running", "between two runs", "choosing a preset"  # what `up` is at


@dataclass(frozen=True)
class Holder:
    """What the file of a lock says: the host and the process that hold it, the name of the present run directory, what
    `up` is at, and when that was renewed, in seconds since 1970."""

    up: str
    host: str
    boot: str
    pid: int
    run: str = ""
    state: str = RUNNING
    renewed: float = 0.0


def path_of(folder: Path, up: str, suffix: str = LOCK) -> Path:
    """The file of a lock, or of the wish that it ends."""
    return folder / f".up-{up}{suffix}"


def read(path: Path) -> Holder:
    """What the file of a lock says. Damaged; Missing if there is none."""
    said = files.read_json(path)
    try:
        holder = Holder(**said)
        texts = (holder.up, holder.host, holder.boot, holder.run, holder.state)
        renewed = float(holder.renewed)
        whole = all(isinstance(text, str) and text.isprintable() for text in texts) and math.isfinite(renewed)
        whole = whole and Path(holder.run).name == holder.run and path == path_of(path.parent, holder.up)
    except (TypeError, ValueError, OverflowError):
        whole = False
    if not whole:
        raise files.damaged(path, "found other fields")
    return replace(holder, renewed=renewed)


class UpLock:
    """Entered, it holds the lock of one `up` in a folder of runs. `on_wish(now)` is called in the thread of the lock as
    long as somebody asks for the end; `tell` hears in words what goes wrong. OSError if the folder takes no file."""

    def __init__(self, folder: Path, tell: Callable[[str], None]) -> None:
        self._folder, self._tell = folder, tell
        self.on_wish: Callable[[bool], None] = lambda now: None
        self._holder = Holder(secrets.token_hex(8), platform.node(), boot_id(), os.getpid())
        self._path = path_of(folder, self.up)
        self._writing, self._news, self._over = threading.Lock(), threading.Event(), threading.Event()
        self._complained = False

    def __repr__(self) -> str:
        return f"<lock of up {self.up}: {self._holder.run or 'no run yet'}, {self._holder.state}>"

    @property
    def up(self) -> str:
        """The id of this `up`."""
        return self._holder.up

    def __enter__(self) -> Self:
        self._folder.mkdir(parents=True, exist_ok=True)
        sweep(self._folder)
        part = path_of(self._folder, self.up, ".new")
        self._descriptor = owned.open_file(part, os.O_RDWR | os.O_CREAT | os.O_EXCL)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._tell(
                f"{self._folder}: {error.strerror}: whether this `up` lives is told by the time of its lock alone"
            )
        os.pwrite(self._descriptor, self._content(), 0)
        part.rename(self._path)  # nobody sees a lock that is not held yet
        self._thread = threading.Thread(target=self._keep, daemon=True, name="lock of up")
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._news.set()
        self._thread.join()
        for path in (path_of(self._folder, self.up, END), self._path):
            with contextlib.suppress(OSError):
                path.unlink()
        os.close(self._descriptor)

    def says(self, state: str, run: str | None = None) -> None:
        """What `up` is at from now on; `run`: the directory of the present run, where it is another. The thread of the
        lock writes it down at once."""
        with self._writing:
            self._holder = replace(self._holder, state=state, run=self._holder.run if run is None else run)
        self._news.set()

    # -- in its thread

    def _keep(self) -> None:
        due = 0.0
        while not self._over.is_set():
            if self._news.wait(LISTEN_SECONDS) or time.monotonic() >= due:
                self._news.clear()
                self._renew()
                due = time.monotonic() + RENEW_SECONDS
            if not self._over.is_set() and (wished := wish_of(self._folder, self.up)) is not None:
                self.on_wish(wished)

    def _renew(self) -> None:
        """Each time through a descriptor of its own: closing that is what shows the time to other hosts of a network
        file system."""
        try:
            descriptor = owned.open_file(self._path, os.O_WRONLY)
            try:
                with self._writing:
                    os.pwrite(descriptor, self._content(), 0)
            finally:
                os.close(descriptor)
        except OSError as error:
            if not self._complained:
                self._complained = True
                text = f"{self._path}: {error.strerror}: it is not renewed, and other hosts may take this run for over"
                self._tell(text)

    def _content(self) -> bytes:
        text = json.dumps(asdict(replace(self._holder, renewed=time.time())))
        return text.encode().ljust(SIZE - 1) + b"\n"


def wish_of(folder: Path, up: str) -> bool | None:
    """Whether somebody who may write to the files of this `up` wants it to end: False: well, True: at once."""
    try:
        descriptor = owned.open_file(path_of(folder, up, END), os.O_RDONLY)
    except OSError:
        return None
    with os.fdopen(descriptor, "rb") as file:
        try:
            said: Any = json.loads(file.read(SIZE))
        except (ValueError, RecursionError):
            return None
    return bool(said.get("now")) if isinstance(said, dict) else None


def ask_to_end(folder: Path, up: str, *, now: bool) -> None:
    """Ask the `up` that holds this lock to end. OSError."""
    part = path_of(folder, up, f".{secrets.token_hex(4)}")
    descriptor = owned.open_file(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    with os.fdopen(descriptor, "w") as file:
        file.write(json.dumps({"now": now}))
    part.rename(path_of(folder, up, END))


def sweep(folder: Path) -> None:
    """Remove the locks of this kernel that no process holds: their `up` was killed."""
    for path in folder.glob(f".up-*{LOCK}"):
        with contextlib.suppress(OSError, files.Damaged):
            holder = read(path)
            if holder.boot != boot_id() and holder.host != platform.node():
                continue
            descriptor = owned.open_file(path, os.O_RDWR)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                path.unlink()
                path_of(folder, holder.up, END).unlink(missing_ok=True)
            finally:
                os.close(descriptor)
