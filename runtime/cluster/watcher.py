"""The interface of an observer of a run."""

from __future__ import annotations

from typing import Any, Protocol

from runtime.cluster.lifecycle import Heartbeat
from runtime.errors import ConvoyError


class Watcher(Protocol):
    """An observer that is called while the run goes on, such as the journal or the live table."""

    def event(self, actor: str, event: str, fields: dict[str, Any]) -> None:
        """Take an event that an actor or the supervisor reports."""

    def beat(self, process: str, heartbeat: Heartbeat) -> None:
        """Take a heartbeat: a process lives and reports the state of its actors."""

    def failed(self, error: ConvoyError) -> None:
        """Take the error that ends the run. Called at once, before any process is stopped."""
