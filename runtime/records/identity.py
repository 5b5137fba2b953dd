"""The identity of a run: run.json in its run directory.

A run has a name, which several runs share, and an id, which no other run has. The order of runs is the order of their
begins, in UTC. Directories of versions before 2026-11-28 have no run.json: their begin is in their journal, and their
name in config.toml.
"""

from __future__ import annotations

import dataclasses
import json
import os
import secrets
import tomllib
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from runtime import regular
from runtime.machine import owned
from runtime.records import reading

FILE = "run.json"
LARGEST = 1 << 20  # bytes of run.json, config.toml, and a line of a journal
LATEST = datetime(9000, 1, 1, tzinfo=UTC).timestamp()  # a begin later than this is damage
FIRST_EVENTS = 20  # of which one has the time of the day, but on virtual time
CONFIG = "config.toml"


@dataclass(frozen=True)
class Identity:
    """Of one run. `id`: "" of an earlier version's; `began`: seconds since 1970, UTC; `continues`: the id of the run
    whose state it began with, or ""; `up`: the id of the process that holds the lock, see `up_lock`, or ""."""

    id: str
    name: str
    began: float
    continues: str = ""
    up: str = ""

    @staticmethod
    def new(name: str, began: float, *, continues: str = "", up: str = "") -> Identity:
        """Of a run that begins."""
        return Identity(secrets.token_hex(8), name, began, continues, up)

    @property
    def moment(self) -> str:
        """The begin, as run.json says it: 2026-11-28T06:33:26.123456Z."""
        return datetime.fromtimestamp(self.began, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")

    def write(self, directory: Path) -> None:
        """Write run.json, whole or not at all. OSError."""
        data = {**dataclasses.asdict(self), "began": self.moment}
        part = directory / f".{FILE}"
        descriptor = owned.open_file(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(json.dumps(data, indent=1) + "\n")
        part.replace(directory / FILE)


def identity_of(directory: Path) -> Identity | None:
    """The identity of the run in `directory`; None if it is not a run directory. PermissionError if it is another
    user's."""
    said = _json(directory / FILE)
    if said is not None:
        return said
    return _earlier(directory) if (directory / reading.FILE).is_file() else None


def _json(path: Path) -> Identity | None:
    """What run.json says; None if there is none, or it is damaged."""
    try:
        said: dict[str, Any] = json.loads(regular.read_bytes(path, LARGEST))
        began = datetime.fromisoformat(said["began"])
        seconds = began.timestamp()
        texts = {name: said[name] for name in ("id", "name", "continues", "up")}
        whole = began.tzinfo is not None and all(isinstance(text, str) for text in texts.values())
        return Identity(began=seconds, **texts) if whole and 0 <= seconds < LATEST else None
    except PermissionError:
        raise
    except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return None


def _earlier(directory: Path) -> Identity | None:
    """The identity of a run of an earlier version, or of one whose run.json is damaged."""
    try:
        began = _journalled(directory)
        return Identity("", _configured(directory), began)
    except PermissionError:
        raise
    except OSError:
        return None


def _journalled(directory: Path) -> float:
    """The begin by the first event that has a time of the day; on virtual time none has, and the file's counts."""
    path = directory / reading.FILE
    with path.open("rb") as lines:
        for _ in range(FIRST_EVENTS):
            event = reading.event_of(lines.readline(LARGEST).decode(errors="replace"))
            stamp = None if event is None else event.get("unix_seconds")
            if event is not None and isinstance(stamp, (int, float)) and event["t"] <= stamp < LATEST:
                return float(stamp - event["t"])
    return min(max(path.stat().st_mtime, 0.0), LATEST)


def configured(directory: Path) -> dict[str, Any]:
    """The configuration of a run, as config.toml of its run directory says it; empty if that cannot be read. OSError if
    it is another user's."""
    try:
        return tomllib.loads(regular.read_bytes(directory / CONFIG, LARGEST).decode())
    except PermissionError:
        raise
    except (OSError, ValueError, RecursionError):
        return {}


def _configured(directory: Path) -> str:
    """The name by config.toml; "" if that does not say it."""
    said = configured(directory)
    run = said.get("run")
    name = run.get("name") if isinstance(run, dict) else None
    found = name or said.get("program")
    return found if isinstance(found, str) else ""
