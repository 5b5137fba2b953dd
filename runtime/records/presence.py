"""What a lock tells others: does the `up` of a run live, and on which host?

held          a process on this kernel holds the flock
elsewhere     the file was renewed by another host within the last seconds
silent        another host's file that is not renewed any more: the host has died, or is cut off
None          there is no lock: `up` is over
"""

from __future__ import annotations

import fcntl
import os
import platform
import time
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from runtime.machine.boot import boot_id
from runtime.records import up_lock
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
    holder: up_lock.Holder
    folder: Path
    age: float = 0.0

    @property
    def lives(self) -> bool:
        """Whether it is known to live."""
        return self.sign is not Sign.SILENT

    @property
    def run(self) -> Path:
        """The directory of the present run."""
        return self.folder / self.holder.run

    @property
    def words(self) -> str:
        """What it is at, for people who cannot reach the run itself."""
        if self.sign is Sign.SILENT:
            return f"{self.holder.host}: last sign {self.age:.0f} s ago"
        if self.holder.state != up_lock.RUNNING:
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
    return _presence(up_lock.path_of(folder, up))


def presences(folder: Path) -> list[Presence]:
    """Of each `up` whose runs are in this folder. OSError."""
    found = (_presence(path) for path in sorted(folder.glob(f".up-*{up_lock.LOCK}")))
    return [presence for presence in found if presence is not None]


def _presence(path: Path) -> Presence | None:
    try:
        holder = up_lock.read(path)
    except FileNotFoundError:
        return None
    except ValueError:
        return None
    held = _is_held(path)
    if held:
        return Presence(Sign.HELD, holder, path.parent)
    if held is False and holder.boot == boot_id():
        return None
    return _by_time(path, holder)


def _is_held(path: Path) -> bool | None:
    """Whether a process holds the flock, as far as this kernel knows; None if the file system has none."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return None
    finally:
        os.close(descriptor)
    return False


def _by_time(path: Path, holder: up_lock.Holder) -> Presence | None:
    """Of a lock that this kernel cannot ask: by the time in it. Where the clocks of two hosts differ, it is watched
    until it is renewed."""
    age = time.time() - holder.renewed
    until = time.monotonic() + 2 * up_lock.RENEW_SECONDS
    while not 0 <= age <= FRESH_SECONDS and abs(age) <= WATCHED_SECONDS and time.monotonic() < until:
        time.sleep(LOOK_SECONDS)
        try:
            now = up_lock.read(path)
        except FileNotFoundError:
            return None
        except (OSError, ValueError):
            continue
        if now.renewed != holder.renewed:
            return Presence(Sign.ELSEWHERE, now, path.parent)
    if 0 <= age <= FRESH_SECONDS:
        return Presence(Sign.ELSEWHERE, holder, path.parent)
    if holder.host == platform.node() and holder.boot != boot_id():
        return None  # this machine was started again since
    return Presence(Sign.SILENT, holder, path.parent, max(0.0, age))
