"""The file in which a run lists its metrics pages for Prometheus, in the form of `file_sd`. All
runs of a user on a host have their files in one folder, so Prometheus is configured once.

    NAME.json     the targets; written anew and renamed when they change, removed when the run ends
    .NAME.lock    locked as long as the run lives

A killed `up` leaves both, so its targets are known to be down (the alert ConvoyProcessDown). A live
run touches its file every minute. A file that no process holds and that was not touched for
LEFT_SECONDS is removed by the next run that starts, or by one that goes on.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import platform
import secrets
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from runtime.machine import forks, owned
from runtime.reasons import reason
from runtime.records.lock_file import is_held
from runtime.records.sweeping import LEFT_SECONDS

LOOK_SECONDS = 1.0  # between two looks at the targets
TOUCH_SECONDS = 60.0
CLOSE_SECONDS = 2.0  # the longest wait for a slow disk at the end of a run
READABLE = 0o644  # Prometheus may be another user
LOCK = ".lock"
NEW = ".new"

Targets = Callable[[], list[dict[str, Any]]]


def folder_of(said: str | None) -> Path | None:
    """Return the folder that `metrics.targets` names, None for "". By default it is
    `convoy/targets/HOST` in the folder of states (XDG_STATE_HOME). The name of the host is in it
    since a home may be shared by hosts, and most addresses are loopback's.

    Raises RuntimeError if the user has no home.
    """
    if said is not None:
        return Path(said).expanduser().absolute() if said else None
    state = os.environ.get("XDG_STATE_HOME", "")
    # a relative path in this variable is invalid, as its specification says
    home = Path(state) if Path(state).is_absolute() else Path.home() / ".local" / "state"
    return home / "convoy" / "targets" / platform.node()


class TargetFile:
    """Keeps the file of a run in `folder` as `targets` returns them, in a thread of its own, from
    the start to `close`. Trouble with the file never ends a run: `tell` is called once with a text
    for people, and writing is tried again."""

    def __init__(
        self, folder: Path, run: str, targets: Targets, tell: Callable[[str], object]
    ) -> None:
        self._folder = folder
        self._stem = f"{run}.{os.getpid()}-{secrets.token_hex(2)}"
        self.path = folder / f"{self._stem}.json"
        self._targets = targets
        self._tell = tell
        self._held: int | None = None  # the descriptor of the lock
        self._written = ""
        self._due = 0.0
        self._has_told = False
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._keep, daemon=True, name="targets")
        self._thread.start()

    def __repr__(self) -> str:
        return f"<targets of a run in {self.path}>"

    def close(self) -> None:
        """Remove the file: the run has ended and its end is known."""
        self._over.set()
        self._thread.join(CLOSE_SECONDS)

    # -- called in the thread

    def _keep(self) -> None:
        while not self._over.is_set():
            try:
                self._look()
            except OSError as error:
                self._complain(error)
            except RuntimeError:  # a process joined the run meanwhile: the next look has it
                pass
            self._over.wait(LOOK_SECONDS)
        with contextlib.suppress(OSError):
            _remove(self._folder, self._stem)
        if self._held is not None:
            forks.close(self._held)

    def _look(self) -> None:
        """Write the targets if they have changed. A folder or file that was removed is made
        again."""
        if time.monotonic() >= self._due:
            sweep(self._folder)
            self._due = time.monotonic() + TOUCH_SECONDS
            if self.path.exists():
                os.utime(self.path)
        text = json.dumps(self._targets(), indent=1)
        if text == self._written and self.path.exists():
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        self._lock()
        part = self._folder / f".{self._stem}{NEW}"
        part.unlink(missing_ok=True)
        descriptor = owned.open_file(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, READABLE)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        part.rename(self.path)
        self._written = text

    def _lock(self) -> None:
        """Hold the lock file, which is made anew if it was removed."""
        path = self._folder / f".{self._stem}{LOCK}"
        if path.exists():
            return
        descriptor = owned.open_file(path, os.O_RDWR | os.O_CREAT | os.O_EXCL)
        if self._held is not None:
            forks.close(self._held)
        forks.keep_from_children(descriptor)
        self._held = descriptor
        with contextlib.suppress(OSError):  # without locks no other run removes the file
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def _complain(self, error: OSError) -> None:
        if not self._has_told:
            self._has_told = True
            self._tell(
                f"{self._folder}: {reason(error)}: Prometheus cannot find this run by its file "
                "there; set metrics.targets to another folder, or to '' for no file"
            )


def sweep(folder: Path) -> None:
    """Remove the files of this user's runs that were killed some time ago. Files of other users,
    and files that no run has made, stay."""
    for lock in folder.glob(f".*{LOCK}"):
        stem = lock.name[1 : -len(LOCK)]
        with contextlib.suppress(OSError):
            if lock.stat().st_uid == os.geteuid() and is_held(lock) is False:
                files = (path for path in _files(folder, stem) if path.exists())
                if time.time() - max(path.stat().st_mtime for path in files) > LEFT_SECONDS:
                    _remove(folder, stem)


def _remove(folder: Path, stem: str) -> None:
    for path in _files(folder, stem):
        path.unlink(missing_ok=True)


def _files(folder: Path, stem: str) -> tuple[Path, ...]:
    """The files of a run. The lock is the last: whatever else is left belongs to it."""
    return folder / f"{stem}.json", folder / f".{stem}{NEW}", folder / f".{stem}{LOCK}"
