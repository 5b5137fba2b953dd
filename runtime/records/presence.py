"""What a lock tells others: does the `up` of a run live, and on which host?

held          a process on this kernel holds the flock
elsewhere     the file was renewed by another host within the last seconds
silent        another host's file that is not renewed any more: the host has died, or is cut off
None          there is no lock: `up` is over
"""

from __future__ import annotations

import platform
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from runtime.machine.boot import boot_id
from runtime.records import lock_file
from runtime.records.identity import identity_of

FRESH_SECONDS = 15.0  # since the last renewal of a lock that lives
WATCHED_SECONDS = 600.0  # by so much two hosts' clocks may differ: so long a lock is watched before it counts as silent
LOOK_SECONDS = 0.25


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
    """The presence of the `up` that made this run directory. OSError if the directory is another user's. May take
    seconds, where the clocks of two hosts differ."""
    identity = identity_of(directory)
    if identity is None or not identity.up:
        return None
    return presence_by(directory.resolve().parent, identity.up)


def presence_by(folder: Path, up: str) -> Presence | None:
    """The presence of the `up` with this id, whose runs are in this folder. As `presence_of`."""
    return _presence(lock_file.path_of(folder, up))


def presences(folder: Path) -> list[Presence]:
    """Of each `up` whose runs are in this folder, but for those of other users. OSError."""
    paths = sorted(folder.glob(f".up-*{lock_file.LOCK}"))
    with ThreadPoolExecutor() as pool:  # each may have to be watched for seconds
        return [presence for presence in pool.map(_presence_of_ours, paths) if presence is not None]


def _presence_of_ours(path: Path) -> Presence | None:
    try:
        return _presence(path)
    except OSError:
        return None


def _presence(path: Path) -> Presence | None:
    holder = _read(path)
    if holder is None:
        return None
    held = lock_file.is_held(path)
    if held:
        return Presence(Sign.HELD, holder, path.parent)
    if held is False and holder.boot == boot_id():
        return None
    return _by_time(path, holder)


def _read(path: Path) -> lock_file.Holder | None:
    """What the lock says; None if it is gone, or damaged. An `up` that lives mends the damage when it renews the
    lock."""
    until = time.monotonic() + 2 * lock_file.RENEW_SECONDS
    while True:
        try:
            return lock_file.read(path)
        except FileNotFoundError:
            return None
        except ValueError:
            if lock_file.is_held(path) is False or time.monotonic() > until:
                return None
        time.sleep(LOOK_SECONDS)


def _by_time(path: Path, holder: lock_file.Holder) -> Presence | None:
    """Of a lock that this kernel cannot ask: by the time in it. Where the clocks of two hosts differ, it is watched
    until it is renewed."""
    age = time.time() - holder.renewed
    until = time.monotonic() + 2 * lock_file.RENEW_SECONDS
    while not 0 <= age <= FRESH_SECONDS and abs(age) <= WATCHED_SECONDS and time.monotonic() < until:
        time.sleep(LOOK_SECONDS)
        now = _read(path)
        if now is None:
            return None
        if now.renewed != holder.renewed:
            return Presence(Sign.ELSEWHERE, now, path.parent)
    if 0 <= age <= FRESH_SECONDS:
        return Presence(Sign.ELSEWHERE, holder, path.parent)
    if holder.host == platform.node() and holder.boot != boot_id():
        return None  # this machine was started again since
    return Presence(Sign.SILENT, holder, path.parent, max(0.0, age))
