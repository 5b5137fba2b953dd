"""The run directory: everything about one run in one place, readable without the program.

    config.toml    the resolved configuration     plan.json     actors, processes, links
    versions.json  what `up` runs with            events.jsonl  what happened, one JSON object a line
    logs/          one log per process            checkpoint-*.safetensors, written by the program
    said.toml      what cluster.toml said, of a run that was scaled
    service-times.json  how long array work took, if `run.record_service_times`

Nothing here is needed to run; deleting a run directory loses its history only. Only its owner may look into it.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from runtime.cluster.lifecycle import Heartbeat
from runtime.errors import ConvoyError, LaunchError
from runtime.report.journal import Journal


class RunDirectory:
    """Makes the directory of one run, with mode 0700, and writes its journal. LaunchError says what cannot be made.

    `on_trouble` hears in words what of the journal is lost.
    """

    def __init__(self, below: Path, name: str, now: Callable[[], float] = time.monotonic) -> None:
        stamp = time.strftime("%Y%m%d-%H%M%S")
        self.on_trouble: Callable[[str], None] = lambda text: None
        try:
            below.mkdir(parents=True, exist_ok=True)
            self.path = _make_unique(below / f"{stamp}-{name}")
            self._journal = Journal(self.path / "events.jsonl", lambda text: self.on_trouble(text))
        except OSError as error:
            text = f"run.directory {below}: no run directory can be made there: {error.strerror}"
            raise LaunchError(f"{text} ({error.filename})") from None
        self._now, self._began, self._made = now, now(), time.monotonic()

    @property
    def age(self) -> float:
        """Seconds of this machine's clock since the run began, whatever clock the run has."""
        return time.monotonic() - self._made

    def write(self, name: str, content: str | dict[str, Any] | list[Any]) -> None:
        """Write a file of the run: text as it is, anything else as JSON. LaunchError if it cannot be written."""
        text = content if isinstance(content, str) else json.dumps(content, indent=1) + "\n"
        try:
            (self.path / name).write_text(text)
        except OSError as error:
            raise LaunchError(f"{self.path / name}: cannot be written: {error.strerror}") from None

    def event(self, actor: str, event: str, fields: dict[str, Any]) -> None:
        """Append to events.jsonl; `t` is seconds since the run began."""
        self._journal.write(round(self._now() - self._began, 6), actor, event, fields)

    def beat(self, process: str, heartbeat: Heartbeat) -> None:
        """Heartbeats are not kept."""

    def failed(self, error: ConvoyError) -> None:
        """Journal what ended the run."""
        self.event("supervisor", "failed", {"error": str(error), "exit_code": error.exit_code})

    def close(self) -> None:
        """Close the journal."""
        self._journal.close()

    def discard(self) -> None:
        """Close it and leave nothing of it: there was no run."""
        self.close()
        shutil.rmtree(self.path, ignore_errors=True)


def _make_unique(path: Path) -> Path:
    for number in range(1, 1000):
        candidate = path if number == 1 else path.with_name(f"{path.name}-{number}")
        try:
            candidate.mkdir(mode=0o700)
        except FileExistsError:
            continue
        return candidate
    raise FileExistsError(path)
