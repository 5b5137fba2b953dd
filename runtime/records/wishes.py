"""Wishes that an `up` ends: a file `.up-ID.end` next to its lock. The wish reaches `up` from every
machine that can write to the folder."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import secrets
from pathlib import Path
from typing import Any

from runtime.machine import owned
from runtime.records.lock_file import END, SIZE, path_of


def wish_of(folder: Path, up: str) -> bool | None:
    """Return the wish that this `up` ends, from a user with write access to its files: True for at
    once, False for a good end. None without a wish."""
    try:
        descriptor = owned.open_file(path_of(folder, up, END), os.O_RDONLY)
    except OSError:
        return None
    with os.fdopen(descriptor, "rb") as file:
        try:
            said: Any = json.loads(file.read(SIZE))
        except (OSError, ValueError, RecursionError):
            return None
    return bool(said.get("now")) if isinstance(said, dict) else None


def ask_to_end(folder: Path, up: str, *, now: bool) -> None:
    """Ask the `up` that holds this lock to end. Raises FileNotFoundError if the lock no longer
    exists, PermissionError if it belongs to another user, or another OSError."""
    lock = path_of(folder, up)
    if lock.stat().st_uid != os.geteuid():
        raise PermissionError(errno.EPERM, "it is another user's", str(lock))
    part = path_of(folder, up, f".{secrets.token_hex(4)}")
    descriptor = owned.open_file(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(json.dumps({"now": now}))
    part.rename(path_of(folder, up, END))


def withdraw(folder: Path, up: str) -> None:
    """Remove the wish: no command waits for the end of this `up` any longer, because it has ended
    or gave no sign."""
    with contextlib.suppress(OSError):
        path_of(folder, up, END).unlink()
