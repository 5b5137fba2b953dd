"""Files and folders of this user, made and opened so that no other user can replace them.

A marked folder holds the file `.convoy`. The process that uses the folder holds a lock on that
file. Other processes can thus distinguish a folder in use from a folder that a killed process left,
also from another PID namespace or another host of a shared file system. Only marked folders are
swept. `runtime/machine` and `ops/cpu/codegen` contain the same file, because neither may import the
other.
"""

from __future__ import annotations

import errno
import fcntl
import grp
import os
import pwd
import shutil
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Self

MARKER = ".convoy"
OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
# the errors of file systems without locks
WITHOUT_LOCKS = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS)
MOST_LINKS = 40  # links on the path to one folder: Linux's limit

_holds: set[Hold] = set()  # the holds of this process; a forked child forgets them


class NotOurs(PermissionError):
    """A file or folder that this user did not make, or that others may replace. The text gives the
    path and the reason."""


def _not_ours(path: Path, why: str) -> NotOurs:
    return NotOurs(errno.EPERM, why, str(path))


def open_file(path: Path, flags: int, mode: int = 0o600) -> int:
    """Open a regular file of this user and return its descriptor. A new file has exactly `mode`,
    whatever the umask is.

    Raises NotOurs, with a text for people, if `path` is a link, not a regular file, or a file of
    another user. Nothing is changed in that case. Raises OSError.
    """
    plain = (
        flags & ~(os.O_CREAT | os.O_EXCL | os.O_TRUNC)
        | os.O_NOFOLLOW
        | os.O_NONBLOCK
        | os.O_CLOEXEC
    )
    while True:
        if flags & os.O_CREAT:
            try:
                return _made(path, plain, mode)
            except FileExistsError:
                if flags & os.O_EXCL:
                    raise
        try:
            return _found(path, plain, empty=bool(flags & os.O_TRUNC))
        except FileNotFoundError:
            if not flags & os.O_CREAT:  # with O_CREAT, the file was removed a moment ago: try again
                raise


def _made(path: Path, flags: int, mode: int) -> int:
    """Make a new file, which counts as ours even if the file system shows another owner."""
    descriptor = os.open(path, flags | os.O_CREAT | os.O_EXCL, mode)
    try:
        if stat.S_IMODE(os.fstat(descriptor).st_mode) != mode:
            os.fchmod(descriptor, mode)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _found(path: Path, flags: int, *, empty: bool) -> int:
    try:
        descriptor = os.open(path, flags)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise _not_ours(path, "it is a link, expected a file of this user") from None
        if error.errno == errno.ENXIO:  # a named pipe without a reader, a socket
            raise _not_ours(path, "it is not a regular file") from None
        raise
    about = os.fstat(descriptor)
    why = ""
    if not stat.S_ISREG(about.st_mode):
        why = "it is not a regular file"
    elif about.st_uid != os.geteuid():
        why = "it is another user's file"
    elif empty and about.st_nlink > 1:
        why = "it has other names too (hard links), and would be emptied under all of them"
    if why:
        os.close(descriptor)
        raise _not_ours(path, why)
    if empty:
        os.ftruncate(descriptor, 0)
    return descriptor


def check_folder(path: Path) -> None:
    """Raise NotOurs, with a text for people, if `path` is a link, not a folder, a folder of another
    user, or open to writes of others. Raises OSError."""
    about = path.lstat()
    if stat.S_ISLNK(about.st_mode):
        raise _not_ours(path, "it is a link, expected a folder of this user")
    if not stat.S_ISDIR(about.st_mode):
        raise _not_ours(path, "it is not a folder")
    if about.st_uid != os.geteuid():
        raise _not_ours(path, "it is another user's folder")
    if about.st_mode & OTHERS_WRITE:
        raise _not_ours(
            path, (f"others may write to it (mode {about.st_mode & 0o7777:o}): chmod go-w {path}")
        )


def check_way(path: Path) -> None:
    """Raise NotOurs, with a text for people, if another user can replace files in the folder
    `path`.

    Each folder and link on the path must belong to this user or to the system. Others may write
    only to folders with the sticky bit. Raises OSError.
    """
    # in a user namespace, root's files may show another user id
    trusted = {0, os.geteuid(), Path("/").lstat().st_uid}
    here = Path("/")
    ahead = list(reversed(path.absolute().parts[1:]))
    links = 0
    while ahead:
        part = ahead.pop()
        about = (here / part).lstat()
        if about.st_uid not in trusted:
            raise _not_ours(here / part, "it is another user's")
        if stat.S_ISLNK(about.st_mode):
            links += 1
            if links > MOST_LINKS:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
            target = (here / part).readlink()
            ahead += reversed(target.parts[target.is_absolute() :])
            here = Path("/") if target.is_absolute() else here
            continue
        here = here.parent if part == ".." else here / part
        others = about.st_mode & (stat.S_IWOTH if _is_alone_in(about.st_gid) else OTHERS_WRITE)
        if others and not about.st_mode & stat.S_ISVTX:
            raise _not_ours(
                here,
                (
                    f"others may write to it (mode {about.st_mode & 0o7777:o}) "
                    "and replace its content"
                ),
            )


def _is_alone_in(group: int) -> bool:
    """Whether only this user and root are in a group, as on systems where each user has a private
    group of the same name."""
    if group == 0:
        return True
    try:
        found = grp.getgrgid(group)
        name = pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return False
    return found.gr_name == name and set(found.gr_mem) <= {name}


def make_folder(path: Path) -> None:
    """Make a marked folder with mode 0700. A folder that exists must pass `check_folder`, and must
    be marked or empty. Raises OSError."""
    while True:
        try:
            path.mkdir(mode=0o700)
            is_new = True
        except FileExistsError:
            is_new = False
        with suppress(FileNotFoundError):  # a sweep has just removed it: try again
            _mark(path, is_new=is_new)
            return


def _mark(path: Path, *, is_new: bool) -> None:
    if is_new and path.lstat().st_mode & 0o700 != 0o700:  # the umask removed some bits
        path.chmod(0o700)
    check_folder(path)
    names = [entry.name for entry in path.iterdir()]
    if names and MARKER not in names:  # the marker is made first and removed last
        raise _not_ours(path, f"it has no {MARKER}: Convoy did not make it")
    os.close(open_file(path / MARKER, os.O_RDWR | os.O_CREAT))


def remove_folder(path: Path) -> None:
    """Remove a marked folder. Its marker is removed last, so that a half-removed folder still
    counts as ours. Files that cannot be removed stay."""
    with suppress(OSError):
        check_folder(path)
        for entry in list(os.scandir(path)):
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path, ignore_errors=True)
            elif entry.name != MARKER:
                Path(entry.path).unlink(missing_ok=True)
        (path / MARKER).unlink(missing_ok=True)
        path.rmdir()


def is_marked(path: Path) -> bool:
    """Whether `path` is a folder of this user that Convoy made."""
    try:
        check_folder(path)
        os.close(open_file(path / MARKER, os.O_RDONLY))
    except OSError:
        return False
    return True


class Hold:
    """The lock on a marked folder, which shows that the folder is in use.

    The lock ends with this process, or with `release`. Forked children do not have it. On a file
    system without locks, `locked` is False and no process sweeps the folder.
    """

    def __init__(self, folder: Path, descriptor: int) -> None:
        self.folder = folder
        self.locked = False
        self._descriptor: int | None = descriptor
        _holds.add(self)

    def __repr__(self) -> str:
        state = (
            "released"
            if self._descriptor is None
            else "locked"
            if self.locked
            else "without a lock"
        )
        return f"<hold on {self.folder}, {state}>"

    @classmethod
    def take(cls, folder: Path, *, shared: bool = False) -> Self | None:
        """Return the lock, or None if another process holds it or the folder was removed meanwhile.
        Several processes may hold a `shared` lock. Raises OSError if the folder is not ours."""
        try:
            check_folder(folder)
            descriptor = open_file(folder / MARKER, os.O_RDWR)
        except FileNotFoundError:
            return None
        hold = cls(folder, descriptor)
        try:
            hold.locked = lock(descriptor, shared=shared)
            if os.fstat(descriptor).st_ino == (folder / MARKER).lstat().st_ino:
                return hold
        except (BlockingIOError, FileNotFoundError):
            pass
        except BaseException:
            hold.forget()
            raise
        hold.release()
        return None

    def release(self) -> None:
        """Release the lock: the folder is not in use any more."""
        if self._descriptor is not None and self.locked:
            # this also unlocks the copy in a child that was forked and has not started yet
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)
        self.forget()

    def remove(self) -> None:
        """Remove the folder and release the lock. In a forked child, which has no lock, this does
        nothing."""
        if self._descriptor is not None:
            remove_folder(self.folder)
            self.release()

    def forget(self) -> None:
        """Close the descriptor. Another process that has it open, such as the parent of a forked
        child, keeps the lock."""
        descriptor = self._descriptor
        self._descriptor = None
        _holds.discard(self)
        if descriptor is not None:
            os.close(descriptor)


def lock(descriptor: int, *, shared: bool = False, wait: bool = False) -> bool:
    """Lock an open file. Returns False if its file system has no locks. Without `wait`, raises
    BlockingIOError if another process has the lock. Raises OSError."""
    try:
        fcntl.flock(
            descriptor,
            (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | (0 if wait else fcntl.LOCK_NB),
        )
    except OSError as error:
        if error.errno not in WITHOUT_LOCKS:
            raise
        return False
    return True


def sweep(parent: Path, pattern: str, unused: Callable[[Path], bool] = lambda folder: True) -> None:
    """Remove the marked folders below `parent` that match `pattern`, that no process holds, and
    that are `unused`."""
    with suppress(OSError):  # the parent does not exist
        for folder in list(parent.glob(pattern)):
            # another process sweeps at the same time, or the folder is not ours
            with suppress(OSError):
                if is_marked(folder) and unused(folder):
                    _remove_unheld(folder)


def _remove_unheld(folder: Path) -> None:
    hold = Hold.take(folder)
    if hold is None:
        return
    if hold.locked:
        hold.remove()
    else:
        hold.release()


def _forget_all() -> None:
    for hold in list(_holds):
        hold.forget()


os.register_at_fork(after_in_child=_forget_all)
