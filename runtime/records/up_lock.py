"""The lock that `up` holds from its first run to its last, next to the run directories. `lock_file`
has its format.

A dedicated thread renews the lock. Observers therefore see that `up` lives, also while its event
loop is busy.
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
from dataclasses import asdict, replace
from pathlib import Path
from types import TracebackType
from typing import Self

from runtime.machine import forks, owned
from runtime.machine.boot import boot_id
from runtime.reasons import reason
from runtime.records.lock_file import NEW, RENEW_SECONDS, SIZE, Holder, inode_of, path_of
from runtime.records.sweeping import beside, sweep
from runtime.records.wishes import wish_of

LISTEN_SECONDS = 0.25


class UpLock:
    """A context manager that holds the lock of one `up` in a folder of runs.

    `on_wish(now)` is called in the thread of the lock, again and again, as long as a wish exists
    that `up` ends. `tell` is called with a text for people when something fails. Entering raises
    OSError if no file can be made in the folder.
    """

    def __init__(self, folder: Path, tell: Callable[[str], None]) -> None:
        self._folder = folder.absolute()  # the working directory of a script may change
        self._tell = tell
        self.on_wish: Callable[[bool], None] = lambda now: None
        self._holder = Holder(secrets.token_hex(8), platform.node(), boot_id(), os.getpid())
        self._path = path_of(self._folder, self.up)
        self._writing = threading.Lock()
        self._news = threading.Event()
        self._over = threading.Event()
        self._complained = False

    def __repr__(self) -> str:
        return f"<lock of up {self.up}: {self._holder.run or 'no run yet'}, {self._holder.state}>"

    @property
    def up(self) -> str:
        """The id of this `up`."""
        return self._holder.up

    def __enter__(self) -> Self:
        sweep(self._folder)
        self._descriptor = self._made()
        self._thread = threading.Thread(target=self._keep, daemon=True, name="lock of up")
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if os.getpid() != self._holder.pid:  # a forked child: the lock belongs to its parent
            return
        self._over.set()
        self._news.set()
        self._thread.join()
        for path in (*beside(self._path), self._path):
            with contextlib.suppress(OSError):
                path.unlink()
        forks.close(self._descriptor)

    def _made(self) -> int:
        """Make the lock file and return its descriptor. The file gets its final name only after it
        is locked. Raises OSError."""
        self._folder.mkdir(parents=True, exist_ok=True)  # it may have been removed during the run
        part = path_of(self._folder, self.up, NEW)
        descriptor = owned.open_file(part, os.O_RDWR | os.O_CREAT | os.O_EXCL)
        try:
            self._take(descriptor)
            with self._writing:
                self._holder = replace(self._holder, inode=inode_of(os.fstat(descriptor)))
                os.pwrite(descriptor, self._content(), 0)
            part.rename(self._path)
        except BaseException:
            os.close(descriptor)
            part.unlink(missing_ok=True)
            raise
        forks.keep_from_children(descriptor)
        return descriptor

    def _take(self, descriptor: int) -> None:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            alone = "other processes can see only by the time in the lock whether this `up` lives"
            self._tell(f"{self._folder}: {reason(error)}: {alone}")

    def says(self, state: str, run: str | None = None) -> None:
        """Set the state of `up` and, if `run` is given, the directory of the current run. The
        thread of the lock writes both at once."""
        with self._writing:
            self._holder = replace(
                self._holder, state=state, run=self._holder.run if run is None else run
            )
        self._news.set()

    # -- called in the lock's thread

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
        """Write the time into the lock through a new descriptor. Hosts of a network file system see
        the new time when this descriptor is closed. A lock file that was removed is made again."""
        try:
            try:
                descriptor = owned.open_file(self._path, os.O_WRONLY)
            except FileNotFoundError:
                before = self._descriptor
                self._descriptor = self._made()
                forks.close(before)
                return
            try:
                with self._writing:
                    os.pwrite(descriptor, self._content(), 0)
            finally:
                os.close(descriptor)
        except OSError as error:
            if not self._complained:
                self._complained = True
                text = (
                    f"{self._path}: {reason(error)}: the lock is not renewed, so other hosts "
                    "may treat this run as ended"
                )
                self._tell(text)

    def _content(self) -> bytes:
        text = json.dumps(asdict(replace(self._holder, renewed=time.time())))
        return text.encode().ljust(SIZE - 1) + b"\n"
