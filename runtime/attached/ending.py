"""Ending a run from outside: over its socket or, if that cannot be reached, through the lock of its
`up`.

reached by        request                            the run is over when
its socket        End, over the private socket       the run has reported it, and its `up` has
                                                     released the lock
its folder        a file next to the lock            `up` has released the lock
neither           none: its host is silent           unknown
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from runtime.attached.observed_run import ObservedRun
from runtime.attached.run_status import journal, said
from runtime.errors import ActorStopped, ConvoyError
from runtime.reasons import reason
from runtime.records.lock_file import END, RUNNING, is_locked, path_of
from runtime.records.presence import FRESH_SECONDS, Presence, presence_by, presence_of
from runtime.records.run_files import Damaged
from runtime.records.wishes import ask_to_end, withdraw

LOOK_SECONDS = 0.1


@dataclass(frozen=True)
class Ended:
    """The end of an `up`. `run` is its last run, `error` the error of that run or "". `before`
    means that it was over already."""

    run: Path
    error: str = ""
    before: bool = False


async def end(seen: ObservedRun, *, now: bool) -> Ended:
    """End the run, and the `up` that would begin another one after it. Returns when `up` is over.
    Raises ConvoyError if it does not answer. Raises it also if its host is silent, since then it is
    not known whether it is over."""
    error = ""
    answers = await seen.answers()
    try:
        presence = await asyncio.to_thread(_presence, seen.directory) if seen.is_here else None
    except Damaged:  # the lock is damaged; the socket is enough
        if not answers:
            raise
        presence = None
    with _opened(presence) as lock:
        asked = answers
        if answers:
            try:
                async with seen.client() as client:
                    error = await client.end(now=now)
            except ActorStopped:  # the run has ended meanwhile; another may follow
                asked = False
                if presence is None:
                    raise
        if presence is None:
            return Ended(seen.place, error, before=not answers)
        try:
            last = await _released(presence, lock, now=now, asked=asked)
        finally:
            withdraw(presence.folder, presence.holder.up)
        return Ended(last.run or seen.place, error or _failure(last))


@contextmanager
def _opened(presence: Presence | None) -> Iterator[int | None]:
    """The open file of a lock. It shows whether `up` lives even after the file was moved or
    removed. None if it cannot be opened."""
    descriptor = None
    if presence is not None:
        with suppress(OSError):
            descriptor = os.open(
                presence.file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            )
    try:
        yield descriptor
    finally:
        if descriptor is not None:
            os.close(descriptor)


async def _released(presence: Presence, lock: int | None, *, now: bool, asked: bool) -> Presence:
    """Wait until the lock is free, and return its last contents. `lock` is its open file. `asked`
    says that the present run was asked to end already, so that only a following run has to be
    asked. Raises ConvoyError if `up` stops renewing its lock."""
    wished = False
    last = presence
    up = presence.holder.up
    clock = asyncio.get_running_loop().time
    renewed = clock()
    wish = path_of(presence.folder, up, END)
    while True:
        if not last.lives:
            raise ConvoyError(
                f"{last.words}: whether the run {last.holder.run} is over is known on its "
                "host only; if that host is "
                f"gone for good, remove {last.file}"
            )
        if not asked or last.holder.run != presence.holder.run:
            asked = True
            presence = last
            wished = True
            await asyncio.to_thread(_ask, last.folder, up, now)
        elif wished and not wish.exists():  # another process has withdrawn the request
            await asyncio.to_thread(_ask, last.folder, up, now)
        found = await asyncio.to_thread(presence_by, last.folder, up)
        if found is None:
            if lock is None or not is_locked(lock):
                return last
            found = last  # the folder was moved, or the file removed; its holder restores it
        if found.holder.renewed != last.holder.renewed:
            renewed = clock()
        elif clock() - renewed > FRESH_SECONDS:
            whose = f"process {last.holder.pid} on {last.holder.host}"
            raise ConvoyError(
                f"the run {last.holder.run} does not answer: its `up`, "
                f"{whose}, gives no sign of life"
            )
        last = found
        await asyncio.sleep(LOOK_SECONDS)


def _presence(directory: Path) -> Presence | None:
    try:
        return presence_of(directory)
    except OSError as error:
        raise ConvoyError(f"{directory}: {reason(error)}") from None


def _ask(folder: Path, up: str, now: bool) -> None:
    try:
        ask_to_end(folder, up, now=now)
    except FileNotFoundError:  # the lock is gone: `up` has ended meanwhile
        pass
    except OSError as error:
        raise ConvoyError(
            f"{folder}: the run cannot be asked to end: {reason(error)} ({error.filename})"
        ) from None


def _failure(last: Presence) -> str:
    """The error of the last run. "" if `up` ended between two runs, since the earlier failure is
    already known."""
    if last.run is None or last.holder.state != RUNNING:
        return ""
    return said(journal(last.run), "failed", "error")
