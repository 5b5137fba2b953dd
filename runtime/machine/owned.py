"""Files and folders of this user: made and opened so that nobody else can put something in their place.

A marked folder holds the file `.convoy`. The process that uses the folder holds a lock on that file, so another
process can tell a folder in use from one that a killed process left, also in another PID namespace or on another host
of a shared file system. Only marked folders are swept. (`ops.cpu.codegen.owned` is the same file for the kernel cache.)
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Self

MARKER = ".convoy"
OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


def open_file(path: Path, flags: int, mode: int = 0o600) -> int:
    """Open a regular file of this user and give its descriptor. A new file has exactly `mode`. PermissionError, in
    words, if `path` is a link, not a regular file, or another user's; nothing was changed then. OSError."""
    try:
        found = os.open(path, flags & ~os.O_TRUNC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, mode)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise PermissionError(errno.EPERM, "it is a link, expected a file of this user", str(path)) from None
        raise
    try:
        _check_file(found, path)
        if flags & os.O_TRUNC:
            os.ftruncate(found, 0)
    except BaseException:
        os.close(found)
        raise
    return found


def _check_file(descriptor: int, path: Path) -> None:
    about = os.fstat(descriptor)
    if not stat.S_ISREG(about.st_mode):
        raise PermissionError(errno.EPERM, "it is not a regular file", str(path))
    if about.st_uid != os.geteuid():
        raise PermissionError(errno.EPERM, "it is another user's file", str(path))


def check_folder(path: Path) -> None:
    """PermissionError, in words, if `path` is a link, not a folder, another user's, or open to writes of others."""
    about = path.lstat()
    if stat.S_ISLNK(about.st_mode):
        raise PermissionError(errno.EPERM, "it is a link, expected a folder of this user", str(path))
    if not stat.S_ISDIR(about.st_mode):
        raise PermissionError(errno.EPERM, "it is not a folder", str(path))
    if about.st_uid != os.geteuid():
        raise PermissionError(errno.EPERM, "it is another user's folder", str(path))
    if about.st_mode & OTHERS_WRITE:
        raise PermissionError(errno.EPERM, f"others may write to it (mode {about.st_mode & 0o7777:o})", str(path))


def make_folder(path: Path) -> None:
    """A marked folder with mode 0700. One that is there must be marked already, or empty, and pass `check_folder`.
    OSError."""
    try:
        path.mkdir(mode=0o700)
    except FileExistsError:
        check_folder(path)
        if not is_marked(path) and any(path.iterdir()):
            raise PermissionError(errno.EPERM, f"it has no {MARKER}: Convoy did not make it", str(path)) from None
    os.close(open_file(path / MARKER, os.O_RDWR | os.O_CREAT))


def is_marked(path: Path) -> bool:
    """Whether `path` is a folder of this user that Convoy made."""
    try:
        check_folder(path)
        os.close(open_file(path / MARKER, os.O_RDONLY))
    except OSError:
        return False
    return True


class Hold:
    """The lock on a marked folder: it is in use. The lock ends with the process, or with `release`. A process that is
    forked keeps it too, until it has ended or has called `forget`."""

    def __init__(self, folder: Path, descriptor: int) -> None:
        self.folder, self._descriptor = folder, descriptor

    def __repr__(self) -> str:
        return f"<hold on {self.folder}>"

    @classmethod
    def take(cls, folder: Path, *, shared: bool = False) -> Self | None:
        """The lock, or None if another process holds it or the folder was removed meanwhile. Several processes may hold
        a `shared` one. OSError if the folder is not ours, or its file system has no locks."""
        check_folder(folder)
        descriptor = open_file(folder / MARKER, os.O_RDWR)
        try:
            fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
            if os.fstat(descriptor).st_ino == (folder / MARKER).lstat().st_ino:
                return cls(folder, descriptor)
        except (BlockingIOError, FileNotFoundError):
            pass
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)
        return None

    def release(self) -> None:
        """The folder is not in use any more. Once."""
        os.close(self._descriptor)

    def remove(self) -> None:
        """Remove the folder, and release the lock. Once."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.release()


def sweep(parent: Path, pattern: str, unused: Callable[[Path], bool] = lambda folder: True) -> None:
    """Remove the marked folders below `parent` that match `pattern`, that no process holds, and that are `unused`."""
    for folder in parent.glob(pattern):
        with suppress(OSError):  # another process sweeps at the same moment, or the folder is not ours
            if is_marked(folder) and unused(folder) and (hold := Hold.take(folder)) is not None:
                hold.remove()
