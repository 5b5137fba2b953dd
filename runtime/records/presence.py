"""The state of an `up` as its lock shows it: does the `up` still live, and on which host?

held          a process on this kernel holds the flock
elsewhere     another host renewed the file within the last seconds
silent        the file belongs to another host, which no longer renews it: that host has died, or
              is cut off
None          there is no lock: `up` has ended

The holder of a damaged lock rewrites it within two seconds. A damaged lock is therefore watched for
that long.
"""

from __future__ import annotations

import platform
import stat
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from runtime.machine.boot import boot_id
from runtime.records import lock_file
from runtime.records.run_files import Damaged, Missing
from runtime.records.run_identity import identity_of
from runtime.regular import is_folder

FRESH_SECONDS = 15.0  # a live lock was renewed at most so long ago
# the clocks of two hosts may differ by this much: a lock whose time is nearer is watched before it
# counts as silent
WATCHED_SECONDS = 600.0
LOOK_SECONDS = 0.25
UNREADABLE = "its lock is damaged"  # the state shown for a holder whose lock cannot be read


class Sign(Enum):
    """How the lock of an `up` looks. The module docstring explains the values."""

    HELD = "held"
    ELSEWHERE = "elsewhere"
    SILENT = "silent"


@dataclass(frozen=True)
class Presence:
    """The presence of one `up`. `age` is the time in seconds since its last sign of life."""

    sign: Sign
    holder: lock_file.Holder
    folder: Path
    age: float = 0.0

    @property
    def lives(self) -> bool:
        """Whether this `up` is known to live."""
        return self.sign is not Sign.SILENT

    @property
    def run(self) -> Path | None:
        """The directory of the current run. None if `up` has not made one yet, or if it was
        removed."""
        directory = self.folder / self.holder.run
        return directory if self.holder.run and is_folder(directory) else None

    @property
    def file(self) -> Path:
        """The path of the lock file."""
        return lock_file.path_of(self.folder, self.holder.up)

    @property
    def words(self) -> str:
        """The state of `up`, for a person without access to the run itself."""
        if self.sign is Sign.SILENT:
            return f"{self.holder.host}: last sign {self.age:.0f} s ago"
        if self.holder.state != lock_file.RUNNING:
            return self.holder.state
        return f"runs on {self.holder.host}"


def presence_of(directory: Path) -> Presence | None:
    """Return the presence of the `up` that made this run directory. None if that `up` has ended, or
    if no `up` started the run.

    If run.json is damaged, the `up` whose current run is in this directory counts. Raises OSError
    if the directory belongs to another user. Raises Damaged if the lock is damaged and no process
    here holds it. The call may take seconds if the clocks of two hosts differ.
    """
    identity = identity_of(directory)
    whole = directory.resolve()
    # `directory` may be a link to a run directory that was moved to another folder
    if identity is not None and identity.up:
        beside = directory.absolute().parent
        found_beside = None if beside == whole.parent else presence_by(beside, identity.up)
        return found_beside or presence_by(whole.parent, identity.up)
    if identity is None or identity.id:  # not a run directory, or a run not started by `up`
        return None
    found = presences(whole.parent)
    return next((presence for presence in found if presence.holder.run == whole.name), None)


def presence_by(folder: Path, up: str) -> Presence | None:
    """Return the presence of the `up` with this id whose runs are in this folder, or None if it has
    ended. Raises the same errors as `presence_of`."""
    (lock,) = _watched([lock_file.path_of(folder, up)])
    if lock.found is None and lock.damage is not None:
        raise lock.damage
    return lock.found


def unheard(text: str) -> None:
    """Ignore the report of a damaged lock."""


def presences(folder: Path, damaged: Callable[[str], None] = unheard) -> list[Presence]:
    """Return the presence of each `up` whose runs are in this folder.

    `damaged` is called with the error text of each lock that cannot be read. Raises OSError.
    """
    locks = _watched(sorted(folder.glob(f".up-*{lock_file.LOCK}")))
    for lock in locks:
        if lock.damage is not None:
            damaged(str(lock.damage))
    return [lock.found for lock in locks if lock.found is not None]


class _Lock:
    """A lock that is looked at until its state is certain. `found` is the presence known so far.
    `damage` is the error if the lock cannot be read."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._first: lock_file.Holder | None = None  # its content at the first successful read
        self.found: Presence | None = None
        self.damage: Damaged | None = None
        self.is_sure = False
        self.look()

    def __repr__(self) -> str:
        return f"<look at {self._path}: {self.found}>"

    def look(self) -> None:
        """Read the lock once more and update `found`, `damage` and `is_sure`."""
        try:
            self._is_whole(lock_file.read(self._path))
        except Missing:
            self.found = None
            self.damage = None
            self.is_sure = True
        except Damaged as error:
            self._is_damaged(error)

    def _is_whole(self, now: lock_file.Holder) -> None:
        self.damage = None
        before = self._first
        self._first = self._first or now
        held = lock_file.is_held(self._path)
        age = time.time() - now.renewed
        self.is_sure = True
        if held:
            self.found = Presence(Sign.HELD, now, self._path.parent)
        elif held is False and lock_file.is_same(self._path, now):
            self.found = None
        elif 0 <= age <= FRESH_SECONDS or (before is not None and before.renewed != now.renewed):
            self.found = Presence(Sign.ELSEWHERE, now, self._path.parent)
        else:
            # this host, not another one of the same name: that one would renew the lock
            restarted = now.host == platform.node()
            # with a smaller age, the clocks of the two hosts may merely differ
            self.is_sure = abs(age) > WATCHED_SECONDS and not restarted
            self.found = (
                None if restarted else Presence(Sign.SILENT, now, self._path.parent, max(0.0, age))
            )

    def _is_damaged(self, error: Damaged) -> None:
        self.found = None
        self.damage = error
        if error.is_others or not _is_regular(self._path):
            self.damage = None if error.is_others else error
            self.is_sure = True
        elif lock_file.is_held(self._path):
            up = self._path.name.removeprefix(".up-").removesuffix(lock_file.LOCK)
            holder = lock_file.Holder(up, platform.node(), boot_id(), 0, state=UNREADABLE)
            self.found = Presence(Sign.HELD, holder, self._path.parent)


def _watched(paths: Sequence[Path]) -> list[_Lock]:
    """Look at each lock. Locks whose state is doubtful are watched together until their holders
    must have renewed them."""
    locks = [_Lock(path) for path in paths]
    until = time.monotonic() + 2 * lock_file.RENEW_SECONDS
    while (doubtful := [lock for lock in locks if not lock.is_sure]) and time.monotonic() < until:
        time.sleep(LOOK_SECONDS)
        for lock in doubtful:
            lock.look()
    return locks


def _is_regular(path: Path) -> bool:
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except OSError:
        return False
