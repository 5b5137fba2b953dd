"""What a lock tells others: does the `up` of a run live, and on which host?

held          a process on this kernel holds the flock
elsewhere     the file was renewed by another host within the last seconds
silent        another host's file that is not renewed any more: the host has died, or is cut off
None          there is no lock: `up` is over

A lock that is damaged is written again by its holder within two seconds: so long it is watched.
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

FRESH_SECONDS = 15.0  # since the last renewal of a lock that lives
# by so much two hosts' clocks may differ: so long a lock is watched before it counts as silent
WATCHED_SECONDS = 600.0
LOOK_SECONDS = 0.25
UNREADABLE = "its lock is damaged"  # what a holder is at whose lock cannot be read


class Sign(Enum):
    """See the module docstring."""

    HELD = "held"
    ELSEWHERE = "elsewhere"
    SILENT = "silent"


@dataclass(frozen=True)
class Presence:
    """Of one `up`. `age`: seconds since its last sign."""

    sign: Sign
    holder: lock_file.Holder
    folder: Path
    age: float = 0.0

    @property
    def lives(self) -> bool:
        """Whether it is known to live."""
        return self.sign is not Sign.SILENT

    @property
    def run(self) -> Path | None:
        """The directory of the present run; None if `up` has made none yet, or it was removed."""
        directory = self.folder / self.holder.run
        return directory if self.holder.run and directory.is_dir() else None

    @property
    def file(self) -> Path:
        """The file of the lock."""
        return lock_file.path_of(self.folder, self.holder.up)

    @property
    def words(self) -> str:
        """What it is at, for people who cannot reach the run itself."""
        if self.sign is Sign.SILENT:
            return f"{self.holder.host}: last sign {self.age:.0f} s ago"
        if self.holder.state != lock_file.RUNNING:
            return self.holder.state
        return f"runs on {self.holder.host}"


def presence_of(directory: Path) -> Presence | None:
    """The presence of the `up` that made this run directory; where run.json is damaged, of the one
    whose present run it is. OSError if the directory is another user's; Damaged if its lock is
    damaged and nobody here holds it. May take seconds, where the clocks of two hosts differ."""
    identity = identity_of(directory)
    whole = directory.resolve()
    # a link may lead to a run directory that was moved away
    if identity is not None and identity.up:
        beside = directory.absolute().parent
        found_beside = None if beside == whole.parent else presence_by(beside, identity.up)
        return found_beside or presence_by(whole.parent, identity.up)
    if identity is None or identity.id:  # no run directory, or a run that no `up` has started
        return None
    found = presences(whole.parent)
    return next((presence for presence in found if presence.holder.run == whole.name), None)


def presence_by(folder: Path, up: str) -> Presence | None:
    """The presence of the `up` with this id, whose runs are in this folder. As `presence_of`."""
    (lock,) = _watched([lock_file.path_of(folder, up)])
    if lock.found is None and lock.damage is not None:
        raise lock.damage
    return lock.found


def unheard(text: str) -> None:
    """Nobody hears of a damaged lock."""


def presences(folder: Path, damaged: Callable[[str], None] = unheard) -> list[Presence]:
    """Of each `up` whose runs are in this folder; `damaged` hears of locks that cannot be read.
    OSError."""
    locks = _watched(sorted(folder.glob(f".up-*{lock_file.LOCK}")))
    for lock in locks:
        if lock.damage is not None:
            damaged(str(lock.damage))
    return [lock.found for lock in locks if lock.found is not None]


class _Lock:
    """A lock that is looked at until it leaves no doubt. `found`: what is known by now; `damage`:
    why it cannot be read."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._first: lock_file.Holder | None = None  # what it said when it could be read first
        self.found: Presence | None = None
        self.damage: Damaged | None = None
        self.is_sure = False
        self.look()

    def __repr__(self) -> str:
        return f"<look at {self._path}: {self.found}>"

    def look(self) -> None:
        """Once more."""
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
            # and not a host of the same name, which would renew it
            restarted = now.host == platform.node()
            # else the clocks of two hosts may differ
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
    """A look at each lock. Those that leave a doubt are watched together until their holders must
    have renewed them."""
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
