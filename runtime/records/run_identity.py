"""The identity of a run: run.json in its run directory.

A run has a name, which several runs may share, and an id, which is unique. Runs are ordered by
their start times, in UTC. Run directories of versions before 2026-11-28 have no run.json. Their
start time is taken from the journal, and their name from config.toml.
"""

from __future__ import annotations

import dataclasses
import errno
import itertools
import json
import math
import os
import re
import secrets
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from runtime.machine.private_files import replace
from runtime.records import journal_reading, run_files

FILE = "run.json"
LATEST = datetime(9000, 1, 1, tzinfo=UTC).timestamp()  # a begin later than this is damage
FIRST_EVENTS = 20  # one of them has the time of day, except on virtual time
CONFIG = "config.toml"
STAMPED = re.compile(r"\d{8}-\d{6}-(.+)")  # the folder of a run, until somebody renames it


@dataclass(frozen=True)
class Identity:
    """The identity of one run. `id` is "" for a run of an earlier version. `began` is the start
    time in seconds since 1970, UTC. `continues` is the id of the run whose state this run started
    from, or "". `up` is the id of the `up` process that holds the lock (see `up_lock`), or "".
    `title` is the name that the topology gives its runs, such as that of the net, or ""."""

    id: str
    name: str
    began: float
    continues: str = ""
    up: str = ""
    title: str = ""

    @staticmethod
    def new(
        name: str, began: float, *, continues: str = "", up: str = "", title: str = ""
    ) -> Identity:
        """Return the identity of a run that starts now, with a new random id."""
        return Identity(secrets.token_hex(8), name, began, continues, up, title)

    @property
    def moment(self) -> str:
        """The start time as text, as in run.json: 2026-11-28T06:33:26.123456Z."""
        return (
            datetime.fromtimestamp(self.began, UTC)
            .isoformat(timespec="microseconds")
            .replace("+00:00", "Z")
        )

    def write(self, directory: Path) -> None:
        """Write run.json, completely or not at all. Raises OSError."""
        data = {**dataclasses.asdict(self), "began": self.moment}
        replace(directory / FILE, (json.dumps(data, indent=1) + "\n").encode())


def identity_of(directory: Path) -> Identity | None:
    """Return the identity of the run in `directory`, or None if it is not a run directory.

    If run.json is damaged or missing, the identity is taken from the journal. Raises
    PermissionError if run.json belongs to another user.
    """
    try:
        return recorded(directory)
    except run_files.Damaged as error:
        _check_user(error)
        return _earlier(directory)


def recorded(directory: Path) -> Identity:
    """Return the identity in run.json. Raises Damaged if run.json is damaged, and Missing in a run
    directory of an earlier version."""
    path = directory / FILE
    said = run_files.read_json(path)
    try:
        began = datetime.fromisoformat(said["began"])
        texts = {name: said[name] for name in ("id", "name", "continues", "up")}
        texts["title"] = said.get("title", "")  # versions before 2026-11-29 do not write it
        seconds = began.timestamp() if began.tzinfo is not None else math.nan
    except (ValueError, KeyError, TypeError, OverflowError) as error:
        raise run_files.damaged(path, error) from None
    if not 0 <= seconds < LATEST:
        raise run_files.damaged(path, f"began: found {said['began']!r}, not a time with its zone")
    if wrong := next((name for name, text in texts.items() if not _fits(name, text)), ""):
        raise run_files.damaged(path, f"{wrong}: found {texts[wrong]!r}")
    return Identity(began=seconds, **texts)


def _fits(name: str, text: object) -> bool:
    """Whether `text` can be the name or an id of a run. Ids become parts of file names."""
    return isinstance(text, str) and (name in ("name", "title") or not text or text.isalnum())


def _check_user(error: run_files.Damaged) -> None:
    if error.is_others:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES)) from None


def _earlier(directory: Path) -> Identity | None:
    """Return the identity of a run of an earlier version, or of a run whose run.json is damaged."""
    try:
        began = _journalled(directory)
    except run_files.Damaged as error:
        _check_user(error)
        return None
    return Identity("", _configured(directory), began)


def _journalled(directory: Path) -> float:
    """Return the start time by the first event that has a time of day. Runs on virtual time have no
    such event: for them the modification time of the journal counts."""
    path = directory / journal_reading.FILE
    for line in itertools.islice(run_files.Lines(path).rest(), FIRST_EVENTS):
        event = journal_reading.event_of(line.decode(errors="replace"))
        stamp = None if event is None else event.get("unix_seconds")
        if event is not None and isinstance(stamp, (int, float)) and event["t"] <= stamp < LATEST:
            return float(stamp - event["t"])
    return min(max(path.stat().st_mtime, 0.0), LATEST)


def configured(directory: Path) -> dict[str, Any]:
    """Return the configuration of a run from config.toml in its run directory. Raises Damaged or
    Missing."""
    return run_files.read_toml(directory / CONFIG)


def _configured(directory: Path) -> str:
    """Return the name of a run from its config.toml, else from the name of its folder, else "" if
    neither gives one."""
    try:
        said = configured(directory)
    except run_files.Damaged:
        return ""
    run = said.get("run")
    name = run.get("name") if isinstance(run, dict) else None
    stamped = STAMPED.fullmatch(directory.name)
    found = name or (stamped[1] if stamped else said.get("program"))
    return found if isinstance(found, str) else ""
